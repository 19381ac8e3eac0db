"""`polar-capture db`"""

from pathlib import Path
from typing import Any

import click

from polar_capture.commands import options
from polar_capture.commands.output import cell, moment, print_json, print_table
from polar_capture.config import ConfigError
from polar_capture.exits import Exit, Failure
from polar_capture.home import Home


@click.group()
def db() -> None:
    """Upgrade, check, prune and move the database."""


@db.command()
@options.places
@options.as_json
def upgrade(db: str, home: Home, as_json: bool) -> None:
    """Bring an older database to this version's schema."""
    from polar_capture.store import upkeep

    before, after = upkeep.upgrade(db)
    if as_json:
        print_json({"before": before, "after": after})
    else:
        click.echo(f"already at revision {after}" if before == after else f"revision {before or 'none'} → {after}")


@db.command()
@click.argument("session", required=False)
@options.places
@options.as_json
def check(session: str | None, db: str, home: Home, as_json: bool) -> None:
    """Verify every row (or those of SESSION) against hashes, lengths and parents. Status 5 when one is wrong."""
    from polar_capture.commands.reading import known_session, open_store
    from polar_capture.store import upkeep

    with open_store(db, home) as captured:
        if session is not None:
            known_session(captured, session)
        findings = list(upkeep.check(captured, session))
        name = captured.database.name
    errors = sum(finding.level == "error" for finding in findings)
    if as_json:
        print_json([finding._asdict() for finding in findings])
    else:
        if findings:
            print_table(["level", "session", "call", "finding"], findings)
        click.echo(f"{name}: {errors} errors, {len(findings) - errors} notes" if findings else f"{name}: sound")
    if errors:
        raise click.exceptions.Exit(int(Exit.DATABASE))


@db.command()
@options.places
@options.as_json
def stats(db: str, home: Home, as_json: bool) -> None:
    """Rows, bytes and tokens."""
    from polar_capture.commands.reading import open_store
    from polar_capture.store import upkeep

    with open_store(db, home) as captured:
        found = upkeep.stats(captured)
    if as_json:
        print_json(found)
        return
    rows: list[tuple[str, Any]] = []
    for name, value in found.items():
        if isinstance(value, dict):
            rows += [(f"{name}: {part}", f"{number:,}") for part, number in value.items()]
        elif name.endswith("_at"):
            rows.append((name, moment(value)))
        else:
            rows.append((name, f"{value:,}" if isinstance(value, int) else cell(value)))
    print_table(["what", "value"], rows, numeric=["value"])


@db.command()
@options.places
@options.as_json
@click.option("--keep-days", type=click.FloatRange(min=0), metavar="D", help="Keep sessions that began within D days.")
@click.option("--keep-sessions", type=click.IntRange(min=0), metavar="N", help="Keep the latest N sessions.")
@click.option("--dry-run", is_flag=True, help="Only say what would go.")
def prune(
    db: str, home: Home, as_json: bool, keep_days: float | None, keep_sessions: int | None, dry_run: bool
) -> None:
    """Delete old sessions whole; with both options, what either keeps stays. No kept call loses what it needs."""
    if keep_days is None and keep_sessions is None:
        raise ConfigError("say what to keep: --keep-days D, --keep-sessions N, or both")
    from polar_capture.commands.reading import open_store
    from polar_capture.store import upkeep

    with open_store(db, home) as captured:
        gone = upkeep.prune(captured, keep_days=keep_days, keep_sessions=keep_sessions, dry_run=dry_run)
    if as_json:
        print_json({"sessions": gone.sessions, "calls": gone.calls, "detached": gone.detached, "dry_run": dry_run})
        return
    click.echo(f"{'would delete' if dry_run else 'deleted'} {gone.sessions} sessions with {gone.calls} calls")
    if gone.detached:
        click.echo(f"{gone.detached} kept calls that continued a deleted one now stand for themselves")


@db.command("export-session")
@click.argument("session")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@options.places
@options.as_json
def export_session(session: str, file: Path, db: str, home: Home, as_json: bool) -> None:
    """Write SESSION into FILE, a new SQLite database with nothing else in it."""
    from polar_capture.commands.reading import known_session, open_store
    from polar_capture.store import upkeep

    if file.exists():
        raise Failure(f"{file} exists: name a new file", Exit.USAGE)
    with open_store(db, home) as captured:
        known_session(captured, session)
        _tell(upkeep.export_session(captured, session, file), str(file), as_json)


@db.command("import-session")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False, exists=True))
@options.places
@options.as_json
def import_session(file: Path, db: str, home: Home, as_json: bool) -> None:
    """Merge the sessions of FILE (an exported one, or a whole database) into the database, which is made if need be."""
    from polar_capture import store
    from polar_capture.store import upkeep

    with store.open(db, spool=home.spool) as captured:
        _tell(upkeep.import_sessions(captured, file), captured.database.name, as_json)


@db.command()
@options.places
@options.as_json
def vacuum(db: str, home: Home, as_json: bool) -> None:
    """Give unused space back to the disk."""
    from polar_capture.commands.reading import open_store
    from polar_capture.store import upkeep

    with open_store(db, home) as captured:
        before, after = upkeep.vacuum(captured)
    if as_json:
        print_json({"bytes_before": before, "bytes_after": after})
    else:
        click.echo(f"{before:,} → {after:,} bytes")


def _tell(moved: Any, place: str, as_json: bool) -> None:
    """Say how many rows are new in `place`; `moved` is an `upkeep.Transferred`."""
    counts = {name: getattr(moved, name) for name in ("sessions", "calls", "rewards", "samples")}
    if as_json:
        print_json(counts)
    else:
        click.echo(f"new in {place}: " + ", ".join(f"{number} {name}" for name, number in counts.items()))
