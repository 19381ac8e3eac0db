"""`db prune`: old sessions go, and no kept call loses what it was packed against."""

import time
from dataclasses import dataclass

import sqlalchemy as sa

from polar_capture.store.links import load_context
from polar_capture.store.models import Call, MintedId, Reward, Sample, Session
from polar_capture.store.packing import Packer
from polar_capture.store.store import Store
from polar_capture.store.unpacking import session_records

_SESSIONS: sa.Table = Session.__table__  # type: ignore[assignment]
_CALLS: sa.Table = Call.__table__  # type: ignore[assignment]
_MINTED: sa.Table = MintedId.__table__  # type: ignore[assignment]
_REPACKED = (
    *("parent_call_id", "prefix_len", "request", "chat_request", "message"),
    *("prompt_ids", "completion_ids", "logprobs"),
)
_CHUNK = 200


@dataclass
class Pruned:
    """What was (or, in a dry run, would be) deleted; `detached` calls that continued a deleted one now stand for
    themselves."""

    sessions: int = 0
    calls: int = 0
    detached: int = 0


def prune(
    store: Store, *, keep_days: float | None = None, keep_sessions: int | None = None, dry_run: bool = False
) -> Pruned:
    """Deletes whole sessions: all but those that began within `keep_days` or are among the `keep_sessions` latest.

    ValueError where neither is given. Calls of kept sessions that continue a deleted call are packed anew first, so
    that every kept call still unpacks; a deletion that is interrupted leaves whole sessions.
    """
    if keep_days is None and keep_sessions is None:
        raise ValueError("say what to keep: keep_days, keep_sessions or both")
    with store.database.read.connect() as connection:
        doomed = _doomed(connection, keep_days, keep_sessions)
        across = _links_across_sessions(connection)
        pruned = Pruned(sessions=len(doomed))
        for chunk in _chunks(doomed):
            counted = sa.select(sa.func.count()).select_from(_CALLS).where(_CALLS.c.session_id.in_(chunk))
            pruned.calls += int(connection.execute(counted).scalar_one())
    gone = set(doomed)
    heirs = {link.call for link in across if link.parent_session in gone and link.session not in gone}
    pruned.detached = len(heirs)
    if dry_run or not doomed:
        return pruned
    if heirs:
        _detach(store, heirs, _touched(across, gone))
    for chunk in _chunks(doomed):
        with store.database.write.begin() as connection:
            _delete_sessions(connection, chunk)
    return pruned


@dataclass(frozen=True)
class _Link:
    """A call whose parent is another session's."""

    call: str
    session: str
    parent_session: str


def _doomed(connection: sa.Connection, keep_days: float | None, keep_sessions: int | None) -> list[str]:
    query = sa.select(_SESSIONS.c.id, _SESSIONS.c.started_at)
    rows = connection.execute(query.order_by(_SESSIONS.c.started_at.desc(), _SESSIONS.c.id.desc())).all()
    oldest = None if keep_days is None else time.time() - keep_days * 86400
    return [
        row.id
        for place, row in enumerate(rows)
        if not (keep_sessions is not None and place < keep_sessions)
        and not (oldest is not None and row.started_at >= oldest)
    ]


def _links_across_sessions(connection: sa.Connection) -> list[_Link]:
    parent = _CALLS.alias("parent")
    query = sa.select(_CALLS.c.id, _CALLS.c.session_id, parent.c.session_id.label("parent_session"))
    query = query.join(parent, parent.c.id == _CALLS.c.parent_call_id)
    return [_Link(*row) for row in connection.execute(query.where(parent.c.session_id != _CALLS.c.session_id))]


def _touched(across: list[_Link], gone: set[str]) -> list[str]:
    """Kept sessions that lead to a deleted one, directly or by way of others: a body may be packed against a far
    ancestor."""
    touched: set[str] = set()
    while more := {link.session for link in across if link.parent_session in gone | touched} - touched - gone:
        touched |= more
    return sorted(touched)


def _detach(store: Store, heirs: set[str], sessions: list[str]) -> None:
    """Packs these sessions anew, the heirs standing for themselves. All are unpacked before the first is changed."""
    with store.database.write.begin() as connection:
        records = [record for session_id in sessions for record in session_records(connection, session_id)]
        packer = Packer(lambda call_id: load_context(connection, call_id))
        for record in sorted(records, key=lambda record: (record.started_at, record.seq, record.choice_index)):
            if record.id in heirs:
                record.parent_call_id, record.prefix_len = None, 0
            row = packer.pack(record)
            changed = {name: row[name] for name in _REPACKED}
            connection.execute(sa.update(_CALLS).where(_CALLS.c.id == record.id).values(changed))


def _delete_sessions(connection: sa.Connection, ids: list[str]) -> None:
    calls = sa.select(_CALLS.c.id).where(_CALLS.c.session_id.in_(ids))
    connection.execute(sa.delete(_MINTED).where(_MINTED.c.call_id.in_(calls)))
    for model in (Sample, Reward, Call):
        table: sa.Table = model.__table__  # type: ignore[assignment]
        connection.execute(sa.delete(table).where(table.c.session_id.in_(ids)))
    connection.execute(sa.delete(_SESSIONS).where(_SESSIONS.c.id.in_(ids)))


def _chunks(ids: list[str]) -> list[list[str]]:
    return [ids[begin : begin + _CHUNK] for begin in range(0, len(ids), _CHUNK)]
