"""How commands print: plain JSON on stdout, or tables that are coloured on a terminal and plain text elsewhere."""

import base64
import datetime
import json
import math
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any

import click

PIPED_WIDTH = 500
"""Columns where no terminal says how wide it is: tables that go into a pipe or a file are never cut."""


_DIRECTIONS = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u2028\u2029")


def print_json(value: Any) -> None:
    """`value` as JSON, one row of a list a line. ASCII only, so that any stdout takes it; NaN is null."""
    if isinstance(value, list) and value:
        click.echo("[\n" + ",\n".join(_dump(item) for item in value) + "\n]")
    else:
        click.echo(_dump(value))


def _dump(value: Any) -> str:
    try:
        return json.dumps(value, default=_plain, allow_nan=False)
    except ValueError:
        return json.dumps(_finite(value), default=_plain, allow_nan=False)


def _plain(value: object) -> object:
    if isinstance(value, bytes | memoryview):
        return base64.b64encode(bytes(value)).decode()
    if hasattr(value, "tolist"):
        return value.tolist()
    return str(value)


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {name: _finite(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value


def print_table(columns: Sequence[str], rows: Iterable[Sequence[Any]], *, numeric: Iterable[str] = ()) -> None:
    """Rows under their columns; `numeric` columns are set right."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    right = set(numeric)
    for column in columns:
        table.add_column(column, justify="right" if column in right else "left", overflow="fold")
    for row in rows:
        table.add_row(*(cell(value) for value in row))
    console().print(table)


def console() -> Any:
    """The rich console of stdout: colours on a terminal only."""
    from rich.console import Console

    found = Console(highlight=False, markup=False, soft_wrap=False)
    return found if found.is_terminal else Console(highlight=False, markup=False, width=PIPED_WIDTH)


def printable(text: str) -> str:
    """Text of a model or a harness that is safe to print: control characters and direction overrides (a terminal would
    obey them) and lone surrogates (no encoding takes them) become U+FFFD; line breaks and tabs stay."""
    return "".join(
        "\ufffd"
        if character in _DIRECTIONS or (character not in "\n\t" and unicodedata.category(character) in ("Cc", "Cs"))
        else character
        for character in text
    )


def cell(value: Any) -> str:
    """A value as one cell of a table."""
    match value:
        case None:
            return ""
        case bool():
            return "yes" if value else "no"
        case float():
            return f"{value:.6g}" if abs(value) < 1e5 else f"{value:.3f}"
        case bytes() | memoryview():
            return f"<{len(value)} bytes>"
        case list() | dict():
            return printable(json.dumps(value, ensure_ascii=False))
    return printable(str(value))


def moment(seconds: float | None) -> str:
    """A time of the database (UTC epoch seconds) in local time."""
    return "" if seconds is None else datetime.datetime.fromtimestamp(seconds).strftime("%Y-%m-%d %H:%M:%S")


def duration(begin: float | None, end: float | None) -> str:
    """Seconds between two times of the database, for people."""
    return "" if begin is None or end is None else f"{end - begin:.1f} s"
