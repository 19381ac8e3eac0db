"""The commands of `polar-capture db` as functions: upgrade, check, stats, prune, export-session, import-session,
vacuum."""

import os
from typing import Any

import sqlalchemy as sa

from polar_capture import resources
from polar_capture.store.database import REVISION, Database, DatabaseError, explain, parse_url, read_revision
from polar_capture.store.integrity import Finding, check
from polar_capture.store.models import Call, MintedId, Reward, Sample, Session
from polar_capture.store.pruning import Pruned, prune
from polar_capture.store.store import Store
from polar_capture.store.transfer import Transferred, export_session, import_sessions

__all__ = [
    "Finding",
    "Pruned",
    "Transferred",
    "check",
    "export_session",
    "import_sessions",
    "prune",
    "stats",
    "upgrade",
    "vacuum",
]

_CALLS: sa.Table = Call.__table__  # type: ignore[assignment]
_TABLES: tuple[sa.Table, ...] = tuple(model.__table__ for model in (Session, Call, MintedId, Reward, Sample))  # type: ignore[misc]
_PACKED = ("request", "chat_request", "message", "prompt_ids", "completion_ids", "logprobs")


def upgrade(url_or_path: str | os.PathLike[str]) -> tuple[str | None, str]:
    """Brings a database to this version's schema and returns the revisions before and after. DatabaseError where it
    can't."""
    from alembic import command  # only here: it takes 0.2 s to import
    from alembic.config import Config
    from alembic.util import CommandError

    database = Database(parse_url(url_or_path))
    try:
        if database.is_sqlite and not database.path.exists():
            raise DatabaseError(f"{database.name} does not exist: name the database with --db or POLAR_DB")
        before = read_revision(database)
        if before is not None and before > REVISION:
            raise DatabaseError(
                f"{database.name} is at revision {before}, newer than {REVISION}: use a newer polar-capture"
            )
        config = Config()
        config.set_main_option("script_location", str(resources.folder("db")).replace("%", "%%"))
        config.attributes["database"] = database
        command.upgrade(config, "head")
    except CommandError as error:
        raise DatabaseError(f"{database.name}: {error}") from error
    except sa.exc.SQLAlchemyError as error:
        raise DatabaseError(explain(database, error)) from error
    finally:
        database.dispose()
    return before, REVISION


def stats(store: Store) -> dict[str, Any]:
    """Rows of each table, bytes of each packed column, tokens, bytes on disk, span of time, what waits in the spool."""
    with store.database.read.connect() as connection:
        rows = {table.name: _one(connection, sa.select(sa.func.count()).select_from(table)) for table in _TABLES}
        sums = {name: sa.func.coalesce(sa.func.sum(sa.func.length(_CALLS.c[name])), 0).label(name) for name in _PACKED}
        packed = dict(connection.execute(sa.select(*sums.values())).mappings().one())
        tokens = [sa.func.coalesce(sa.func.sum(_CALLS.c[name]), 0) for name in ("prompt_tokens", "completion_tokens")]
        prompt, completion = connection.execute(sa.select(*tokens)).one()
        first, last = connection.execute(
            sa.select(sa.func.min(_CALLS.c.started_at), sa.func.max(_CALLS.c.started_at))
        ).one()
        size = _size_on_disk(store.database, connection)
    return {
        "database": store.database.name,
        "revision": REVISION,
        "bytes_on_disk": size,
        "rows": rows,
        "packed_bytes": {name: int(value) for name, value in packed.items()},
        "prompt_tokens": int(prompt),
        "completion_tokens": int(completion),
        "first_call_at": first,
        "last_call_at": last,
        "spool_files": [str(path) for path in store.spool.waiting()],
    }


def vacuum(store: Store) -> tuple[int, int]:
    """Gives unused space back to the disk; the bytes on disk before and after. DatabaseError where the database is in
    use."""
    database = store.database
    try:
        with database.read.connect() as connection:
            before = _size_on_disk(database, connection)
        database.read.dispose()
        raw = database.write.raw_connection()
        try:
            if database.is_sqlite:
                raw.cursor().execute("VACUUM")
                raw.cursor().execute("PRAGMA wal_checkpoint(TRUNCATE)")
                raw.cursor().execute("PRAGMA optimize")
            else:
                raw.driver_connection.autocommit = True  # type: ignore[union-attr]
                raw.cursor().execute("VACUUM (ANALYZE)")
                raw.driver_connection.autocommit = False  # type: ignore[union-attr]
        finally:
            raw.close()
        with database.read.connect() as connection:
            return before, _size_on_disk(database, connection)
    except (sa.exc.SQLAlchemyError, database.write.dialect.loaded_dbapi.Error) as error:
        raise DatabaseError(explain(database, error)) from error


def _one(connection: sa.Connection, query: sa.Select[Any]) -> int:
    return int(connection.execute(query).scalar_one())


def _size_on_disk(database: Database, connection: sa.Connection) -> int:
    if not database.is_sqlite:
        return int(connection.execute(sa.text("SELECT pg_database_size(current_database())")).scalar_one())
    files = [database.path.with_name(database.path.name + suffix) for suffix in ("", "-wal")]
    return sum(path.stat().st_size for path in files if path.exists())
