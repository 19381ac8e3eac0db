"""HTTP to the engines: one pooled client without limits, whose connections are never trusted after a fault."""

import asyncio
import contextlib
import socket
import time
from collections.abc import AsyncIterator, Mapping
from typing import Any

import aiohttp
import msgspec

STALE_SECONDS = 1.0
"""A kept connection that had died shows it at once; one that ends later had been at work."""


class Unreachable(Exception):
    """No connection could be made: refused, no such host, no answer to the connect, bad TLS."""


class Cut(Exception):
    """The connection ended before the whole answer was there, or what came is no HTTP."""


class TimedOut(Exception):
    """The time given for the exchange is over."""


class Reply(msgspec.Struct, frozen=True):
    """A whole HTTP answer; header names in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Transport:
    """Exchanges with engines. Cancelling one closes its connection, so that vLLM aborts the request."""

    def __init__(self, *, api_key: str | None = None, connect_timeout: float = 3.0) -> None:
        self._headers = {"accept-encoding": "identity"}
        if api_key:
            self._headers["authorization"] = f"Bearer {api_key}"
        self._timeout = aiohttp.ClientTimeout(total=None, sock_connect=connect_timeout)
        self._pool: _Pool | None = None

    async def exchange(
        self, method: str, url: str, body: bytes | None = None, *, timeout: float | None = None
    ) -> Reply:
        """Send a request and read its whole answer; `timeout` in seconds, None waits for ever.

        A kept connection that turns out to be dead is replaced once, at once. Raises Unreachable, Cut, TimedOut.
        """
        try:
            async with asyncio.timeout(timeout):
                try:
                    return await self._once(method, url, body)
                except _DeadConnection as dead:
                    # Its siblings are as old as it was: a server that restarted dropped them all.
                    await self._retire(dead.pool)
                    return await self._once(method, url, body)
        except TimeoutError as error:
            raise TimedOut(f"no answer within {timeout:g} s") from error
        except _DeadConnection as error:
            raise Cut(str(error)) from error

    async def close(self) -> None:
        if self._pool is not None:
            await self._pool.session.close()
            self._pool = None

    async def _once(self, method: str, url: str, body: bytes | None) -> Reply:
        trace: dict[str, Any] = {}
        began = time.monotonic()
        headers = {"content-type": "application/json"} if body is not None else None
        async with self._pooled() as pool:
            try:
                async with pool.session.request(
                    method, url, data=body, headers=headers, allow_redirects=False, trace_request_ctx=trace
                ) as response:
                    content = await response.read()
                    if response.status >= 500:
                        # vLLM closes the connection behind a 500 without saying so (measured: ECONNRESET on the next).
                        await self._retire(pool)
                    lower = {name.lower(): value for name, value in response.headers.items()}
                    return Reply(response.status, lower, content)
            except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError, aiohttp.ClientSSLError) as error:
                raise Unreachable(str(error) or type(error).__name__) from error
            except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError) as error:
                reason = str(error) or type(error).__name__
                was_dead = trace.get("reused") and time.monotonic() - began < STALE_SECONDS
                raise (_DeadConnection(reason, pool) if was_dead else Cut(reason)) from error
            except aiohttp.ClientResponseError as error:
                raise Cut("what came is no HTTP") from error  # its text quotes what came
            except aiohttp.ClientError as error:
                raise Cut(str(error) or type(error).__name__) from error

    @contextlib.asynccontextmanager
    async def _pooled(self) -> AsyncIterator["_Pool"]:
        if self._pool is None:
            self._pool = _Pool(self._open())
        pool = self._pool
        pool.users += 1
        try:
            yield pool
        finally:
            pool.users -= 1
            if pool.users == 0 and pool is not self._pool:
                await pool.session.close()

    async def _retire(self, pool: "_Pool") -> None:
        """Open new connections from now on; those in use end with their exchanges."""
        if pool is self._pool:
            self._pool = None
            if pool.users == 0:
                await pool.session.close()

    def _open(self) -> aiohttp.ClientSession:
        traces = aiohttp.TraceConfig()
        traces.on_connection_reuseconn.append(_note_reuse)
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, socket_factory=_socket),
            timeout=self._timeout,
            headers=self._headers,
            cookie_jar=aiohttp.DummyCookieJar(),
            read_bufsize=2**20,  # an answer of 200 KB is read without pausing the socket
            trace_configs=[traces],
        )


class _Pool:
    """Connections of one age."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self.session = session
        self.users = 0


class _DeadConnection(Exception):
    """A connection that had been kept ended before any answer."""

    def __init__(self, reason: str, pool: _Pool) -> None:
        super().__init__(reason)
        self.pool = pool


async def _note_reuse(_session: aiohttp.ClientSession, context: Any, _params: Any) -> None:
    context.trace_request_ctx["reused"] = True


def _socket(address: Any) -> socket.socket:
    """A socket that notices in about two minutes when the machine behind it is gone: generations have no time limit."""
    family, kind, protocol, _, _ = address
    made = socket.socket(family=family, type=kind, proto=protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in {"TCP_KEEPIDLE": 60, "TCP_KEEPINTVL": 15, "TCP_KEEPCNT": 4}.items():
        if hasattr(socket, option):  # not on every platform
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
    return made
