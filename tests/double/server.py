"""The double's HTTP server."""

import asyncio
import contextlib
import json
import pathlib
import time
from collections.abc import Iterable
from typing import Any

import msgspec
from aiohttp import web

from tests.double import answers, scale_out, toy
from tests.double.refusals import overrun, refusal
from tests.double.script import Choose, Options, Script, Step, matches


class Logged(msgspec.Struct):
    """One request. `body` is the decoded JSON (the text where it was none). Times are epoch seconds."""

    method: str
    path: str
    headers: dict[str, str]
    body: Any
    at: float
    status: int | None = None
    answered_at: float | None = None
    disconnected_at: float | None = None
    """The client left before it was answered."""
    peer: str = ""
    """The client's address and port: equal for requests on one connection."""


class Double:
    """See the package's docstring. `requests` is the log; `options` may be changed while it runs."""

    def __init__(
        self,
        script: Script | Iterable[Step] | Choose | None = None,
        *,
        port: int = 0,
        log: str | pathlib.Path | None = None,
        **options: Any,
    ) -> None:
        self._choose: Choose | None = None
        if callable(script) and not isinstance(script, Script):
            self._choose, script = script, None
        self.script = script if isinstance(script, Script) else Script(steps=list(script or []))
        self.options: Options = msgspec.structs.replace(self.script.options, **options)
        self.requests: list[Logged] = []
        self.running = 0
        self.port = port
        self._log = open(log, "ab", buffering=0) if log else None  # noqa: SIM115 (closed by stop)
        self._used = 0
        self._serial = 0
        self._rendered: dict[str, dict[str, Any]] = {}
        self._runner: web.AppRunner | None = None
        self._canned = self._cans() if self.options.canned else []

    def _cans(self) -> list[bytes]:
        assert self.options.canned is not None
        return answers.canned(*self.options.canned, self.options, self.options.canned_turns)

    def _can(self, body: bytes) -> bytes:
        """The answer of the turn that the request names by "turn N,", else the first."""
        at = body.rfind(b"turn ") + len(b"turn ")
        number = body[at : body.find(b",", at)]
        return self._canned[int(number) % len(self._canned) if len(self._canned) > 1 and number.isdigit() else 0]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def chats(self) -> list[Logged]:
        """The logged chat requests only."""
        return [r for r in self.requests if r.path == "/v1/chat/completions"]

    async def start(self) -> None:
        """Listen; again on the same port after `stop`."""
        app = web.Application(client_max_size=2**30)
        app.router.add_route("*", "/{path:.*}", self._handle)
        # handler_cancellation: a client that leaves must end the handler, or no disconnect would be seen.
        self._runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self.port, backlog=1024)
        await site.start()
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        """Close the port and every connection."""
        if self._runner:
            await self._runner.cleanup()
            self._runner = None

    async def __aenter__(self) -> "Double":
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()
        if self._log:
            self._log.close()

    def push(self, *steps: Step) -> None:
        """Append steps to the script."""
        self.script.steps.extend(steps)

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        if self._canned and request.path == "/v1/chat/completions":
            return web.Response(body=self._can(await request.read()), content_type="application/json")
        raw = await request.read()
        try:
            body = msgspec.json.decode(raw) if raw else None
        except msgspec.DecodeError:
            body = raw.decode("utf-8", "replace")
        peer = "{}:{}".format(*request.transport.get_extra_info("peername")[:2]) if request.transport else ""
        entry = Logged(request.method, request.path, dict(request.headers), body, time.time(), peer=peer)
        self.requests.append(entry)
        try:
            answer = await self._answer(request, body)
            entry.status, entry.answered_at = answer.status, time.time()
            return answer
        except asyncio.CancelledError:
            entry.disconnected_at = time.time()
            raise
        finally:
            if self._log:
                self._log.write(msgspec.json.encode(entry) + b"\n")

    async def _answer(self, request: web.Request, body: Any) -> web.StreamResponse:
        route = (request.method, request.path)
        if route == ("POST", "/v1/chat/completions"):
            return await self._chat(request, body)
        if request.path in scale_out.PAGES:
            return await self._scaled_out(request, body)
        if route == ("POST", "/tokenize"):
            text = body.get("prompt")
            ids = toy.encode(text) if isinstance(text, str) else self._render(body)
            return _json({"count": len(ids), "max_model_len": self.options.window, "tokens": ids, "token_strs": None})
        if route == ("POST", "/detokenize"):
            return _json({"prompt": toy.decode(body["tokens"])})
        if route == ("GET", "/v1/models"):
            return _json(
                {"object": "list", "data": [self._card(n) for n in (self.options.model, *self.options.aliases)]}
            )
        if route == ("GET", "/health"):
            return web.Response()
        if route == ("GET", "/version"):
            return _json({"version": self.options.version})
        if route == ("GET", "/weight_info") and self.options.weight_version is not None:
            return _json({"weight_version": self.options.weight_version})
        if route == ("GET", "/metrics"):
            text = f'vllm:num_requests_running{{engine="0",model_name="{self.options.model}"}} {float(self.running)}\n'
            return web.Response(text="# TYPE vllm:num_requests_running gauge\n" + text)
        return _json({"detail": "Not Found"}, 404)

    def _card(self, name: str) -> dict[str, Any]:
        return {
            "id": name,
            "object": "model",
            "created": 1796105766,
            "owned_by": "vllm",
            "root": self.options.root or f"models/{name}",
            "parent": None,
            "max_model_len": self.options.window,
        }

    def _render(self, body: dict[str, Any]) -> list[int]:
        o = self.options
        return toy.render(body, strips_thinking=o.strips_thinking, double_bos=o.double_bos)

    def _step(self, body: dict[str, Any]) -> Step:
        if self._choose:
            chosen = self._choose(body, self._serial - 1)
            if chosen is not None:
                return chosen
        for rule in self.script.rules:
            if matches(rule.when, body):
                return rule.step
        done = 0
        for step in self.script.steps:
            done += step.repeat
            if self._used < done:
                self._used += 1
                return step
        return self.script.default

    async def _chat(self, request: web.Request, body: Any) -> web.StreamResponse:
        refused = refusal(body, self.options) if isinstance(body, dict) else (400, "JSON decode error", "body")
        if refused:
            return _refuse(*refused)
        if self.options.max_waiting is not None and self.running >= self.options.max_waiting:
            return _refuse(503, "The engine is currently busy and cannot accept new requests.", None)
        self._serial += 1
        serial = self._serial
        step = self._step(body)
        self.running += 1
        try:
            if step.delay:
                await asyncio.sleep(step.delay)
            return await self._play(request, step, body, serial)
        finally:
            self.running -= 1

    async def _play(self, request: web.Request, step: Step, body: dict[str, Any], serial: int) -> web.StreamResponse:
        if step.drop == "before":
            assert request.transport is not None
            request.transport.abort()
            return web.Response()
        if step.html:
            page = "<html><body><h1>It is not you, it is the front proxy</h1></body></html>"
            return web.Response(text=page, status=step.status, content_type="text/html", headers=step.headers)
        if isinstance(step.body, str):
            headers = {"content-type": "application/json", **step.headers}
            return web.Response(body=step.body.encode(), status=step.status, headers=headers)
        if step.body is not None:
            answer = step.body
        elif step.error is not None or step.status != 200:
            answer = answers.error_body(step.status, step.error or "scripted fault")
        else:
            try:
                prompt = self._prompt(body)
            except UnicodeEncodeError:
                return _refuse(400, "TextEncodeInput must be Union[TextInputSequence, …]", None)
            fault = overrun(body, len(prompt), self.options)
            if fault:
                return _refuse(*fault)
            answer = answers.completion(step, body, prompt, self.options, serial)
            if "generate" in body:
                answer = scale_out.generated(answer, body["generate"])
        data = _encode(answer)
        if step.trickle or step.drop == "half":
            return await _in_halves(request, step, data)
        response = web.Response(
            body=data, status=step.status, headers={"content-type": "application/json", **step.headers}
        )
        if step.status == 500 and self.options.close_after_500:
            # A vLLM that answered 500 closes the connection without announcing it.
            asyncio.get_running_loop().call_later(0.01, _close, request)
        return response

    async def _scaled_out(self, request: web.Request, body: Any) -> web.StreamResponse:
        if not self.options.scale_out:
            return _json(scale_out.DISABLED, 403)
        if request.path == scale_out.PAGES[0]:
            refused = refusal(body, self.options) or overrun(body, len(self._render(body)), self.options)
            if refused:
                return _refuse(*refused)
            asked = scale_out.rendered(body, self._render(body), self.options.window, len(self._rendered))
            self._rendered[asked["request_id"]] = body
            return _json(asked)
        if request.path == scale_out.PAGES[2]:
            answer = scale_out.derendered(body)
            return _json(answer) if answer else _refuse(400, "choice 0 has empty or null token_ids", None)
        chat = self._rendered.get(body.get("request_id"), {"messages": []})
        if not self.options.honour_generate_ids:
            body = body | {"token_ids": self._render(chat)}
        return await self._chat(request, scale_out.as_chat(body, chat))

    def _prompt(self, body: dict[str, Any]) -> list[int]:
        given = (body.get("kv_transfer_params") or {}).get("prompt_token_ids")
        honoured = self.options.honour_prompt_ids or body.get("generate")
        return given if given and honoured else self._render(body)


def _encode(answer: Any) -> bytes:
    try:
        return msgspec.json.encode(answer)
    except UnicodeEncodeError:
        return json.dumps(answer).encode()  # lone surrogates, which msgspec refuses


def _json(answer: Any, status: int = 200) -> web.Response:
    return web.Response(body=_encode(answer), status=status, content_type="application/json")


def _refuse(status: int, message: str, param: str | None) -> web.Response:
    return _json(answers.error_body(status, message, param), status)


def _close(request: web.Request) -> None:
    if request.transport is not None:
        request.transport.close()


async def _in_halves(request: web.Request, step: Step, data: bytes) -> web.StreamResponse:
    headers = {"content-type": "application/json", "content-length": str(len(data)), **step.headers}
    response = web.StreamResponse(status=step.status, headers=headers)
    await response.prepare(request)
    await response.write(data[: len(data) // 2])
    await asyncio.sleep(step.trickle)
    if step.drop == "half":
        _close(request)
        return response
    with contextlib.suppress(ConnectionError):
        await response.write(data[len(data) // 2 :])
    return response
