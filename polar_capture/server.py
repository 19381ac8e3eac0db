"""The gateway's HTTP front: the loopback listener behind the proxy, and the plain base-URL endpoint."""

import asyncio
import functools
import hmac
import logging
import secrets
from collections.abc import Awaitable, Callable
from typing import Protocol
from urllib.parse import unquote

from aiohttp import web

from polar_capture import bodies, sessions, websocket
from polar_capture.backlog import BACKLOG
from polar_capture.delivery import deliver, plain
from polar_capture.dialects import registry
from polar_capture.dialects.base import Dialect, HttpAnswer, Operation, Route, WireRequest
from polar_capture.faults import CallError, Fault, FaultKind
from polar_capture.gateway import Gateway
from polar_capture.local_answers import LocalAnswers
from polar_capture.origin import Origin
from polar_capture.retries import Attempt

log = logging.getLogger(__name__)

FLOW_HEADER = "x-polar-flow"
MAX_FIELD = 64 * 1024
"""Bytes of a request line or a header, as much as the proxy itself lets through. Harnesses pack metadata into them."""
_BIG_BODY = 4 * 1024 * 1024
"""Bytes above which a body is decoded off the event loop."""
_API_KEY_HEADERS = ("x-api-key", "x-goog-api-key", "api-key")


class Control(Protocol):
    """The control host (`control.ControlHost`): one for the proxy's requests, one for a listener of its own."""

    async def handle(self, request: web.BaseRequest, body: bytes) -> web.StreamResponse: ...

    async def serve(self, request: web.BaseRequest) -> web.StreamResponse: ...


