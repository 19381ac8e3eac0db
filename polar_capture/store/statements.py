"""Statements that are compiled once and then go straight to the driver.

SQLAlchemy builds, keys and wraps a statement for each execution, which costs more than SQLite takes to run it. What the
writer does thousands of times is compiled here, on first use, for each of the two databases; types, transactions and
errors stay SQLAlchemy's.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from operator import itemgetter
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

_INSERTS: dict[str, Any] = {"sqlite": sqlite.insert, "postgresql": postgresql.insert}

Row = Mapping[str, Any]


class Statement:
    """One statement with bound values; `build` makes it for a dialect's name. Its binds are named as the rows are."""

    def __init__(self, build: Callable[[str], sa.Insert | sa.Update | sa.Delete]) -> None:
        self._build = build
        self._compiled: dict[str, _Compiled] = {}

    def execute(self, connection: sa.Connection, rows: Sequence[Row]) -> None:
        """Runs it once for each row, inside the connection's open transaction. Raises what SQLAlchemy raises."""
        name = connection.dialect.name
        compiled = self._compiled.get(name)
        if compiled is None:
            compiled = self._compiled[name] = _Compiled(self._build(name), connection.dialect)
        values: Any = [compiled.values(row) for row in rows]
        driver = connection.connection
        cursor = driver.cursor()
        try:
            cursor.executemany(compiled.text, values)
        except connection.dialect.loaded_dbapi.Error as error:
            raise wrapped(connection, compiled.text, error) from error
        finally:
            cursor.close()


class _Compiled:
    def __init__(self, clause: sa.Insert | sa.Update | sa.Delete, dialect: sa.Dialect) -> None:
        compiled: Any = clause.compile(dialect=dialect)
        self.text = str(compiled)
        self._positional = bool(compiled.positional)
        self._names: list[str] = list(compiled.positiontup or compiled.binds)
        self._get = itemgetter(*self._names) if len(self._names) > 1 else lambda row: (row[self._names[0]],)
        self._converted = []
        for place, name in enumerate(self._names):
            kind = compiled.binds[name].type.dialect_impl(dialect)
            if (convert := kind.bind_processor(dialect)) is not None:
                self._converted.append((place, convert))

    def values(self, row: Row) -> list[Any] | dict[str, Any]:
        """The row's values as the driver takes them."""
        values = list(self._get(row))
        for place, convert in self._converted:
            values[place] = convert(values[place])
        return values if self._positional else dict(zip(self._names, values, strict=True))


def insert_ignoring(name: str, table: sa.Table) -> Any:
    """INSERT for a dialect's name that leaves a row with the same id as it is. Other conflicts still fail: a row is
    never dropped for them."""
    return _INSERTS[name](table).on_conflict_do_nothing(index_elements=["id"])


def inserting(table: sa.Table, columns: Sequence[str] | None = None) -> Statement:
    """`insert_ignoring` of rows that have these columns, by default all."""
    names = columns or table.c.keys()
    return Statement(lambda name: insert_ignoring(name, table).values({key: sa.bindparam(key) for key in names}))


@lru_cache(maxsize=64)
def updating(table: sa.Table, columns: tuple[str, ...]) -> Statement:
    """UPDATE of these columns of the row that `key` names."""
    changed = {name: sa.bindparam(name, type_=table.c[name].type) for name in columns}
    return Statement(lambda _: sa.update(table).where(table.c.id == sa.bindparam("key")).values(changed))


def deleting(table: sa.Table) -> Statement:
    """DELETE of the row that `key` names."""
    return Statement(lambda _: sa.delete(table).where(table.c.id == sa.bindparam("key")))


def run_plain(connection: sa.Connection, text: str) -> None:
    """A statement without values and without rows. Raises what SQLAlchemy raises."""
    try:
        connection.connection.cursor().execute(text)
    except connection.dialect.loaded_dbapi.Error as error:
        raise wrapped(connection, text, error) from error


def wrapped(connection: sa.Connection, text: str, error: Exception) -> Exception:
    """A driver's error as SQLAlchemy gives it; a connection that is lost is not used again."""
    dialect = connection.dialect
    driver = connection.connection
    lost = dialect.is_disconnect(error, driver.dbapi_connection, None)  # type: ignore[arg-type]
    if lost:
        connection.invalidate(error)
    return sa.exc.DBAPIError.instance(
        text, None, error, dialect.loaded_dbapi.Error, connection_invalidated=lost, dialect=dialect
    )
