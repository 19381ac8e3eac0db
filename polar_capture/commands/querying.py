"""`--sql`: the rows of one read-only statement in place of what a command lists by itself."""

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from polar_capture.commands.output import print_json, print_table

if TYPE_CHECKING:
    from polar_capture.store import Store

F = TypeVar("F", bound=Callable[..., Any])


def option(names: str = "") -> Callable[[F], F]:
    """`--sql`, as `query`; `names` says what may stand for the command's own arguments in it."""
    also = f" {names}." if names else ""
    return click.option(
        "--sql",
        "query",
        metavar="SELECT…",
        help=f"The rows of this read-only statement instead; db/README.md explains tables and views.{also}",
    )


def print_rows(captured: "Store", query: str, as_json: bool, **names: str | None) -> None:
    """The rows of a statement as a table or as a list of objects (binary columns in base64); each `:name` in it is that
    value. DatabaseError where it would write, or is wrong."""
    for name, value in names.items():
        if value is not None:
            parts = re.split(rf"(?<![:\w]):{name}\b", query)
            query = ("'" + value.replace("'", "''") + "'").join(parts)
    columns, rows = captured.sql(query)
    if as_json:
        print_json([dict(zip(columns, row, strict=True)) for row in rows])
    else:
        print_table(columns, rows)
