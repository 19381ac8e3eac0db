"""`db export-session` and `db import-session`: sessions as one portable file, and databases merged into one.

The file is a SQLite database of the same schema with nothing but that session in it, so everything here reads it too.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from polar_capture.store import operations as ops
from polar_capture.store.database import DatabaseError
from polar_capture.store.models import Reward, Sample, Session
from polar_capture.store.packing import Packer
from polar_capture.store.replay import commit_singly
from polar_capture.store.store import Store
from polar_capture.store.store import open as open_store
from polar_capture.store.unpacking import minted_ids, session_records, session_rows

_SESSIONS: sa.Table = Session.__table__  # type: ignore[assignment]
_REWARDS: sa.Table = Reward.__table__  # type: ignore[assignment]
_SAMPLES: sa.Table = Sample.__table__  # type: ignore[assignment]


@dataclass
class Transferred:
    """How many rows are new in the target."""

    sessions: int = 0
    calls: int = 0
    rewards: int = 0
    samples: int = 0


def export_session(store: Store, session_id: str, path: str | os.PathLike[str]) -> Transferred:
    """Writes one session into a new file. KeyError for an unknown session, DatabaseError where the file exists or
    can't be made, CodecError where a row is damaged. Calls that continue another session's call stand for themselves
    there."""
    target_path = Path(path)
    if target_path.exists():
        raise DatabaseError(f"{target_path} exists: name a new file")
    row = store.session(session_id)
    if row is None:
        raise KeyError(f"session {session_id} is not in {store.database.name}")
    with store.database.read.connect() as source, open_store(target_path) as target:
        records = list(session_records(source, session_id))
        own = {record.id for record in records}
        packer = Packer(lambda _: None)
        with target.database.write.begin() as connection:
            connection.execute(_SESSIONS.insert(), row)
            for record in records:
                if record.parent_call_id not in own:
                    record.parent_call_id, record.prefix_len = None, 0
                minted = {record.id: record.minted}
                ops.apply(connection, [ops.InsertCalls([packer.pack(record)], minted)])
            rewards = _copy(source, connection, _REWARDS, session_id)
            samples = _copy(source, connection, _SAMPLES, session_id)
    return Transferred(1, len(records), rewards, samples)


def import_sessions(store: Store, path: str | os.PathLike[str]) -> Transferred:
    """Merges every session of another database (an exported file, or a whole database) into this one.

    Calls have globally unique ids: those that are here already stay as they are, so importing twice changes nothing.
    A session id that both use is one session afterwards, its later calls numbered behind the earlier ones.
    DatabaseError for a source that is no database of this version.
    """
    total = Transferred()
    with open_store(path, create=False) as source, source.database.read.connect() as connection:
        for row in connection.execute(sa.select(_SESSIONS).order_by(_SESSIONS.c.started_at)).mappings().all():
            with store.database.write.begin() as target:
                total.sessions += ops.inserted(target, _SESSIONS, dict(row))
            total.calls += _import_calls(store, connection, row["id"])
            with store.database.write.begin() as target:
                total.rewards += _copy(connection, target, _REWARDS, row["id"])
                total.samples += _copy(connection, target, _SAMPLES, row["id"])
    return total


def _import_calls(store: Store, source: sa.Connection, session_id: str) -> int:
    minted = minted_ids(source, session_id)
    before = _count_calls(store, session_id)
    by_number: dict[int, list[dict[str, Any]]] = {}
    for row in session_rows(source, session_id):
        by_number.setdefault(row["seq"], []).append(row)
    # All choices of one answer together, as they were recorded.
    answers = [
        ops.InsertCalls(rows, {row["id"]: minted[row["id"]] for row in rows if row["id"] in minted})
        for rows in by_number.values()
    ]
    try:
        with store.database.write.begin() as target:
            ops.apply(target, answers)
    except sa.exc.IntegrityError:
        for answer in answers:
            commit_singly(store.database, answer)
    return _count_calls(store, session_id) - before


def _count_calls(store: Store, session_id: str) -> int:
    with store.database.read.connect() as connection:
        query = sa.text("SELECT COUNT(*) FROM calls WHERE session_id = :id")
        return int(connection.execute(query, {"id": session_id}).scalar_one())


def _copy(source: sa.Connection, target: sa.Connection, table: sa.Table, session_id: str) -> int:
    rows: Sequence[Any] = source.execute(sa.select(table).where(table.c.session_id == session_id)).mappings().all()
    return sum(ops.inserted(target, table, dict(row)) for row in rows)
