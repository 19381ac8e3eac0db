"""`polar-capture calls`"""

from typing import Any

import click

from polar_capture.commands import options, querying
from polar_capture.commands.output import print_json, print_table
from polar_capture.config import ConfigError
from polar_capture.home import Home

# A session id holds only letters, digits, dot, dash and underscore: it cannot end the literal.
SUMMARY = "SELECT call_id, seconds, new_prompt_tokens, extends_parent FROM call_summary WHERE session_id = '{session}'"


@click.command()
@click.argument("session", required=False)
@options.places
@options.as_json
@click.option("--tokens", is_flag=True, help="With prompt ids, sampled ids and logprobs.")
@querying.option(":session in it is SESSION")
def calls(session: str | None, db: str, home: Home, as_json: bool, tokens: bool, query: str | None) -> None:
    """List the calls of SESSION in order of arrival.

    The view `call_summary` has them all: `--sql "SELECT seq, seconds FROM call_summary WHERE session_id = :session"`.
    """
    if session is None and query is None:
        raise ConfigError("name a SESSION, or give a statement with --sql")
    if query is not None and tokens:
        raise ConfigError("--sql and --tokens exclude each other: db/README.md says how SQL reads token ids")
    from polar_capture.commands.reading import known_session, missing_arrays, open_store

    with open_store(db, home) as captured:
        if session is not None:
            known_session(captured, session)
        if query is not None or session is None:
            querying.print_rows(captured, query or "", as_json, session=session)
            return
        rows = captured.calls(session)
        columns, summaries = captured.sql(SUMMARY.format(session=session))
        told = {row[0]: dict(zip(columns[1:], row[1:], strict=True)) for row in summaries}
        rows = [row | told[row["id"]] for row in rows if row["id"] in told]
        if tokens:
            missing = missing_arrays(captured, session)
            arrays = dict(captured.session_tokens(session))
            for row in rows:
                for name, array in arrays[row["id"]]._asdict().items():
                    row[name] = None if missing[row["id"]][name] else array.tolist()
    if as_json:
        print_json(rows)
        return
    titles = ["seq", "call", "agent", "kind", "dialect", "model", "status", "prompt", "kept", "sampled", "finish"]
    titles += ["trainable", "reason", "warnings"]
    titles += ["prompt ids", "sampled ids", "logprobs"] if tokens else []
    print_table(
        titles,
        [_cells(row, tokens) for row in rows],
        numeric=["seq", "prompt", "kept", "sampled"],
    )


def _cells(row: dict[str, Any], tokens: bool) -> list[Any]:
    cells = [
        row["seq"] if row["choice_index"] == 0 else f"{row['seq']}.{row['choice_index']}",
        row["id"],
        row["agent"],
        row["kind"],
        row["dialect"],
        row["model_requested"],
        row["status"],
        row["prompt_tokens"],
        row["prefix_len"],
        row["completion_tokens"],
        row["finish_reason"],
        bool(row["trainable"]),
        row["reason"],
        ", ".join(row["warnings"] or []),
    ]
    if tokens:
        cells += [_ends(row["prompt_ids"]), _ends(row["completion_ids"]), _ends(row["logprobs"], ".3f")]
    return cells


def _ends(values: list[Any] | None, form: str = "d", keep: int = 4) -> str:
    """The first and last values of an array, for people."""
    if values is None:
        return "none"
    texts = [format(value, form) for value in values]
    return " ".join(texts if len(texts) <= 2 * keep else [*texts[:keep], "…", *texts[-keep:]])