class GatewayServer:
    """The listeners of one gateway. Requests of the proxy carry `FLOW_HEADER: <secret>.<flow id>`; others get 403."""

    def __init__(
        self,
        gateway: Gateway,
        control: Control,
        *,
        model: Callable[[], str],
        key: str | None = None,
        local: LocalAnswers | None = None,
    ) -> None:
        self._gateway = gateway
        self._control = control
        self._model = model
        self._key = key
        self._local = local
        self._secret = secrets.token_hex(16)
        self._expected: dict[str, Origin] = {}
        self._unconfirmed: dict[str, Attempt] = {}
        self._sockets: dict[str, websocket.Ended] = {}
        self._runners: list[web.ServerRunner] = []

    # --- what the proxy calls ----------------------------------------------------------------------------------------

    def expect(self, flow_id: str, origin: Origin) -> str:
        """Announce a request of the proxy; the value for `FLOW_HEADER`."""
        self._expected[flow_id] = origin
        return f"{self._secret}.{flow_id}"

    def flow_ended(self, flow_id: str, whole: bool | None) -> None:
        """The whole answer has been sent (True), the client has left (False), or nobody can tell (None)."""
        self._expected.pop(flow_id, None)
        attempt = self._unconfirmed.pop(flow_id, None)
        if attempt is not None:
            self._gateway.leave(attempt, whole)

    def socket_ended(self, flow_id: str, passed: int) -> None:
        """A WebSocket's client has left, and had been sent so many of our frames."""
        ended = self._sockets.pop(flow_id, None)
        if ended is not None:
            ended(passed)

    # --- life cycle --------------------------------------------------------------------------------------------------

    async def listen(self) -> int:
        """Open the loopback listener behind the proxy; its port."""
        return await self._open(self._behind_proxy, "127.0.0.1", 0)

    async def listen_plain(self, host: str, port: int) -> int:
        """Open the base-URL endpoint; its port. Raises OSError when the port is taken."""
        return await self._open(self._base_url, host, port)

    async def listen_control(self, port: int) -> int:
        """Open the control host's own loopback port. Raises OSError when it is taken."""
        return await self._open(self._control.serve, "127.0.0.1", port)

    async def close(self) -> None:
        for runner in self._runners:
            await runner.cleanup()

    async def _open(
        self, handler: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]], host: str, port: int
    ) -> int:
        server = web.Server(
            handler,
            handler_cancellation=True,
            access_log=None,
            auto_decompress=False,
            max_line_size=MAX_FIELD,
            max_field_size=MAX_FIELD,
        )
        runner = web.ServerRunner(server, shutdown_timeout=1.0)
        await runner.setup()
        site = web.TCPSite(runner, host, port, backlog=BACKLOG)
        await site.start()
        self._runners.append(runner)
        return runner.addresses[0][1]

    # --- requests ----------------------------------------------------------------------------------------------------

    async def _behind_proxy(self, request: web.BaseRequest) -> web.StreamResponse:
        secret, _, flow_id = request.headers.get(FLOW_HEADER, "").partition(".")
        origin = self._expected.pop(flow_id, None) if hmac.compare_digest(secret, self._secret) else None
        if origin is None:
            return await plain(
                request, HttpAnswer(403, b'{"error":{"message":"this port takes calls of the proxy only"}}')
            )
        return await self._answer(request, origin, request.path)

    async def _base_url(self, request: web.BaseRequest) -> web.StreamResponse:
        path, session = request.path, None
        if path.startswith("/s/"):
            session, _, rest = path[3:].partition("/")
            path = f"/{rest}"
        admitted, key_session = self._admit(_api_key(request))
        peer = request.transport.get_extra_info("peername") if request.transport else None
        origin = Origin(
            connection=f"{peer[0]}-{peer[1]}" if peer else "gateway", gateway_path=session, gateway_key=key_session
        )
        if not admitted:
            dialect = registry.spokesman(path, "", _lowered(request))
            fault = Fault(
                FaultKind.AUTHENTICATION, "wrong or missing API key: it must be the proxy's --key, or SESSION:KEY"
            )
            return await plain(request, dialect.error(fault))
        if session is not None and sessions.SESSION_ID.fullmatch(session) is None:
            dialect = registry.spokesman(path, "", _lowered(request))
            fault = Fault(FaultKind.INVALID, f"session id {session!r}: use 1 to 128 of A-Z a-z 0-9 . _ -")
            return await plain(request, dialect.error(fault))
        return await self._answer(request, origin, path)

    def _admit(self, api_key: str) -> tuple[bool, str | None]:
        """Whether an API key may call, and the session that it names (`SESSION:KEY`)."""
        if self._key is None:
            return True, None
        session, _, key = api_key.rpartition(":")
        return hmac.compare_digest(key.encode(), self._key.encode()), session or None

    async def _answer(self, request: web.BaseRequest, origin: Origin, path: str) -> web.StreamResponse:
        headers = _lowered(request)
        try:
            body = await _read(request, headers, origin.body)
        except CallError as error:
            dialect = registry.spokesman(path, origin.host, headers)
            return await plain(request, dialect.error(error.fault))
        if origin.control:
            return await self._control.handle(request, body)
        wire = WireRequest(request.method, path, headers, dict(request.query), body, origin.host)
        if headers.get("upgrade", "").lower() == "websocket":
            opened = functools.partial(self._sockets.__setitem__, origin.flow) if origin.flow else lambda _: None
            return await websocket.serve(request, wire, origin, self._gateway, self._model, opened)
        local = self._local.answer(wire, self._gateway.engine.models()) if self._local else None
        if local is not None:
            return await plain(request, local)
        found = registry.find(request.method, path, origin.host, headers)
        if found is None:
            return await plain(request, _no_route(wire))
        dialect, route = found
        try:
            return await self._routed(request, dialect, route, wire, origin)
        except CallError as error:
            self._gateway.counts["refused"] += 1
            log.info("%s %s refused: %s", wire.method, wire.path, error.fault.message)
            return await plain(request, dialect.error(error.fault, wire))
        except (asyncio.CancelledError, ConnectionError):
            raise
        except Exception:
            log.exception("a fault of ours on %s %s", wire.method, wire.path)
            self._gateway.counts["internal_errors"] += 1
            fault = Fault(FaultKind.INTERNAL, "polar_capture failed on this request; its log has the details")
            return await plain(request, dialect.error(fault, wire))

    async def _routed(
        self, request: web.BaseRequest, dialect: Dialect, route: Route, wire: WireRequest, origin: Origin
    ) -> web.StreamResponse:
        match route.operation:
            case Operation.GENERATE:
                return await self._generate(request, dialect, route, wire, origin)
            case Operation.COUNT_TOKENS:
                parsed, tokens = await self._gateway.count(dialect, route, wire, origin)
                return await plain(request, dialect.count(parsed, tokens))
            case Operation.LIST_MODELS | Operation.GET_MODEL:
                return await plain(request, dialect.models(self._gateway.engine.models(), wire, route))
            case Operation.LOCAL:
                return await plain(request, await self._gateway.local(dialect, route, wire))

    async def _generate(
        self, request: web.BaseRequest, dialect: Dialect, route: Route, wire: WireRequest, origin: Origin
    ) -> web.StreamResponse:
        gateway = self._gateway
        attempt, streams = await gateway.attempt(dialect, route, wire, origin)
        call = attempt.call
        stream = dialect.stream(call.parsed, call.minter, self._model()) if streams else None
        # Before the answer: the proxy may report its end while the last write is still being awaited here.
        flow = origin.flow or f"direct-{id(request)}"
        self._unconfirmed[flow] = attempt
        try:
            response = await deliver(
                request,
                attempt.work,
                stream,
                lambda fault: dialect.error(fault, wire),
                lambda: gateway.prompt_tokens(call),
                grace=gateway.grace,
            )
        except BaseException:
            self.flow_ended(flow, False)
            raise
        if origin.flow is None:
            self.flow_ended(flow, None)
        return response


