"""A dialect's WebSocket, carried: frames in, actions out, the same calls and records as over HTTP."""

import asyncio
import logging
import time
from collections.abc import Callable

import uuid_utils
from aiohttp import WSMsgType, web

from polar_capture.bodies import MAX_BODY
from polar_capture.delivery import KEEPALIVE, plain
from polar_capture.dialects import registry
from polar_capture.dialects.base import Action, Dialect, Generate, HttpAnswer, Send, Socket, WireRequest
from polar_capture.faults import CallError, Fault, FaultKind
from polar_capture.gateway import Gateway
from polar_capture.lineage.minting import Minter
from polar_capture.origin import Origin
from polar_capture.retries import Attempt

log = logging.getLogger(__name__)

GOOD_BYE = (1000, 1001, 1005)
"""Close codes (RFC 6455 §7.4.1) of a client that ends by itself: done, going away, none given."""


Ended = Callable[[int], None]
"""Hears that a client has left, and how many of our frames the proxy had sent it."""


async def serve(
    request: web.BaseRequest,
    wire: WireRequest,
    origin: Origin,
    gateway: Gateway,
    model: Callable[[], str],
    opened: Callable[[Ended], None],
) -> web.StreamResponse:
    """Upgrade and serve one client until it leaves; 426 where the path has no WebSocket, or they are switched off.

    `opened` is given what wants to hear from the proxy how much of the answers it has sent: Codex leaves without a
    good-bye behind its last turn, and our side of the proxy is closed with 1000 either way.
    """
    dialect = registry.spokesman(wire.path, wire.host, wire.headers)
    socket = dialect.socket(wire, lambda: Minter(str(uuid_utils.uuid7()))) if gateway.websockets else None
    if socket is None:
        refusal = dialect.error(Fault(FaultKind.INVALID, "WebSocket is not served here: use HTTP"), wire)
        return await plain(request, HttpAnswer(426, refusal.body, {**refusal.headers, "connection": "close"}))
    response = web.WebSocketResponse(max_msg_size=MAX_BODY)
    await response.prepare(request)
    carrier = _Carrier(response, socket, dialect, origin, gateway, model)
    opened(carrier.left)
    await carrier.run()
    return response


class _Carrier:
    """Carries out one socket's actions. Frames go on being read while a call runs: the socket queues what it must."""

    def __init__(
        self,
        response: web.WebSocketResponse,
        socket: Socket,
        dialect: Dialect,
        origin: Origin,
        gateway: Gateway,
        model: Callable[[], str],
    ) -> None:
        self._response = response
        self._socket = socket
        self._dialect = dialect
        self._origin = origin
        self._gateway = gateway
        self._model = model
        self._call: asyncio.Task[None] | None = None
        self._answered: Attempt | None = None
        self._sent = 0

    async def run(self) -> None:
        try:
            async for message in self._response:
                if message.type in (WSMsgType.TEXT, WSMsgType.BINARY):
                    self.settle(True)
                    await self._act(self._received(message.data))
        finally:
            if self._origin.flow is None:
                # Before anything is awaited: the connection's end cancels this handler as well.
                self.settle(True if self._response.close_code in GOOD_BYE else None)
            if self._call is not None:
                self._call.cancel()
                await asyncio.wait({self._call})

    def left(self, passed: int) -> None:
        """The client has left, and the proxy had sent it so many frames."""
        self.settle(True if passed == self._sent else None)

    def settle(self, delivered: bool | None) -> None:
        """Say what became of the latest answer. Its frames are only known to have left us, until the client sends its
        next one, or leaves."""
        if self._answered is not None:
            self._gateway.leave(self._answered, delivered)
            self._answered = None

    def _received(self, frame: str | bytes) -> list[Action]:
        try:
            return self._socket.receive(frame)
        except Exception:
            log.exception("a fault of ours on a frame of a WebSocket")
            self._gateway.counts["internal_errors"] += 1
            return self._socket.fail(Fault(FaultKind.INTERNAL, "polar_capture failed on this frame"))

    async def _act(self, actions: list[Action]) -> None:
        for action in actions:
            if isinstance(action, Send):
                await self._response.send_str(action.data.decode())
                self._sent += 1
            else:
                self._call = asyncio.create_task(self._generate(action))

    async def _generate(self, wanted: Generate) -> None:
        attempt = None
        started_at = time.time()
        try:
            if self._gateway.draining:
                raise CallError(Fault(FaultKind.OVERLOADED, "the proxy is shutting down: try again"))
            parsed = await self._gateway.chains.run(self._dialect.resolve(wanted.call))
            attempt = await self._gateway.attempt_parsed(self._dialect, parsed, wanted.wire, self._origin, started_at)
            await self._act(self._socket.start(attempt.call.parsed, attempt.call.minter, self._model()))
            ending = await self._ending(attempt)
        except CallError as error:
            ending = self._socket.fail(error.fault)
        except (asyncio.CancelledError, ConnectionError):
            if attempt is not None:
                self._gateway.leave(attempt, False)
            raise
        except Exception:
            log.exception("a fault of ours on the WebSocket %s", wanted.wire.path)
            ending = self._socket.fail(Fault(FaultKind.INTERNAL, "polar_capture failed on this request"))
        try:
            await self._act(ending)
        except BaseException:
            if attempt is not None:
                self._gateway.leave(attempt, False)
            raise
        self.settle(True)  # the frame that asked for this answer came behind the one before
        self._answered = attempt

    async def _ending(self, attempt: Attempt) -> list[Action]:
        """Wait for the answer, with the header grace before the first no-op; what is left to send."""
        timeout = self._gateway.grace
        while not attempt.work.done():
            await asyncio.wait({attempt.work}, timeout=timeout)
            timeout = KEEPALIVE
            if not attempt.work.done():
                await self._act(self._socket.noop())
        return self._socket.finish(await asyncio.shield(attempt.work))
