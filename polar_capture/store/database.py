"""Connections to the two databases: engines with the right settings, the check of the schema's revision, its
creation."""

import json
import math
import os
import sqlite3
from pathlib import Path
from typing import Any
from urllib.parse import quote

import sqlalchemy as sa
from sqlalchemy.engine import URL, Engine, make_url
from sqlalchemy.pool import NullPool

from polar_capture import resources
from polar_capture.store.models import Base
from polar_capture.store.statements import run_plain

REVISION = "0001"
"""The head of the migrations in `db/versions`."""

VIEWS = ("session_summary", "call_summary", "group_summary", "training_samples")
BUSY_TIMEOUT_MS = 2000
"""How long a statement waits for another process's lock before the writer turns to its spool."""

PAGE_SIZE = 2048
"""Packed rows take some kilobytes: SQLite's 4096 would leave an eighth of a session's file unused."""

_PROBE_MS = 50
_CREATE_LOCK = 0x706F6C6172  # "polar": PostgreSQL's advisory lock while the schema is made
_UPGRADE = "run `polar-capture db upgrade`"


class DatabaseError(Exception):
    """The database can't be used as it is; the message names it and the remedy."""


def parse_url(url_or_path: str | os.PathLike[str]) -> URL:
    """`sqlite:///x`, `postgresql://…` or a bare path as an SQLAlchemy URL; DatabaseError for anything else."""
    text = os.fspath(url_or_path)
    if "://" not in text:
        return URL.create("sqlite", database=text)
    try:
        url = make_url(text)
    except sa.exc.ArgumentError as error:
        raise DatabaseError(
            f"{text!r} is no database URL ({error}): give a path, sqlite:///PATH or postgresql://…"
        ) from None
    backend = url.get_backend_name()
    if backend == "sqlite":
        if not url.database or url.database == ":memory:":
            raise DatabaseError(
                f"{text!r}: a database in memory would be lost with the process: give a file, sqlite:///PATH"
            )
        return URL.create("sqlite", database=url.database)
    if backend in ("postgresql", "postgres"):
        return url.set(drivername="postgresql+psycopg")
    raise DatabaseError(f"{text!r}: {backend} is not supported: give a path, sqlite:///PATH or postgresql://…")


class Database:
    """One database: `read` gives connections that can't write, `write` ones that take the write lock at once
    (SQLite)."""

    def __init__(self, url: URL, *, synchronous: str = "NORMAL") -> None:
        if synchronous not in ("NORMAL", "FULL"):
            raise ValueError(f"synchronous is NORMAL or FULL, not {synchronous!r}")
        self.url = url
        self.is_sqlite = url.get_backend_name() == "sqlite"
        self.name = (
            str(Path(url.database or "").absolute()) if self.is_sqlite else url.render_as_string(hide_password=True)
        )
        self._synchronous = synchronous
        self._file: tuple[int, int] | None = None
        self.write = self._sqlite_engine(writing=True) if self.is_sqlite else self._postgres_engine(writing=True)
        self.read = self._sqlite_engine(writing=False) if self.is_sqlite else self._postgres_engine(writing=False)

    @property
    def path(self) -> Path:
        """The SQLite file."""
        return Path(self.name)

    def vanished(self) -> bool:
        """True where the SQLite file is gone or another one stands in its place: what is written now would be lost."""
        if not self.is_sqlite:
            return False
        try:
            now = os.stat(self.name)
        except OSError:
            return True
        file = (now.st_dev, now.st_ino)
        self._file = self._file or file
        return file != self._file

    def reopen(self) -> None:
        """Makes a vanished database anew; DatabaseError where that can't be done."""
        self.dispose()
        self._file = None
        prepare(self, create=True)

    def probe(self) -> None:
        """Raises SQLAlchemyError at once where the database takes no writes now."""
        with self.write.connect() as connection:
            if not self.is_sqlite:
                connection.exec_driver_sql("SELECT 1")
                return
            cursor = connection.connection.cursor()
            cursor.execute(f"PRAGMA busy_timeout={_PROBE_MS}")
            try:
                with connection.begin():
                    pass
            finally:
                cursor.execute(f"PRAGMA busy_timeout={BUSY_TIMEOUT_MS}")

    def dispose(self) -> None:
        """Closes every connection that is not in use."""
        self.write.dispose()
        self.read.dispose()

    def connect_read_only(self) -> sqlite3.Connection:
        """A plain SQLite connection that the file system itself keeps from writing."""
        return sqlite3.connect(
            f"file:{quote(self.name)}?mode=ro", uri=True, check_same_thread=False, timeout=BUSY_TIMEOUT_MS / 1e3
        )

    def _sqlite_engine(self, *, writing: bool) -> Engine:
        engine = sa.create_engine(
            URL.create("sqlite", database=self.name),
            json_serializer=dump_json,
            connect_args={"timeout": BUSY_TIMEOUT_MS / 1000, "check_same_thread": False},
        )

        @sa.event.listens_for(engine, "connect")
        def configure(connection: sqlite3.Connection, _record: Any) -> None:
            connection.isolation_level = None  # transactions are begun below, not by the driver
            connection.execute("PRAGMA foreign_keys=ON")
            if writing:
                connection.execute(f"PRAGMA page_size={PAGE_SIZE}")  # of a new file only
                connection.execute("PRAGMA journal_mode=WAL")
                connection.execute(f"PRAGMA synchronous={self._synchronous}")
            else:
                connection.execute("PRAGMA query_only=ON")

        @sa.event.listens_for(engine, "begin")
        def begin(connection: sa.Connection) -> None:
            run_plain(connection, "BEGIN IMMEDIATE" if writing else "BEGIN")

        return engine

    def _postgres_engine(self, *, writing: bool) -> Engine:
        # tcp_user_timeout: a server whose machine is gone must not hold the writer for the kernel's 15 minutes.
        options = {
            "connect_timeout": 3,
            "keepalives_idle": 10,
            "tcp_user_timeout": 5000,
            "options": f"-c lock_timeout=3s -c default_transaction_read_only={'off' if writing else 'on'}",
            **dict(self.url.query),
        }
        return sa.create_engine(
            self.url.set(query={}),
            json_serializer=dump_json,
            connect_args=options,
            pool_size=2,
            max_overflow=3,
            pool_pre_ping=not writing,  # a restarted server must not fail a reader; the writer repeats by itself
            pool_timeout=5,
        )


