"""The store as everyone but the capture path sees it: open, read back, give rewards, ask in SQL."""

import os
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import sqlalchemy as sa
import uuid_utils
from sqlalchemy.engine import RowMapping

from polar_capture.store import chains, operations, sql
from polar_capture.store.chains import BODY_COLUMNS, TokenLink, Tokens
from polar_capture.store.codec import CodecError
from polar_capture.store.contexts import Context
from polar_capture.store.database import Database, DatabaseError, parse_url, prepare
from polar_capture.store.escaping import escape, unescape
from polar_capture.store.links import bodies_of, load_context, load_tokens, token_links
from polar_capture.store.models import Call, MintedId, Reward, Session
from polar_capture.store.records import SessionRecord
from polar_capture.store.redaction import Patterns
from polar_capture.store.replay import replay_orphans
from polar_capture.store.spool import SpoolError, SpoolFolder
from polar_capture.store.writer import Writer

_SESSIONS: sa.Table = Session.__table__  # type: ignore[assignment]
_CALLS: sa.Table = Call.__table__  # type: ignore[assignment]
_MINTED: sa.Table = MintedId.__table__  # type: ignore[assignment]
_REWARDS: sa.Table = Reward.__table__  # type: ignore[assignment]

_WIDE = ("request", "chat_request", "message", "prompt_sha256", "prompt_ids", "completion_ids", "logprobs")
_NARROW = [column for column in _CALLS.c if column.name not in _WIDE]
_IN_CHUNK = 500


def open(
    url_or_path: str | os.PathLike[str],
    *,
    create: bool = True,
    spool: str | os.PathLike[str] | None = None,
    synchronous: str = "NORMAL",
) -> "Store":
    """Opens a database, and creates its schema where there is none yet (`create`).

    `spool` is the folder for what the database can't take; by default the folder of the SQLite file, or `spool` in
    POLAR_HOME. `synchronous=FULL` makes SQLite fsync at each commit (against power cuts; a killed process loses
    nothing either way). DatabaseError, with the remedy in its message, for anything that is not a database of this
    version.
    """
    database = Database(parse_url(url_or_path), synchronous=synchronous)
    try:
        prepare(database, create=create)
        folder = SpoolFolder.of(database, None if spool is None else Path(spool))
        replay_orphans(database, folder)
    except BaseException:
        database.dispose()
        raise
    return Store(database, folder)


