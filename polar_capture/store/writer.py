"""The durable writer: one thread that takes what was captured, packs it, and commits it in groups.

Where the database is away, locked or full, the group goes to the spool instead, and everything behind it too, until
the spool is replayed: so the order stays. A future resolves when its row is committed or fsynced in the spool.
"""

import logging
import queue
import threading
import time
from collections.abc import Iterable
from concurrent.futures import Future
from dataclasses import asdict, dataclass
from typing import Any

import msgspec
import sqlalchemy as sa
import uuid_utils

from polar_capture.store import operations as ops
from polar_capture.store.database import Database, DatabaseError, explain
from polar_capture.store.packing import LoadContext, Packer
from polar_capture.store.records import CallRecord, SessionRecord, StoreUnavailable
from polar_capture.store.redaction import Patterns
from polar_capture.store.replay import commit_singly, refuses, replay_some
from polar_capture.store.spool import SpoolError, SpoolFolder

log = logging.getLogger(__name__)

GROUP = 64
"""At most so many submissions share a commit."""
_RETRY_SECONDS = 0.5
_PATIENCE = 0.02
"""Seconds for which amendments wait for a call to share its commit: no client waits for them."""
_NO_MORE = None


@dataclass
class WriterStats:
    """Counts since the writer began. `pending` submissions wait in memory, `spool_left` entries wait in the spool."""

    rows: int = 0
    commits: int = 0
    spooled: int = 0
    replayed: int = 0
    failures: int = 0
    pending: int = 0
    spool_left: int = 0
    last_error: str | None = None


@dataclass(slots=True)
class _Submission:
    content: ops.Operation | list[CallRecord]
    future: Future[None]