def _no_route(wire: WireRequest) -> HttpAnswer:
    dialect = registry.spokesman(wire.path, wire.host, wire.headers)
    allowed = registry.allowed(wire.path, wire.host, wire.headers)
    if allowed and wire.method not in allowed:
        answer = dialect.error(
            Fault(FaultKind.METHOD_NOT_ALLOWED, f"{wire.method} is not allowed here: use {', '.join(allowed)}")
        )
        return HttpAnswer(answer.status, answer.body, {**answer.headers, "allow": ", ".join(allowed)})
    return dialect.error(Fault(FaultKind.NOT_FOUND, f"{wire.method} {wire.path} is not served here"))


async def _read(request: web.BaseRequest, headers: dict[str, str], handed: bytes | None) -> bytes:
    """The whole body, decoded: `handed` over by the proxy, else read from the connection. One that is over the limit is
    read to its end all the same, so that the client sees our answer."""
    raw = handed if handed is not None else await _received(request)
    if len(raw) > bodies.MAX_BODY:
        raise bodies.too_large()
    encoding = headers.get("content-encoding", "")
    if not encoding:
        return raw
    if len(raw) > _BIG_BODY:
        return await asyncio.get_running_loop().run_in_executor(None, bodies.decode, raw, encoding)
    return bodies.decode(raw, encoding)


async def _received(request: web.BaseRequest) -> bytes:
    chunks, size = [], 0
    async for chunk in request.content.iter_any():
        size += len(chunk)
        if size <= bodies.MAX_BODY:
            chunks.append(chunk)
    if size > bodies.MAX_BODY:
        raise bodies.too_large()
    return b"".join(chunks)


def _lowered(request: web.BaseRequest) -> dict[str, str]:
    return {name.lower(): value for name, value in request.headers.items()}


def _api_key(request: web.BaseRequest) -> str:
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and token:
        return token.strip()
    for name in _API_KEY_HEADERS:
        if request.headers.get(name):
            return request.headers[name]
    return unquote(request.query.get("key", ""))
