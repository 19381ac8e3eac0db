"""SQL for people: one read-only statement, and on SQLite functions that unpack what is packed.

polar_prompt_ids(call_id), polar_completion_ids(call_id), polar_logprobs(call_id)   → JSON arrays as text
polar_text(call_id, 'request' | 'chat_request' | 'message'), polar_text(message)    → text
"""

import json
import sqlite3
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import sqlalchemy as sa

from polar_capture.store import codec
from polar_capture.store.chains import Tokens
from polar_capture.store.database import Database, DatabaseError, explain


class Unpacks(Protocol):
    """What the functions need of the store."""

    def tokens(self, call_id: str) -> Tokens: ...

    def body(self, call_id: str, column: str) -> bytes | None: ...


def run(database: Database, query: str, unpacks: Unpacks) -> tuple[list[str], list[Sequence[Any]]]:
    """Column names and rows. DatabaseError where the statement is wrong or would write."""
    if not query.strip().rstrip(";").strip():
        raise DatabaseError("the statement is empty: give a SELECT (statements here only read)")
    if database.is_sqlite:
        return _run_sqlite(database, query, unpacks)
    return _run_postgres(database, query)


def _run_sqlite(database: Database, query: str, unpacks: Unpacks) -> tuple[list[str], list[Sequence[Any]]]:
    try:
        connection = database.connect_read_only()
        try:
            connection.execute("PRAGMA query_only=ON")
            _add_functions(connection, unpacks)
            connection.set_authorizer(_only_reading)
            cursor = connection.execute(query)
            return [column[0] for column in cursor.description or ()], cursor.fetchall()
        finally:
            connection.close()
    except sqlite3.Error as error:
        raise DatabaseError(f"{error} (statements here only read)") from error


def _run_postgres(database: Database, query: str) -> tuple[list[str], list[Sequence[Any]]]:
    import psycopg  # only here: SQLite users need not pay for its import

    try:
        with database.read.connect() as connection:
            raw = connection.connection.driver_connection
            assert isinstance(raw, psycopg.Connection)
            raw.read_only = True
            try:
                # A cursor takes nothing but a query: COPY … TO PROGRAM reads as well, for PostgreSQL. Prepared, so
                # that it is one statement: no `; COMMIT; DROP`.
                raw.execute(f"DECLARE polar_rows NO SCROLL CURSOR FOR {query}".encode(), prepare=True)
                cursor = raw.execute("FETCH ALL FROM polar_rows")
                rows = cursor.fetchall()
                return [column.name for column in cursor.description or ()], list(rows)
            finally:
                raw.rollback()
                raw.read_only = None
    except psycopg.Error as error:
        raise DatabaseError(f"{str(error).strip()} (statements here only read)") from error
    except sa.exc.SQLAlchemyError as error:
        raise DatabaseError(explain(database, error)) from error


def _only_reading(
    action: int, first: str | None, second: str | None, _database: str | None, _trigger: str | None
) -> int:
    if action == sqlite3.SQLITE_PRAGMA:
        return sqlite3.SQLITE_OK if second is None else sqlite3.SQLITE_DENY
    if action == sqlite3.SQLITE_FUNCTION and (second or "").lower() == "load_extension":
        return sqlite3.SQLITE_DENY
    allowed = (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE)
    return sqlite3.SQLITE_OK if action in allowed else sqlite3.SQLITE_DENY


def _add_functions(connection: sqlite3.Connection, unpacks: Unpacks) -> None:
    def array(index: int) -> Callable[[str | None], str | None]:
        def value(call_id: str | None) -> str | None:
            return None if call_id is None else json.dumps(unpacks.tokens(call_id)[index].tolist())

        return value

    def text(value: str | bytes | None, column: str = "message") -> str | None:
        if isinstance(value, bytes):
            if codec.body_header(value).kind != codec.WHOLE:
                raise ValueError("this body is packed against another one: use polar_text(id, 'request')")
            return codec.unpack_body(value, "message")[0].decode("utf-8", "replace")
        body = None if value is None else unpacks.body(value, column)
        return None if body is None else body.decode("utf-8", "replace")

    for index, name in enumerate(("polar_prompt_ids", "polar_completion_ids", "polar_logprobs")):
        connection.create_function(name, 1, array(index))
    connection.create_function("polar_text", 1, text)
    connection.create_function("polar_text", 2, text)