class Writer:
    """Implements `records.Recorder`. Made by `Store.writer()`."""

    def __init__(
        self, database: Database, spool: SpoolFolder, load: LoadContext, patterns: Patterns | None = None
    ) -> None:
        self._database = database
        self._folder = spool
        self._packer = Packer(load, patterns=patterns)
        self._queue: queue.SimpleQueue[_Submission | None] = queue.SimpleQueue()
        self._stats = WriterStats()
        self._adopted = list(spool.orphans())
        self._own = spool.create()
        self._connection: sa.Connection | None = None
        self._retry_at = 0.0
        self._closed = False
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="polar-store-writer", daemon=True)
        self._thread.start()

    def session(self, record: SessionRecord) -> Future[None]:
        """Creates or changes a session."""
        return self._submit(ops.UpsertSession(record))

    def call(self, records: Iterable[CallRecord]) -> Future[None]:
        """All rows of one answer. The future raises ValueError where ids are no token ids."""
        return self._submit(list(records))

    def amend(self, call_id: str, changes: dict[str, Any]) -> Future[None]:
        """Changes narrow columns of a recorded call; ValueError at once for another column."""
        ops.check_amendment(changes)
        return self._submit(ops.AmendCall(call_id, changes))

    def reward(self, row: dict[str, Any]) -> Future[None]:
        """One reward: session_id and value, and what else of the table's columns is known (id and created_at are
        made)."""
        return self._submit(ops.InsertReward({"id": str(uuid_utils.uuid7()), "created_at": time.time(), **row}))

    def forget(self, minted: str) -> Future[None]:
        """Takes an id of ours out of `minted_ids`, so that it names no call any more."""
        return self._submit(ops.ForgetId(minted))

    def stats(self) -> dict[str, Any]:
        """The counts of WriterStats, for /metrics and /health."""
        left = sum(file.entries_left for file in [*self._adopted, self._own])
        return {**asdict(self._stats), "pending": self._queue.qsize(), "spool_left": left}

    def close(self, timeout: float = 10.0) -> bool:
        """Takes no more, brings what is queued to disk, and ends the thread; False where that took longer than
        `timeout` s."""
        with self._lock:
            if not self._closed:
                self._closed = True
                self._queue.put(_NO_MORE)
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def _submit(self, content: ops.Operation | list[CallRecord]) -> Future[None]:
        future: Future[None] = Future()
        with self._lock:
            if self._closed:
                future.set_exception(StoreUnavailable("the store is closed: the proxy is shutting down"))
            else:
                self._queue.put(_Submission(content, future))
        return future

    def _run(self) -> None:
        more = True
        while more:
            batch, more = self._next_batch()
            try:
                if batch:
                    self._write(batch)
                if self._spool_left():
                    self._replay(at_end=not more)
            except Exception as error:  # the thread must live: a dead writer would let every later call wait for ever
                log.exception("the store's writer failed")
                self._fail(batch, StoreUnavailable(f"the store's writer failed: {error!r}"))
                self._retry_at = (
                    time.monotonic() + _RETRY_SECONDS
                )  # or a spool that can't be replayed takes a whole core
        self._shut()

    def _next_batch(self) -> tuple[list[_Submission], bool]:
        batch: list[_Submission] = []
        patient, until = True, 0.0
        try:
            item = self._queue.get(timeout=self._wait())
            while item is not _NO_MORE:
                batch.append(item)
                if len(batch) == GROUP:
                    return batch, True
                until = until or time.monotonic() + _PATIENCE
                patient = patient and isinstance(item.content, ops.AmendCall)
                try:
                    item = self._queue.get_nowait()
                except queue.Empty:
                    if not patient:
                        return batch, True
                    item = self._queue.get(timeout=max(0.0, until - time.monotonic()))
        except queue.Empty:
            return batch, True
        return batch, False

    def _wait(self) -> float | None:
        return max(0.0, self._retry_at - time.monotonic()) if self._spool_left() else None

    def _spool_left(self) -> bool:
        return bool(self._adopted) or self._own.entries_left > 0

    def _write(self, batch: list[_Submission]) -> None:
        self._make_anew_what_vanished()
        ready = self._pack(batch)
        if not ready:
            return
        if not self._spool_left():
            try:
                self._commit([operation for _, operation in ready])
            except Exception as error:
                if refuses(error):
                    self._write_singly([submission for submission, _ in ready])
                    return
                self._away(error)
            else:
                self._resolve([submission for submission, _ in ready])
                return
        self._spool(ready)

    def _make_anew_what_vanished(self) -> None:
        if not self._database.vanished():
            return
        log.error("%s was removed under the proxy: it is made anew, what was in it is gone", self._database.name)
        self._packer.contexts.clear()  # nothing may be packed against what is gone
        self._let_go()
        try:
            self._database.reopen()
        except DatabaseError as error:
            self._stats.last_error = str(error)  # the commit below fails as well, and the spool takes over

    def _pack(self, batch: list[_Submission]) -> list[tuple[_Submission, ops.Operation]]:
        ready: list[tuple[_Submission, ops.Operation]] = []
        for submission in batch:
            try:
                ready.append((submission, self._operation(submission.content)))
            except (ValueError, TypeError) as error:
                self._fail([submission], error)
        return ready

    def _operation(self, content: ops.Operation | list[CallRecord]) -> ops.Operation:
        if not isinstance(content, list):
            return content
        rows = [self._packer.pack(record) for record in content]
        return ops.InsertCalls(rows, {record.id: record.minted for record in content if record.minted})

    def _commit(self, operations: list[ops.Operation]) -> None:
        try:
            self._transact(operations)
        except sa.exc.DBAPIError as error:
            if not error.connection_invalidated:
                raise
            self._transact(operations)  # a restarted server: one attempt on a new connection, all of it repeatable

    def _transact(self, operations: list[ops.Operation]) -> None:
        connection, self._connection = self._connection or self._database.write.connect(), None
        try:
            with connection.begin():
                ops.apply(connection, operations)
        except BaseException:
            connection.close()
            raise
        self._connection = connection  # kept while it is sound: the pool's work costs as much as a row
        self._stats.commits += 1

    def _let_go(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _write_singly(self, submissions: list[_Submission]) -> None:
        """One of the group is refused by a constraint: each alone, so that no other call suffers. All are packed
        again, because a refused row must not be the base of another."""
        for submission in submissions:
            if isinstance(submission.content, list):
                for record in submission.content:
                    self._packer.contexts.drop(record.id)
        for submission in submissions:
            operation = self._operation(submission.content)
            try:
                if self._spool_left():
                    self._spool([(submission, operation)])
                    continue
                commit_singly(self._database, operation)
                self._resolve([submission])
            except Exception as error:
                if refuses(error):
                    reason = f"the database refused the row: {explain(self._database, error)}"
                    self._fail([submission], StoreUnavailable(reason))
                    continue
                self._away(error)
                self._spool([(submission, operation)])

    def _spool(self, ready: list[tuple[_Submission, ops.Operation]]) -> None:
        away = f"the database is away ({self._stats.last_error}) and"
        payloads: list[bytes] = []
        taken: list[_Submission] = []
        for submission, operation in ready:
            try:
                payloads.append(msgspec.msgpack.encode(operation))
                taken.append(submission)
            except (ValueError, TypeError, OverflowError) as error:  # half a surrogate pair in a JSON column
                self._fail([submission], StoreUnavailable(f"{away} the spool can't hold the row: {error}"))
        try:
            self._own.append(payloads)
        except SpoolError as error:
            self._fail(taken, StoreUnavailable(f"{away} {error}"))
            return
        self._stats.spooled += len(taken)
        self._resolve(taken)

    def _replay(self, *, at_end: bool) -> None:
        if time.monotonic() < self._retry_at and not at_end:
            return
        try:
            self._database.probe()
            while self._spool_left():
                file = self._adopted[0] if self._adopted else self._own
                self._stats.replayed += replay_some(self._database, self._folder, file)
                if self._adopted and not file.entries_left:
                    self._adopted.pop(0).close()
                if not at_end and not self._queue.empty():
                    return
            log.warning("the spool is replayed: the database has everything again")
        except sa.exc.SQLAlchemyError as error:
            self._away(error)

    def _away(self, error: Exception) -> None:
        reason = explain(self._database, error)
        if reason != self._stats.last_error or not self._spool_left():
            log.error("the database does not take captures, the spool does: %s", reason)
        self._stats.last_error = reason
        self._retry_at = time.monotonic() + _RETRY_SECONDS

    def _resolve(self, submissions: list[_Submission]) -> None:
        for submission in submissions:
            self._stats.rows += len(submission.content) if isinstance(submission.content, list) else 1
            if submission.future.set_running_or_notify_cancel():
                submission.future.set_result(None)

    def _fail(self, submissions: list[_Submission], error: Exception) -> None:
        for submission in submissions:
            if isinstance(submission.content, list):
                for record in submission.content:
                    self._packer.contexts.drop(record.id)
            if submission.future.done():
                continue
            self._stats.failures += 1
            self._stats.last_error = str(error)
            if submission.future.set_running_or_notify_cancel():
                submission.future.set_exception(error)

    def _shut(self) -> None:
        self._let_go()
        for file in [*self._adopted, self._own]:
            file.close()
