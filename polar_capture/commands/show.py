"""`polar-capture show`"""

from typing import TYPE_CHECKING, Any

import click

from polar_capture.commands import options
from polar_capture.commands.output import print_json
from polar_capture.config import ConfigError
from polar_capture.home import Home

if TYPE_CHECKING:
    from polar_capture.store import Store


@click.command()
@click.argument("name", metavar="CALL|SESSION", required=False)
@options.places
@options.as_json
@click.option("--group", metavar="G", help="Show the sessions of this group and their rewards.")
def show(name: str | None, db: str, home: Home, as_json: bool, group: str | None) -> None:
    """Show a call, a session or a group.

    `show CALL --json` has every column of `calls`, token arrays as plain lists and bodies as JSON.
    """
    if (name is None) == (group is None):
        raise ConfigError("name one thing to show: a CALL, a SESSION, or --group G")
    from polar_capture.commands import showing
    from polar_capture.commands.reading import open_store

    with open_store(db, home) as captured:
        if group is not None:
            found, draw = group_value(captured, group), showing.group
        elif name is not None and captured.session(name) is not None:
            found, draw = session_value(captured, name), showing.session
        else:
            found, draw = call_value(captured, str(name)), showing.call
        if as_json:
            print_json(found)
        else:
            draw(captured, found)


def call_value(captured: "Store", name: str) -> dict[str, Any]:
    """Every column of a call: arrays as lists, bodies as JSON values."""
    from polar_capture.commands.reading import decoded, unknown

    try:
        row = captured.call(name)
    except KeyError:
        raise unknown("call or session", name, captured) from None
    return {**row, **{column: decoded(row[column]) for column in ("request", "chat_request", "message")}}


def session_value(captured: "Store", name: str) -> dict[str, Any]:
    """A session's row, its calls without arrays and bodies, and all its rewards."""
    from polar_capture.commands.reading import known_session

    return {
        **known_session(captured, name),
        "calls": captured.calls(name),
        "rewards": captured.rewards(name),
    }


def group_value(captured: "Store", name: str) -> dict[str, Any]:
    """A group's statistics and its sessions, best reward first."""
    from polar_capture.commands.reading import unknown

    sessions = captured.sessions(group_id=name)
    if not sessions:
        raise unknown("group", name, captured)
    columns, rows = captured.sql("SELECT * FROM group_summary")
    summary = next(row for row in (dict(zip(columns, row, strict=True)) for row in rows) if row["group_id"] == name)
    sessions.sort(key=lambda row: (row["reward"] is None, -(row["reward"] or 0.0)))
    return {**summary, "members": sessions}
