"""Writes as values, and their execution inside one transaction. Every one of them can be repeated without a change.

An operation is what the writer queues, what the spool keeps, and what `apply` brings into the database: a session's
upsert, the packed rows of one answer, a change of narrow columns, a reward.
"""

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any

import msgspec
import sqlalchemy as sa

from polar_capture.outcomes import SessionStatus
from polar_capture.store.escaping import escape
from polar_capture.store.models import Call, MintedId, Reward, Session
from polar_capture.store.records import SessionRecord
from polar_capture.store.statements import deleting, insert_ignoring, inserting, updating

_SESSIONS: sa.Table = Session.__table__  # type: ignore[assignment]
_CALLS: sa.Table = Call.__table__  # type: ignore[assignment]
_MINTED: sa.Table = MintedId.__table__  # type: ignore[assignment]
_REWARDS: sa.Table = Reward.__table__  # type: ignore[assignment]

_INSERT_STUBS = inserting(_SESSIONS, ("id", "status", "metadata", "started_at"))
_INSERT_CALLS = inserting(_CALLS)
_INSERT_MINTED = inserting(_MINTED)
_INSERT_REWARDS = inserting(_REWARDS)
_FORGET = deleting(_MINTED)

AMENDABLE = frozenset({"attempt", "delivered", "trainable", "reason", "warnings", "user_turn"})


class UpsertSession(msgspec.Struct, tag="session", frozen=True):
    record: SessionRecord


class InsertCalls(msgspec.Struct, tag="calls", frozen=True):
    """Packed rows of one answer and the ids minted for it, by call."""

    rows: list[dict[str, Any]]
    minted: dict[str, list[str]]


class AmendCall(msgspec.Struct, tag="amend", frozen=True):
    call_id: str
    changes: dict[str, Any]


class InsertReward(msgspec.Struct, tag="reward", frozen=True):
    row: dict[str, Any]


class ForgetId(msgspec.Struct, tag="forget", frozen=True):
    """An id of ours that its client has deleted: it names no call any more. The call stays."""

    minted: str


Operation = UpsertSession | InsertCalls | AmendCall | InsertReward | ForgetId


def check_amendment(changes: dict[str, Any]) -> None:
    """ValueError for a column that may not change once a call is recorded."""
    if unknown := sorted(set(changes) - AMENDABLE):
        raise ValueError(
            f"{', '.join(unknown)} of a recorded call can't be changed; {', '.join(sorted(AMENDABLE))} can"
        )


def apply(connection: sa.Connection, operations: Sequence[Operation]) -> None:
    """Executes the operations in the open transaction: sessions, then calls, then what refers to calls."""
    for operation in operations:
        if isinstance(operation, UpsertSession):
            upsert_session(connection, operation.record)
    calls = [operation for operation in operations if isinstance(operation, InsertCalls)]
    _insert_calls(connection, calls)
    _amend(connection, [operation for operation in operations if isinstance(operation, AmendCall)])
    for operation in operations:
        if isinstance(operation, InsertReward):
            _insert_reward(connection, operation.row)
        elif isinstance(operation, ForgetId):
            _FORGET.execute(connection, [{"key": escape(operation.minted)}])


def inserted(connection: sa.Connection, table: sa.Table, row: dict[str, Any]) -> bool:
    """Inserts a row where its id is new, and says whether it was."""
    statement = insert_ignoring(connection.dialect.name, table).returning(table.c.id)  # drivers do not agree on counts
    return connection.execute(statement, row).first() is not None


def upsert_session(connection: sa.Connection, record: SessionRecord) -> None:
    """Creates the session, or changes what the record knows of it (None changes nothing)."""
    known = {
        "task_id": escape(record.task_id),
        "group_id": escape(record.group_id),
        "sample_index": record.sample_index,
        "harness": escape(record.harness),
        "harness_version": escape(record.harness_version),
        "status": record.status,
        "ended_at": record.ended_at,
    }
    created = {
        "status": SessionStatus.OPEN.value,
        **{name: value for name, value in known.items() if value is not None},
    }
    row = {
        **dict.fromkeys(known),
        **created,
        "id": record.id,
        "started_at": record.started_at,
        "metadata": record.extra or {},
    }
    if inserted(connection, _SESSIONS, row):
        return
    changes: dict[str, Any] = {name: value for name, value in known.items() if value is not None}
    if record.status == SessionStatus.OPEN:
        changes["ended_at"] = None  # it goes on
    if record.extra:
        metadata = sa.select(_SESSIONS.c.metadata).where(_SESSIONS.c.id == record.id).with_for_update()
        changes["metadata"] = {**(connection.execute(metadata).scalar_one() or {}), **record.extra}
    update = sa.update(_SESSIONS).where(_SESSIONS.c.id == record.id)
    connection.execute(update.where(_SESSIONS.c.started_at > record.started_at).values(started_at=record.started_at))
    if changes:
        connection.execute(update.values(changes))


def _insert_calls(connection: sa.Connection, operations: Iterable[InsertCalls]) -> None:
    rows = [row for operation in operations for row in operation.rows]
    if not rows:
        return
    # A session row may be missing where another process's spool still holds it. Sorted: no deadlock between processes.
    first = {row["session_id"]: row["started_at"] for row in reversed(rows)}
    stubs = [
        {"id": session_id, "started_at": first[session_id], "status": SessionStatus.OPEN.value, "metadata": {}}
        for session_id in sorted(first)
    ]
    _INSERT_STUBS.execute(connection, stubs)
    _INSERT_CALLS.execute(connection, rows)
    minted = [
        {"id": escape(minted), "call_id": call_id}
        for operation in operations
        for call_id, ids in operation.minted.items()
        for minted in ids
    ]
    if minted:
        _INSERT_MINTED.execute(connection, minted)


def renumber(connection: sa.Connection, operation: InsertCalls) -> InsertCalls:
    """The same calls behind the last one of their session: for two processes that gave one number to two calls."""
    session_id = operation.rows[0]["session_id"]
    known = sa.select(_CALLS.c.id).where(_CALLS.c.id.in_([row["id"] for row in operation.rows]))
    if connection.execute(known).first():
        return operation
    last = connection.execute(sa.select(sa.func.max(_CALLS.c.seq)).where(_CALLS.c.session_id == session_id)).scalar()
    seq = 0 if last is None else last + 1
    return InsertCalls([{**row, "seq": seq} for row in operation.rows], operation.minted)


def _amend(connection: sa.Connection, operations: Iterable[AmendCall]) -> None:
    # Neighbours that change the same columns go together, so that the order of changes to one call stays.
    for columns, group in groupby(operations, key=lambda operation: tuple(sorted(operation.changes))):
        if columns:
            updating(_CALLS, columns).execute(connection, [{"key": a.call_id, **_escaped(a.changes)} for a in group])


def _escaped(row: dict[str, Any]) -> dict[str, Any]:
    return {name: escape(value) if isinstance(value, str) else value for name, value in row.items()}


def _insert_reward(connection: sa.Connection, row: dict[str, Any]) -> None:
    complete = _escaped({**dict.fromkeys(_REWARDS.c.keys()), "name": "outcome", **row})
    _INSERT_REWARDS.execute(connection, [complete])
