"""From the spool into the database, in order. Repeating any part of it changes nothing: rows have UUIDs, changes set
values."""

import logging

import msgspec
import sqlalchemy as sa

from polar_capture.store import operations as ops
from polar_capture.store.database import Database, explain
from polar_capture.store.spool import SpoolFile, SpoolFolder

log = logging.getLogger(__name__)

_GROUP = 256
_DECODER = msgspec.msgpack.Decoder(ops.Operation)


def refuses(error: Exception) -> bool:
    """True where the row itself is at fault (a constraint, a value that does not fit), False where the database is."""
    at_fault = (sa.exc.IntegrityError, sa.exc.DataError, OverflowError, TypeError, ValueError)
    return isinstance(error, at_fault) or type(error) is sa.exc.StatementError


def commit_singly(database: Database, operation: ops.Operation) -> None:
    """One operation in its own transaction. Calls whose number is taken in their session (two processes counted
    alike) are put behind its last call."""
    try:
        with database.write.begin() as connection:
            ops.apply(connection, [operation])
    except sa.exc.IntegrityError:
        if not isinstance(operation, ops.InsertCalls):
            raise
        with database.write.begin() as connection:
            renumbered = ops.renumber(connection, operation)
            if renumbered is not operation:
                ops.apply(connection, [renumbered])


def replay_some(database: Database, folder: SpoolFolder, file: SpoolFile) -> int:
    """Replays the next entries of a file and returns how many. An entry that the database refuses for good is put
    aside in `<stem>.rejected` and logged, so that it does not hold up the rest. SQLAlchemyError where the database is
    still away."""
    payloads, offset = file.peek(_GROUP)
    entries: list[tuple[bytes, ops.Operation]] = []
    foreign: list[tuple[bytes, Exception]] = []
    for payload in payloads:
        try:
            entries.append((payload, _DECODER.decode(payload)))
        except msgspec.MsgspecError as error:
            foreign.append((payload, error))
    try:
        with database.write.begin() as connection:
            ops.apply(connection, [operation for _, operation in entries])
    except Exception as refusal:
        if not refuses(refusal):
            raise
        for payload, operation in entries:
            try:
                commit_singly(database, operation)
            except Exception as error:
                if not refuses(error):
                    raise
                where = folder.reject(payload)
                log.error("the database refuses a spooled entry, kept in %s: %s", where, explain(database, error))
    for payload, unknown in foreign:
        log.error("a spooled entry is no operation of this version, kept in %s: %s", folder.reject(payload), unknown)
    file.done(len(payloads), offset)
    return len(payloads)


def replay_orphans(database: Database, folder: SpoolFolder) -> int:
    """Replays what processes that are gone left in the spool, and returns how many entries. Where the database does
    not take them, they stay, and all behind them: trying each of many files would hold up the start for minutes, and
    one that got through would overtake the others."""
    replayed = 0
    for file in folder.orphans():
        try:
            while file.entries_left:
                replayed += replay_some(database, folder, file)
        except sa.exc.SQLAlchemyError as error:
            log.warning("%d captured entries wait in %s: %s", file.entries_left, file.path, explain(database, error))
            break
        finally:
            file.close()
    return replayed