def dump_json(value: Any) -> str:
    """JSON that both databases take: NaN and infinities, which JSON does not have, become strings."""
    try:
        return json.dumps(value, allow_nan=False)
    except ValueError:
        return json.dumps(_without_nan(value), allow_nan=False)


def prepare(database: Database, *, create: bool) -> None:
    """Makes sure that the database holds this version's schema; creates it where there is none. DatabaseError
    otherwise."""
    try:
        if database.is_sqlite:
            _prepare_file(database.path, create)
        revision = read_revision(database)
        if revision is None:
            if not create:
                raise DatabaseError(
                    f"{database.name} holds no captures: name another with --db, or capture something first"
                )
            _create_schema(database)
        elif revision != REVISION:
            raise DatabaseError(_wrong_revision(database.name, revision))
    except sa.exc.DatabaseError as error:
        raise DatabaseError(explain(database, error)) from error


def read_revision(database: Database) -> str | None:
    """The revision of the schema; None for an empty database, DatabaseError for one that holds something else."""
    with database.read.connect() as connection:
        tables = set(sa.inspect(connection).get_table_names())
        if "alembic_version" in tables:
            revision = connection.execute(sa.text("SELECT version_num FROM alembic_version")).scalar()
            if revision is not None:
                return str(revision)
        if foreign := tables - {"alembic_version"}:
            some = ", ".join(sorted(foreign)[:3])
            raise DatabaseError(
                f"{database.name} is another program's database (tables {some}): name another with --db"
            )
    return None


def create_views(connection: sa.Connection) -> None:
    """Creates the views of `db/views`."""
    for name in VIEWS:
        connection.exec_driver_sql(resources.view(name))


def drop_views(connection: sa.Connection) -> None:
    """Drops the views, so that the tables below them can change."""
    for name in reversed(VIEWS):
        connection.exec_driver_sql(f"DROP VIEW IF EXISTS {name}")


def explain(database: Database, error: Exception) -> str:
    """What a driver's error means for the user, with the remedy."""
    cause = str(getattr(error, "orig", None) or error).strip().splitlines()[0]
    lowered = cause.lower()
    if database.is_sqlite:
        remedy = {
            "not a database": "it is no SQLite file: name another with --db, or move it away",
            "malformed": "the file is damaged: save the rest with `sqlite3 FILE .recover`, or name another with --db",
            "locked": "another process holds it: end that one, or wait",
            "readonly": "give this user write permission for the file and its folder",
            "unable to open": "give this user permission for the file and its folder, or name another with --db",
            "full": "the disk is full: free some space",
        }
        advice = next((text for part, text in remedy.items() if part in lowered), "check the file and its disk")
    else:
        remedy = {
            "does not exist": "create it with `createdb`, or correct --db",
            "password": "correct user and password in --db",
            "permission denied": "grant this user the right to create tables there",
            "read-only": "it is a standby or set to read only: name the primary with --db",
        }
        advice = next(
            (text for part, text in remedy.items() if part in lowered),
            "check that the server runs and takes connections",
        )
    return f"{database.name}: {cause}: {advice}"


def _prepare_file(path: Path, create: bool) -> None:
    if path.is_dir():
        raise DatabaseError(f"{path} is a folder: name a file with --db, for instance {path / 'polar.db'}")
    if path.exists():
        if not os.access(path, os.R_OK):
            raise DatabaseError(f"{path} can't be read: give this user permission, or name another with --db")
        return
    if not create:
        raise DatabaseError(
            f"{path} does not exist: name the database with --db or POLAR_DB, or capture something first"
        )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        os.close(
            os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
        )  # captured prompts are private; SQLite's own files follow it
    except OSError as error:
        raise DatabaseError(f"{path} can't be created ({error.strerror}): name another place with --db") from error


def _create_schema(database: Database) -> None:
    """The models as they are: the same that the migrations give (a test compares them), without Alembic's start-up
    time."""
    with database.write.begin() as connection:
        if not database.is_sqlite:
            connection.execute(sa.text("SELECT pg_advisory_xact_lock(:key)"), {"key": _CREATE_LOCK})
        if sa.inspect(connection).has_table("alembic_version"):
            return  # another process was faster
        Base.metadata.create_all(connection, checkfirst=False)
        create_views(connection)
        connection.exec_driver_sql(
            "CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL CONSTRAINT alembic_version_pkc PRIMARY KEY)"
        )
        connection.exec_driver_sql(f"INSERT INTO alembic_version VALUES ('{REVISION}')")


def _wrong_revision(name: str, revision: str) -> str:
    if revision > REVISION:
        return f"{name} is at revision {revision}, this version knows {REVISION}: use a newer polar-capture"
    return f"{name} is at revision {revision}, this version needs {REVISION}: {_UPGRADE}"


def _without_nan(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {key: _without_nan(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(item) for item in value]
    return value


def unpooled(url: URL) -> Engine:
    """An engine for one-off work such as migrations."""
    return sa.create_engine(url, poolclass=NullPool, json_serializer=dump_json)
