"""One real proxy in front of a scripted engine, for a whole run of the suite; a session for each test."""

import asyncio
import contextlib
import ssl
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from polar_capture import store as stores
from tests.double import Double
from tests.double.server import Logged
from tests.sdk.scenarios import answer
from tests.unit.process.serving import Process, serve

T = TypeVar("T")

GRACE = 0.5
"""Seconds; scenarios that come later than that wait 1.2 s."""


class Stage:
    """`via(session)` is the proxy's URL for one session; `calls(session)` its rows once they are all written."""

    def __init__(self, process: Process, double: Double, folder: Path) -> None:
        assert process.facts is not None
        self.process = process
        self.double = double
        self.proxy = process.facts.proxy
        self.tls = ssl.create_default_context(cafile=str(process.ca))
        self._database = f"sqlite:///{folder}/polar.db"

    def via(self, session: str) -> str:
        return self.proxy.replace("://", f"://{session}:@")

    def calls(self, session: str, count: int = 1, *, settled: bool = True) -> list[dict[str, Any]]:
        """The rows of a session, once there are `count` of them and (`settled`) all are delivered or given up. Of an
        answer on a WebSocket only the next frame tells that."""

        def read() -> list[dict[str, Any]]:
            with stores.open(self._database, create=False) as store:
                return [store.call(row["id"]) for row in store.calls(session)]

        def whole(rows: list[dict[str, Any]]) -> bool:
            known = all(row["delivered"] is not None or row["status"] == "error" for row in rows)
            return len(rows) >= count and (known or not settled)

        return _when(read, whole)

    def asked_for(self, mark: str) -> Logged:
        """The engine's log of the request with a mark, once it is there."""
        return _when(lambda: [entry for entry in self.double.chats if mark in str(entry.body)], bool)[-1]

    def left(self, entry: Logged, patience: float = 10.0) -> bool:
        """Whether the proxy gives up a request of the engine in time."""
        return _when(lambda: entry.disconnected_at, lambda at: at is not None, patience) is not None


def _when(read: Callable[[], T], done: Callable[[T], bool], patience: float = 15.0) -> T:
    """What `read` gives as soon as it is `done`, else what it gave last."""
    ends = time.monotonic() + patience
    while True:
        value = read()
        if done(value) or time.monotonic() > ends:
            return value
        time.sleep(0.05)


@contextlib.contextmanager
def staged(*options: str) -> Iterator[Stage]:
    """A proxy process with a double of its own in a thread."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    double = Double(lambda body, _: answer(body))

    def on_loop(work: Any) -> None:
        asyncio.run_coroutine_threadsafe(work, loop).result(20)

    on_loop(double.start())
    try:
        with tempfile.TemporaryDirectory(prefix="sdk-") as name:
            folder = Path(name)
            with serve(double.url, folder, "--header-grace", str(GRACE), "--egress", "block", *options) as process:
                yield Stage(process, double, folder)
    finally:
        on_loop(double.stop())
        loop.call_soon_threadsafe(loop.stop)
        thread.join(5)