class Store:
    """One open database. Safe for use by several threads; reading never blocks the writer."""

    def __init__(self, database: Database, spool: SpoolFolder) -> None:
        self.database = database
        self.spool = spool
        self._writer: Writer | None = None
        self._making = threading.Lock()

    def __enter__(self) -> "Store":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def writer(self) -> Writer:
        """The durable writer (one a store), which implements `records.Recorder`. DatabaseError where its spool can't be
        made, or where POLAR_REDACT holds something that is no pattern."""
        with self._making:
            if self._writer is None:
                try:
                    self._writer = Writer(self.database, self.spool, self._load_context, Patterns.from_environment())
                except (SpoolError, ValueError) as error:
                    raise DatabaseError(str(error)) from error
            return self._writer

    def close(self, timeout: float = 10.0) -> None:
        """Flushes the writer and closes every connection."""
        if self._writer is not None:
            self._writer.close(timeout)
            self._writer = None
        self.database.dispose()

    # --- sessions and rewards

    def session(self, session_id: str) -> dict[str, Any] | None:
        """The row of `sessions`, None where there is none."""
        rows = self._rows(sa.select(_SESSIONS).where(_SESSIONS.c.id == escape(session_id)))
        return rows[0] if rows else None

    def sessions(
        self, *, group_id: str | None = None, status: str | None = None, limit: int | None = None
    ) -> list[dict[str, Any]]:
        """Rows of the view `session_summary`, latest first."""
        view = sa.table("session_summary", *map(sa.column, ("group_id", "status", "started_at", "session_id")))
        query = sa.select(sa.text("*")).select_from(view).order_by(view.c.started_at.desc(), view.c.session_id.desc())
        chosen = sa.select(_SESSIONS.c.id).order_by(_SESSIONS.c.started_at.desc(), _SESSIONS.c.id.desc()).limit(limit)
        if group_id is not None:
            query = query.where(view.c.group_id == group_id)
            chosen = chosen.where(_SESSIONS.c.group_id == group_id)
        if status is not None:
            query = query.where(view.c.status == status)
            chosen = chosen.where(_SESSIONS.c.status == status)
        if limit is not None:
            # Chosen first, and given as values: the view would count the calls of every session before it drops them.
            with self.database.read.connect() as connection:
                ids = list(connection.execute(chosen).scalars())
            query = query.where(view.c.session_id.in_(ids)) if len(ids) <= _IN_CHUNK else query.limit(limit)
        return self._rows(query)

    def upsert_session(self, record: SessionRecord) -> None:
        """Creates or changes a session at once (the capture path uses the writer)."""
        with self.database.write.begin() as connection:
            operations.upsert_session(connection, record)

    def add_reward(
        self,
        session_id: str,
        value: float,
        *,
        name: str = "outcome",
        call_id: str | None = None,
        source: str | None = None,
        comment: str | None = None,
    ) -> str:
        """Records a reward and returns its id. KeyError for an unknown session or a call that is not the session's."""
        row = {
            "id": str(uuid_utils.uuid7()),
            "session_id": session_id,
            "value": float(value),
            "name": name,
            "created_at": time.time(),
        }
        row |= {"call_id": call_id, "source": source, "comment": comment}
        with self.database.write.begin() as connection:
            if connection.execute(sa.select(_SESSIONS.c.id).where(_SESSIONS.c.id == session_id)).first() is None:
                raise KeyError(f"session {session_id} is not in {self.database.name}")
            if call_id is not None:
                query = sa.select(_CALLS.c.id).where(_CALLS.c.id == call_id, _CALLS.c.session_id == session_id)
                if connection.execute(query).first() is None:
                    raise KeyError(f"call {call_id} is none of session {session_id}")
            operations.apply(connection, [operations.InsertReward(row)])
        return str(row["id"])

    def rewards(self, session_id: str) -> list[dict[str, Any]]:
        """All rewards of a session, in the order they were given."""
        query = sa.select(_REWARDS).where(_REWARDS.c.session_id == session_id)
        return self._rows(query.order_by(_REWARDS.c.created_at, _REWARDS.c.id))

    def reward_names(self) -> list[str]:
        """The names that rewards were given under."""
        return [row["name"] for row in self._rows(sa.select(_REWARDS.c.name).distinct().order_by(_REWARDS.c.name))]

    # --- calls

    def calls(self, session_id: str) -> list[dict[str, Any]]:
        """The narrow columns of a session's calls, by seq and choice."""
        query = sa.select(*_NARROW).where(_CALLS.c.session_id == session_id)
        return self._rows(query.order_by(_CALLS.c.seq, _CALLS.c.choice_index))

    def call(self, call_id: str) -> dict[str, Any]:
        """Every column of one call, unpacked: ids and logprobs as lists (None where the engine gave none), bodies as
        bytes, the hash in hex. KeyError for an unknown call, CodecError for a damaged one."""
        with self.database.read.connect() as connection:
            found = connection.execute(sa.select(_CALLS).where(_CALLS.c.id == call_id)).mappings().first()
            if found is None:
                raise KeyError(f"call {call_id} is not in {self.database.name}")
            row = _readable(found)
            bodies = bodies_of(connection, call_id)
            for column in BODY_COLUMNS:
                row[column] = bodies.body(call_id, column)
            tokens = self._tokens(connection, call_id)
        for name, array in zip(("prompt_ids", "completion_ids", "logprobs"), tokens, strict=True):
            row[name] = None if row[name] is None else array.tolist()
        row["prompt_sha256"] = row["prompt_sha256"].hex() if row["prompt_sha256"] else None
        return row

    def tokens(self, call_id: str) -> Tokens:
        """Prompt ids, completion ids and logprobs of a call, verified. KeyError for an unknown call, CodecError for a
        damaged one."""
        with self.database.read.connect() as connection:
            return self._tokens(connection, call_id)

    def body(self, call_id: str, column: str) -> bytes | None:
        """`request`, `chat_request` or `message` as it was captured; None where the call has none."""
        if column not in BODY_COLUMNS:
            raise ValueError(f"{column!r} is no body: {', '.join(BODY_COLUMNS)}")
        with self.database.read.connect() as connection:
            return bodies_of(connection, call_id).body(call_id, column)

    def session_tokens(self, session_id: str) -> Iterator[tuple[str, Tokens]]:
        """(call id, tokens) of a session's calls in order, each chain unpacked once. CodecError where one is
        damaged."""
        columns = [_CALLS.c[name] for name in TokenLink._fields]
        query = sa.select(*columns).where(_CALLS.c.session_id == session_id)
        with self.database.read.connect() as connection:
            rows = connection.execute(query.order_by(_CALLS.c.seq, _CALLS.c.choice_index)).all()
        try:
            for link, prompt in chains.join_prompts((TokenLink(*row) for row in rows), self._load_tokens):
                yield link.id, chains.tokens(link, prompt)
        except CodecError as error:
            raise CodecError(f"session {session_id}: {error}") from error

    def find_minted(self, ids: Iterable[str]) -> dict[str, str]:
        """The call of each id that we minted; ids of others are left out."""
        wanted = [escape(identifier) for identifier in ids]
        found: dict[str, str] = {}
        with self.database.read.connect() as connection:
            for begin in range(0, len(wanted), _IN_CHUNK):
                query = sa.select(_MINTED.c.id, _MINTED.c.call_id).where(
                    _MINTED.c.id.in_(wanted[begin : begin + _IN_CHUNK])
                )
                found.update((unescape(row.id), row.call_id) for row in connection.execute(query))
        return found

    def minted_by_call(self, session_id: str) -> dict[str, list[str]]:
        """All ids that were minted in a session, by call, in the order of their text."""
        query = sa.select(_MINTED.c.call_id, _MINTED.c.id).join(_CALLS, _CALLS.c.id == _MINTED.c.call_id)
        found: dict[str, list[str]] = {}
        with self.database.read.connect() as connection:
            for row in connection.execute(query.where(_CALLS.c.session_id == session_id).order_by(_MINTED.c.id)):
                found.setdefault(row.call_id, []).append(row.id)
        return found

    def max_seq(self, session_id: str) -> int:
        """The number of the session's last call, -1 where it has none."""
        with self.database.read.connect() as connection:
            last = connection.execute(
                sa.select(sa.func.max(_CALLS.c.seq)).where(_CALLS.c.session_id == session_id)
            ).scalar()
        return -1 if last is None else int(last)

    # --- SQL

    def sql(self, query: str) -> tuple[list[str], list[Sequence[Any]]]:
        """Column names and rows of one read-only statement. DatabaseError, in the database's words, where it is
        refused."""
        return sql.run(self.database, query, self)

    def _rows(self, query: sa.Select[Any]) -> list[dict[str, Any]]:
        with self.database.read.connect() as connection:
            return [_readable(row) for row in connection.execute(query).mappings()]

    def _tokens(self, connection: sa.Connection, call_id: str) -> Tokens:
        links = token_links(connection, call_id)
        if not links:
            raise KeyError(f"call {call_id} is not in {self.database.name}")
        return chains.tokens(links[0], chains.join_prompt(links))

    def _load_tokens(self, call_id: str) -> Context | None:
        with self.database.read.connect() as connection:
            return load_tokens(connection, call_id)

    def _load_context(self, call_id: str) -> Context | None:
        try:
            with self.database.read.connect() as connection:
                return load_context(connection, call_id)
        except (sa.exc.SQLAlchemyError, CodecError):
            return None  # the child is then packed whole: larger, and right


def _readable(row: RowMapping) -> dict[str, Any]:
    return {str(name): unescape(value) if isinstance(value, str) else value for name, value in row.items()}


__all__ = ["DatabaseError", "Store", "open"]
