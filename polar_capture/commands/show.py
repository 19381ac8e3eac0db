"""`polar-capture show`"""

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from polar_capture.commands import options, querying
from polar_capture.commands.output import print_json
from polar_capture.config import ConfigError
from polar_capture.exits import Exit, Failure
from polar_capture.home import Home

if TYPE_CHECKING:
    from polar_capture.store import Store


@click.command()
@click.argument("name", metavar="CALL|SESSION", required=False)
@options.places
@options.as_json
@click.option("--group", metavar="G", help="Show the sessions of this group and their rewards.")
@click.option(
    "--html",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write one page that needs no network: calls, token tree, tokens with their logprobs.",
)
@click.option(
    "--tokenizer",
    metavar="PATH|MODEL",
    help="Tokenizer that gives ids their text, a folder or a model of the hub; else the served model's own "
    "where this machine has it, else the engine is asked.  [env: POLAR_TOKENIZER]",
    envvar="POLAR_TOKENIZER",
)
@click.option(
    "--upstream",
    metavar="URL",
    envvar="POLAR_UPSTREAM",
    help="Engine that is asked for the text of ids; else those that answered the calls.  [env: POLAR_UPSTREAM]",
)
@querying.option(":name in it is CALL or SESSION, :group is G")
def show(
    name: str | None,
    db: str,
    home: Home,
    as_json: bool,
    group: str | None,
    html: Path | None,
    tokenizer: str | None,
    upstream: str | None,
    query: str | None,
) -> None:
    """Show a call, a session or a group.

    `show CALL --json` has every column of `calls`, token arrays as plain lists and bodies as JSON. `show SESSION --html
    FILE` writes a page to look at in a browser; with a CALL, that call is open in it.
    """
    if query is None and (name is None) == (group is None):
        raise ConfigError("name one thing to show: a CALL, a SESSION, or --group G; or give a statement with --sql")
    if html is not None and (as_json or query is not None):
        raise ConfigError(f"--html and --{'json' if as_json else 'sql'} exclude each other")
    from polar_capture.commands import showing
    from polar_capture.commands.reading import open_store

    with open_store(db, home) as captured:
        if query is not None:
            querying.print_rows(captured, query, as_json, name=name, group=group)
            return
        if html is not None:
            write_page(captured, html, name, group, tokenizer, upstream)
            return
        if group is not None:
            found, draw = group_value(captured, group), showing.group
        elif name is not None and captured.session(name) is not None:
            found, draw = session_value(captured, name), showing.session
        else:
            found = call_value(captured, str(name))
            pieces = None if as_json else _call_pieces(found, tokenizer, upstream)
            draw = partial(showing.call, pieces=pieces)
        if as_json:
            print_json(found)
        else:
            draw(captured, found)


def _call_pieces(found: dict[str, Any], tokenizer: str | None, upstream: str | None) -> dict[int, bytes] | None:
    """Texts of what a call sampled: always where a tokenizer or an engine is named, else on a terminal only."""
    from polar_capture import tokenizers

    if not (tokenizer or upstream or sys.stdout.isatty()) or not found["completion_ids"]:
        return None
    try:
        source, _ = tokenizers.find(tokenizer, _named(upstream) or [(found["upstream"], found["model_served"])])
        return source.of(found["completion_ids"]) if source is not None else None
    except tokenizers.TokenizerError as error:
        raise Failure(str(error), Exit.FAULT) from error


def write_page(
    captured: "Store", file: Path, name: str | None, group: str | None, tokenizer: str | None, upstream: str | None
) -> None:
    """Write the page of a session, of a call's session, or of a group; says on stderr where it is."""
    from polar_capture import tokenizers
    from polar_capture.commands.reading import unknown
    from polar_capture.pages.group import group_page
    from polar_capture.pages.session import session_page

    chosen = None
    if name is not None and captured.session(name) is None:
        try:
            chosen, name = name, captured.call(name)["session_id"]
        except KeyError:
            raise unknown("call or session", name, captured) from None
    whole = group_value(captured, group) if group is not None else None
    sessions = [name] if whole is None else [row["session_id"] for row in whole["members"]]
    try:
        pieces, note = tokenizers.find(tokenizer, _engines(captured, sessions, upstream))
        page = (
            group_page(captured, whole, pieces, note)
            if whole is not None
            else session_page(captured, str(name), pieces, note, chosen)
        )
        file.write_text(page, encoding="utf-8")
    except tokenizers.TokenizerError as error:
        raise Failure(str(error), Exit.FAULT) from error
    except OSError as error:
        raise Failure(f"{file} cannot be written: {error.strerror or error}", Exit.FAULT) from error
    if note:
        click.echo(note, err=True)
    click.echo(f"wrote {file} ({file.stat().st_size / 1e6:.1f} MB)", err=True)


def _engines(captured: "Store", sessions: list[Any], upstream: str | None) -> list[tuple[str, str | None]]:
    """Engines that may know the tokens: the one that was named, else those of the calls, latest first."""
    rows = [row for session in sessions[:4] for row in captured.calls(session) if row["upstream"]]
    if upstream:
        return _named(upstream)
    return list(dict.fromkeys((row["upstream"], row["model_served"]) for row in reversed(rows)))[:3]


def _named(upstream: str | None) -> list[tuple[str, str | None]]:
    return [(url, None) for url in (upstream or "").replace(",", " ").split()]


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
    sessions.sort(
        key=lambda row: (row["reward"] is None, -(row["reward"] or 0.0), row["sample_index"] or 0, row["session_id"])
    )
    return {**summary, "members": sessions}
