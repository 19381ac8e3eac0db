"""The control host `polar.capture`: open pages for harnesses and people, guarded ones for the trainer.

Agents inherit the proxy, so whatever they can reach with it must neither change a reward nor show a session:
everything but the open pages wants `Authorization: Bearer <control token>`.
"""

import hmac
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Literal

import msgspec
import uuid_utils
from aiohttp import web

from polar_capture import __version__
from polar_capture.config import SESSION_ID
from polar_capture.egress import CONTROL_HOST
from polar_capture.outcomes import SessionStatus


class ControlError(Exception):
    """A control request that cannot be done; `status` is the HTTP status."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class SessionChange(msgspec.Struct, forbid_unknown_fields=True):
    """Body of POST /sessions and PATCH /sessions/ID."""

    id: str | None = None
    task_id: str | None = None
    group_id: str | None = None
    sample_index: int | None = None
    status: Literal["open", "completed", "failed", "timeout", "abandoned"] | None = None
    metadata: dict[str, Any] | None = None
    harness: str | None = None
    harness_version: str | None = None


class NewReward(msgspec.Struct, forbid_unknown_fields=True):
    """Body of POST /sessions/ID/rewards."""

    value: float
    name: str = "outcome"
    call_id: str | None = None
    source: str | None = None
    comment: str | None = None


class NewPolicy(msgspec.Struct, forbid_unknown_fields=True):
    """Body of POST /policy."""

    version: int
    label: str | None = None


class Backend:
    """What the control host acts on; `runtime.Runtime` implements it. Methods raise ControlError."""

    async def sessions(self) -> list[dict[str, Any]]:
        raise NotImplementedError

    async def session(self, session_id: str) -> dict[str, Any]:
        raise NotImplementedError

    async def change_session(self, session_id: str, change: SessionChange, *, create: bool) -> dict[str, Any]:
        raise NotImplementedError

    async def add_reward(self, session_id: str, reward: NewReward) -> str:
        raise NotImplementedError

    def set_policy(self, policy: NewPolicy) -> dict[str, Any]:
        raise NotImplementedError

    def pause(self) -> dict[str, Any]:
        raise NotImplementedError

    def resume(self) -> dict[str, Any]:
        raise NotImplementedError

    def metrics(self) -> str:
        raise NotImplementedError

    def live(self) -> list[dict[str, Any]]:
        raise NotImplementedError

    def health(self) -> dict[str, Any]:
        raise NotImplementedError


Handler = Callable[..., Awaitable[web.Response]]


class ControlHost:
    """Answers control requests. `token` None closes every guarded page."""

    def __init__(self, backend: Backend, *, token: str | None, ca: Path, proxy_url: Callable[[], str]) -> None:
        self._backend = backend
        self._token = token
        self._ca = ca
        self._proxy_url = proxy_url

    async def serve(self, request: web.BaseRequest) -> web.StreamResponse:
        """For a listener of its own."""
        return await self.handle(request, await request.read())

    async def handle(self, request: web.BaseRequest, body: bytes) -> web.StreamResponse:
        try:
            return await self._route(request, body)
        except ControlError as error:
            return _json({"error": str(error)}, error.status)

    async def _route(self, request: web.BaseRequest, body: bytes) -> web.StreamResponse:
        parts = [part for part in request.path.split("/") if part]
        open_page = self._open_page(request.method, parts)
        if open_page is not None:
            return open_page
        self._check_token(request)
        match request.method, parts:
            case "GET", ["sessions"]:
                return _json(await self._backend.sessions())
            case "POST", ["sessions"]:
                change = _decode(body or b"{}", SessionChange)
                session_id = change.id or f"session-{uuid_utils.uuid7()}"
                return _json(await self._backend.change_session(_checked(session_id), change, create=True), 201)
            case "GET", ["sessions", session_id]:
                return _json(await self._backend.session(session_id))
            case "PATCH", ["sessions", session_id]:
                return _json(await self._backend.change_session(session_id, _decode(body, SessionChange), create=False))
            case "POST", ["sessions", session_id, "rewards"]:
                return _json({"id": await self._backend.add_reward(session_id, _decode(body, NewReward))}, 201)
            case "POST", ["policy"]:
                return _json(self._backend.set_policy(_decode(body, NewPolicy)))
            case "POST", ["pause"]:
                return _json(self._backend.pause())
            case "POST", ["resume"]:
                return _json(self._backend.resume())
            case "GET", ["metrics"]:
                return web.Response(text=self._backend.metrics(), content_type="text/plain")
            case "GET", ["live"]:
                return _json(self._backend.live())
        known = {"sessions", "policy", "pause", "resume", "metrics", "live"}
        if parts and parts[0] in known:
            raise ControlError(405, f"{request.method} is not allowed on {request.path}")
        raise ControlError(404, f"{request.path} is no page of {CONTROL_HOST}")

    def _open_page(self, method: str, parts: list[str]) -> web.Response | None:
        match method, parts:
            case "GET", ["health"]:
                return _json({"status": "ok", "version": __version__, **self._backend.health()})
            case "GET", ["ca.pem"]:
                return web.Response(body=self._ca.read_bytes(), content_type="application/x-pem-file")
            case "GET", []:
                return web.Response(
                    text=_WELCOME.format(proxy=self._proxy_url(), host=CONTROL_HOST), content_type="text/plain"
                )
        return None

    def _check_token(self, request: web.BaseRequest) -> None:
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        if (
            self._token
            and scheme.lower() == "bearer"
            and hmac.compare_digest(given.strip().encode(), self._token.encode())
        ):
            return
        raise ControlError(401, "this page wants Authorization: Bearer $POLAR_CONTROL_TOKEN")


_WELCOME = """polar_capture is here.

Point a harness at it:

  export HTTPS_PROXY={proxy}          # with a session: http://SESSION@HOST:PORT
  curl -s http://{host}/ca.pem -x {proxy} -o polar-ca.pem
  export NODE_EXTRA_CA_CERTS=$PWD/polar-ca.pem   # Node harnesses
  export SSL_CERT_FILE=$PWD/polar-ca.pem         # Rust, Python, curl (replaces the public roots)

`polar-capture env` prints all of it for your shell, `polar-capture run -- COMMAND` does all of it.
"""


def _checked(session_id: str) -> str:
    if SESSION_ID.fullmatch(session_id) is None:
        raise ControlError(400, f"session id {session_id!r}: use 1 to 128 of A-Z a-z 0-9 . _ -")
    return session_id


def _decode(body: bytes, kind: type[Any]) -> Any:
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ControlError(400, f"body: {error}") from error


def _json(value: Any, status: int = 200) -> web.Response:
    return web.Response(body=msgspec.json.encode(value), status=status, content_type="application/json")


def ended_at(status: str | None) -> float | None:
    """When a session ends by this change of status: now, unless it is open."""
    return None if status in (None, SessionStatus.OPEN) else time.time()
