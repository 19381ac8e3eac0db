"""`polar-capture sessions`"""

from typing import Any

import click

from polar_capture.commands import options, querying
from polar_capture.commands.output import duration, moment, print_json, print_table
from polar_capture.config import ConfigError
from polar_capture.home import Home

STATUSES = ["open", "completed", "failed", "timeout", "abandoned"]

NUMERIC = ["calls", "turns", "trainable", "prompt", "sampled", "unmapped", "warnings", "reward", "took"]
COLUMNS = ["session", "status", "harness", "task", "group", *NUMERIC[:-1], "started", "took"]

COUNTS = """
SELECT session_id, SUM(json_array_length(unmapped)) AS unmapped, SUM(json_array_length(warnings)) AS warnings
FROM calls GROUP BY session_id
"""


@click.command()
@options.places
@options.as_json
@click.option("--group", metavar="G", help="Only the sessions of this group.")
@click.option("--status", type=click.Choice(STATUSES), help="Only sessions of this status.")
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Only the latest N.")
@querying.option()
def sessions(
    db: str,
    home: Home,
    as_json: bool,
    group: str | None,
    status: str | None,
    limit: int | None,
    query: str | None,
) -> None:
    """List the sessions, latest first: calls, tokens, what can be trained on, reward.

    They are the rows of the view `session_summary`: `--sql "SELECT session_id, reward FROM session_summary WHERE …"`.
    """
    if query is not None and (group or status or limit):
        raise ConfigError("--sql chooses by itself: put --group, --status and --limit into its WHERE and LIMIT")
    from polar_capture.commands.reading import open_store

    with open_store(db, home) as captured:
        if query is not None:
            querying.print_rows(captured, query, as_json)
            return
        rows = captured.sessions(group_id=group, status=status, limit=limit)
        _, counts = captured.sql(COUNTS)
    extra = {row[0]: {"unmapped": int(row[1] or 0), "warnings": int(row[2] or 0)} for row in counts}
    none = {"unmapped": 0, "warnings": 0}
    rows = [{"id": row["session_id"], **row, **extra.get(row["session_id"], none)} for row in rows]
    if as_json:
        print_json(rows)
        return
    print_table(
        COLUMNS,
        [_cells(row) for row in rows],
        numeric=NUMERIC,
    )


def _cells(row: dict[str, Any]) -> list[Any]:
    harness = " ".join(filter(None, (row["harness"], row["harness_version"])))
    return [
        row["id"],
        row["status"],
        harness,
        row["task_id"],
        row["group_id"],
        row["calls"],
        row["turns"],
        row["trainable_calls"],
        row["prompt_tokens"],
        row["completion_tokens"],
        row["unmapped"],
        row["warnings"],
        row["reward"],
        moment(row["started_at"]),
        duration(row["first_call_at"], row["last_call_at"]),
    ]
