"""The control host `polar.capture`: open pages for harnesses and people, guarded ones for the trainer.

Agents inherit the proxy, so whatever they can reach with it must neither change a reward nor show a session:
everything but the open pages wants `Authorization: Bearer <control token>`.
"""

import hmac
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import uuid_utils
from aiohttp import web

from polar_capture import __version__
from polar_capture.config import SESSION_ID
from polar_capture.egress import CONTROL_HOST
from polar_capture.outcomes import SessionStatus
from polar_capture.siblings import PASSED_ON, Others, SiblingError, Siblings


class ControlError(Exception):
    """A control request that cannot be done; `status` is the HTTP status."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
"""What an integer column of either database holds."""


class SessionChange(msgspec.Struct, forbid_unknown_fields=True):
    """Body of POST /sessions and PATCH /sessions/ID."""

    id: str | None = None
    task_id: str | None = None
    group_id: str | None = None
    sample_index: Int64 | None = None
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

    version: Int64
    label: str | None = None


class Backend:
    """What the control host acts on; `runtime.Runtime` implements it. Methods raise ControlError."""

    async def sessions(self) -> list[dict[str, Any]]:
        raise NotImplementedError

    async def session(self, session_id: str) -> dict[str, Any]:
        raise NotImplementedError

    async def change_session(self, session_id: str, change: SessionChange, *, create: bool) -> dict[str, Any]:
        raise NotImplementedError

    def note_session(self, session_id: str, change: SessionChange) -> None:
        """Take in what another worker has recorded of a session that may be served here."""
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
        self._siblings = Siblings(token)

    async def serve(self, request: web.BaseRequest) -> web.StreamResponse:
        """For a listener of its own."""
        return await self.handle(request, await request.read())

    async def handle(self, request: web.BaseRequest, body: bytes) -> web.StreamResponse:
        try:
            return await self._route(request, body)
        except ControlError as error:
            return _json({"error": str(error)}, error.status)
        except SiblingError as error:
            return _json({"error": str(error)}, 502)

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
                body = body or b"{}"
                session_id = _decode(body, SessionChange).id or f"session-{uuid_utils.uuid7()}"
                return await self._change(request, _checked(session_id), body, create=True)
            case "GET", ["sessions", session_id]:
                return _json(await self._backend.session(session_id))
            case "PATCH", ["sessions", session_id]:
                return await self._change(request, session_id, body, create=False)
            case "POST", ["sessions", session_id, "rewards"]:
                return _json({"id": await self._backend.add_reward(session_id, _decode(body, NewReward))}, 201)
            case "POST", ["policy"]:
                return _json(await self._everywhere(request, body, self._backend.set_policy(_decode(body, NewPolicy))))
            case "POST", ["pause"]:
                return _json(await self._everywhere(request, body, self._backend.pause()))
            case "POST", ["resume"]:
                return _json(await self._everywhere(request, body, self._backend.resume()))
            case "POST", ["siblings"]:
                return _json(self._siblings.know(_decode(body, Others)))
            case "GET", ["metrics"]:
                return web.Response(text=self._backend.metrics(), content_type="text/plain")
            case "GET", ["live"]:
                return _json(self._backend.live())
        known = {"sessions", "policy", "pause", "resume", "siblings", "metrics", "live"}
        if parts and parts[0] in known:
            raise ControlError(405, f"{request.method} is not allowed on {request.path}")
        raise ControlError(404, f"{request.path} is no page of {CONTROL_HOST}")

    async def _everywhere(self, request: web.BaseRequest, body: bytes, own: dict[str, Any]) -> dict[str, Any]:
        """This worker's answer once its siblings have done the same; `running` counts the calls of all."""
        if PASSED_ON in request.headers:
            return own
        told = await self._siblings.pass_on(request.method, request.path, body)
        return own | {"running": sum(each["running"] for each in (own, *told))} if "running" in own else own

    async def _change(self, request: web.BaseRequest, session_id: str, body: bytes, *, create: bool) -> web.Response:
        """A session is served by one worker, and any may be told of its end and its limits."""
        change = _decode(body, SessionChange)
        if change.id not in (None, "", session_id) and not create:
            raise ControlError(400, f"session {session_id!r} can't be renamed to {change.id!r}")
        if PASSED_ON in request.headers:
            self._backend.note_session(session_id, change)
            return _json({})
        row = await self._backend.change_session(session_id, change, create=create)
        if change.status is not None or "limits" in (change.metadata or {}):
            await self._siblings.pass_on("PATCH", f"/sessions/{session_id}", body)
        return _json(row, 201 if create else 200)

    def _open_page(self, method: str, parts: list[str]) -> web.Response | None:
        match method, parts:
            case "GET" | "HEAD", ["health"]:
                return _json({"status": "ok", "version": __version__, **self._backend.health()})
            case "GET" | "HEAD", ["ca.pem"]:
                return web.Response(body=self._ca.read_bytes(), content_type="application/x-pem-file")
            case "GET" | "HEAD", []:
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
