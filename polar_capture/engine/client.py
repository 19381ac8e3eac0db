"""`Engine`: generates, counts and lists models on one or several vLLM servers, with every fault made a CallError."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from polar_capture.chat import ChatRequest, Choice, Completion
from polar_capture.dialects.base import ModelCard
from polar_capture.engine import answers, integrity, scale_out, wire
from polar_capture.engine.pool import Pool, Upstream
from polar_capture.engine.refusals import fault_of, refuses_prompt_ids, window_of
from polar_capture.engine.sampling import explicit
from polar_capture.engine.servers import Servers
from polar_capture.engine.transport import Cut, Reply, TimedOut, Transport, Unreachable
from polar_capture.faults import CallError, Fault, FaultKind
from polar_capture.outcomes import Reason, Warning

log = logging.getLogger(__name__)

RECONNECT_SECONDS = 5.0
"""How long a refused connection is tried again: a server that restarts is back, or a harness should know."""

BUSY_RETRIES = 2

T = TypeVar("T")


class Generation(msgspec.Struct, kw_only=True):
    """One answered request.

    `sampling` holds the sampling fields as they were sent, `body_sent` the body without prompt ids, `upstream_ms` the
    time of the answering exchange in milliseconds. `limit` is how many tokens could be sampled at most; `clamped`:
    fewer than the client asked for.
    """

    completion: Completion
    body_sent: bytes
    upstream: str
    upstream_ms: float
    clamped: bool
    sampling: dict[str, Any]
    logprobs_mode: str | None = None
    limit: int | None = None
    endings: frozenset[int] = frozenset()
    ids_refused: bool = False
    """The server refused the prompt ids (or had no way for them and this call), and then answered to the messages."""

    def check(self, choice: Choice) -> tuple[Reason | None, list[Warning]]:
        """`integrity.check` of one of its choices, with all that is known."""
        completion = self.completion
        return integrity.check(
            choice,
            completion.prompt_token_ids,
            completion.usage,
            choices=len(completion.choices),
            limit=self.limit,
            endings=self.endings,
        )


class _Request(msgspec.Struct):
    """One generation on its way. `fitted` is the max_tokens found out from a refusal."""

    chat: ChatRequest
    prompt_ids: Sequence[int] | None
    session: str
    asked: dict[str, Any]
    fitted: int | None = None
    ids_refused: bool = False


class _Sent(msgspec.Struct, frozen=True):
    upstream: Upstream
    reply: Reply
    body: bytes
    sampling: dict[str, Any]
    ms: float
    weights: str | None


class Engine:
    """The engines behind one proxy. Used in one event loop; `start` before the first call, `close` at the end."""

    def __init__(
        self,
        upstreams: Sequence[str],
        *,
        model: str | None = None,
        sampling: Mapping[str, float | int] | None = None,
        header_grace: float = 2.0,
        api_key: str | None = None,
    ) -> None:
        """`upstreams` are base URLs without `/v1`; `sampling` overrides what clients ask (keys of config.SAMPLING);
        `header_grace` is the default of `generate`'s `deadline_grace`, in seconds."""
        if not upstreams:
            raise ValueError("an engine needs at least one upstream URL")
        self._overrides = dict(sampling or {})
        self._grace = header_grace
        self._transport = Transport(api_key=api_key)
        self._pool = Pool(upstreams)
        self._servers = Servers(self._pool, self._transport, model)

    # --- what the gateway asks ---------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Find out what the servers are. One that is down is only a warning: it is asked again until it answers.

        Raises probe.NoTokenIds and probe.ModelNotServed.
        """
        await asyncio.gather(*(self._servers.first_look(upstream) for upstream in self._pool.upstreams))

    async def generate(
        self,
        chat: ChatRequest,
        *,
        prompt_ids: Sequence[int] | None = None,
        session: str = "",
        deadline_grace: float | None = None,
    ) -> Generation:
        """Sample an answer to `chat`, from exactly `prompt_ids` where they are given and the server takes them.

        `session` keeps a session on one engine; `deadline_grace` is for how many seconds from now a busy engine is
        tried again. Cancelling closes the connection, and vLLM aborts. Raises CallError.
        """
        deadline = time.monotonic() + (self._grace if deadline_grace is None else deadline_grace)
        request = _Request(chat, prompt_ids, session, explicit(chat.sampling, self._overrides))
        try:
            sent = await self._answered(request, deadline)
            completion = answers.decode(sent.reply.body, show_logprobs=chat.sampling.top_logprobs is not None)
        except answers.NotAnAnswer as error:
            raise CallError(Fault(FaultKind.UPSTREAM, f"the engine's server answered 200 with {error}")) from error
        if sent.weights is not None:
            await self._note_weights(sent, completion)
        return self._generation(request, sent, completion)

    async def count(self, chat: ChatRequest) -> int:
        """The exact number of prompt tokens of `chat`, by the engine's own template and tokenizer. Raises CallError."""
        return await self._ask(lambda upstream: self._servers.count(upstream, chat))

    async def render(self, chat: ChatRequest, *, add_generation_prompt: bool = True, session: str = "") -> list[int]:
        """The prompt ids of `chat` by the template and tokenizer of the session's engine. Raises CallError."""
        return await self._ask(
            lambda upstream: self._servers.render(upstream, chat, add_generation_prompt=add_generation_prompt), session
        )

    def template_options(self, chat: ChatRequest, session: str = "") -> dict[str, Any]:
        """The chat_template_kwargs that the session's engine gets for `chat`."""
        upstream = self._pool.choose(session)
        return wire.template_kwargs(chat, upstream.can if upstream else wire.Abilities())

    def takes_prompt_ids(self, session: str = "") -> str | None:
        """The URL of the session's engine, where it samples from given prompt ids; else None."""
        upstream = self._pool.choose(session)
        return upstream.url if upstream is not None and upstream.takes_prompt_ids else None

    def distrust_prompt_ids(self, url: str) -> None:
        """Send this engine no prompt ids any more: it has answered for others."""
        self._servers.distrust_prompt_ids(url)

    def require_prompt_ids(self) -> None:
        """Raises probe.NoPromptIds where an engine that was checked does not take prompt ids."""
        self._servers.require_prompt_ids()

    async def detokenize(self, ids: Sequence[int]) -> str:
        """The text of ids, special tokens included, for people's eyes. Raises CallError."""
        return await self._ask(lambda upstream: self._servers.detokenize(upstream, ids))

    async def weight_version(self, session: str = "") -> str | None:
        """The server's own name of its weights (VLLM_SERVER_DEV_MODE=1), None where it tells none. Raises CallError."""
        return await self._ask(self._servers.weights, session)

    def models(self) -> list[ModelCard]:
        """The models that calls can be answered by: the one that was named, else all that are served."""
        return [ModelCard(m.id, m.window, m.created) for m in self._servers.models()]

    @property
    def model(self) -> str | None:
        """The name of the model that answers; None while no server has told it."""
        return self._servers.model

    @property
    def window(self) -> int | None:
        """The model's window in tokens, the smallest where servers differ; None while unknown."""
        return self._servers.smallest_window

    @property
    def logprobs_mode(self) -> str | None:
        """raw_logprobs or processed_logprobs; None while unknown, and raw where servers differ."""
        return self._servers.logprobs_mode

    async def close(self) -> None:
        await self._pool.close()
        await self._transport.close()

    # --- one generation ----------------------------------------------------------------------------------------------

    async def _answered(self, request: _Request, deadline: float) -> _Sent:
        """Send until there is an answer with status 200, as often as each kind of refusal allows."""
        busy = 0
        may_fit = may_look_up = True
        while True:
            sent = await self._send(request)
            status = sent.reply.status
            if status == 200:
                return sent
            if status in (429, 503) and busy < BUSY_RETRIES:
                pause = _pause(sent.reply.headers.get("retry-after"), busy)
                if time.monotonic() + pause <= deadline:
                    busy += 1
                    await asyncio.sleep(pause)
                    continue
            if status == 404 and may_look_up and await self._servers.renamed(sent.upstream):
                may_look_up = False
                continue
            if status in (400, 422) and may_fit and await self._fit(request, sent):
                may_fit = False
                continue
            about_ids = status in (400, 422) and refuses_prompt_ids(sent.reply.body)
            if request.prompt_ids is not None and (about_ids or scale_out.gone(sent.upstream.scale_out, status)):
                request.prompt_ids, request.ids_refused, request.fitted = None, True, None
                continue
            raise CallError(await self._fault(request, sent))

    async def _send(self, request: _Request) -> _Sent:
        """One answered exchange, on the session's engine or, where that is down, another. Raises CallError."""
        until = time.monotonic() + RECONNECT_SECONDS
        tried: list[Upstream] = []
        reason = ""
        while True:
            upstream = self._pool.choose(request.session, tried)
            if upstream is None:
                if time.monotonic() >= until:
                    raise self._servers.unavailable(reason)
                await asyncio.sleep(0.25)
                tried.clear()
                continue
            try:
                sent = await self._send_to(upstream, request)
            except Unreachable as error:
                reason = str(error)
                tried.append(upstream)
                self._pool.down(upstream, reason, self._servers.revive)
            except (Cut, TimedOut) as error:
                raise _broken(error) from error
            else:
                self._pool.up(upstream)
                return sent

    async def _send_to(self, upstream: Upstream, request: _Request) -> _Sent:
        if not upstream.listed:
            await self._servers.list_models(upstream)
        weights = await self._servers.weights(upstream) if upstream.tells_weights else None
        sampling = dict(request.asked)
        if "max_tokens" in sampling:
            sampling["max_tokens"] = await self._limit(upstream, request)
        body = wire.chat_body(
            request.chat,
            model=self._servers.name(upstream, request.chat.model),
            sampling=sampling,
            can=upstream.can,
        )
        if upstream.scale_out and request.prompt_ids is not None and not scale_out.carries(request.chat):
            request.prompt_ids, request.ids_refused = None, True
        ids = request.prompt_ids
        began = time.perf_counter()
        upstream.running += 1
        try:
            if ids is not None and upstream.scale_out:
                window = self._servers.window(upstream)
                reply = await scale_out.exchange(self._transport, upstream.url, body, ids, window)
            else:
                wanted = body if ids is None else wire.with_prompt_ids(body, ids)
                reply = await self._transport.exchange("POST", upstream.url + "/v1/chat/completions", wanted)
        finally:
            upstream.running -= 1
        return _Sent(upstream, reply, body, sampling, (time.perf_counter() - began) * 1000, weights)

    async def _limit(self, upstream: Upstream, request: _Request) -> int:
        """The max_tokens to send: at most what the window can hold, exactly what is left where the server insists."""
        asked = request.asked["max_tokens"]
        if request.fitted is not None:
            return min(asked, request.fitted)
        window = self._servers.window(upstream)
        if window is None:
            return asked
        if upstream.refuses_overrun:
            prompt = await self._prompt_size(upstream, request)
            if prompt is not None and prompt < window:
                return min(asked, window - prompt)
        # vLLM answers 400 for more than the window, and cuts at the window for anything less.
        return min(asked, window - 1) if window > 1 else asked

    async def _fit(self, request: _Request, sent: _Sent) -> bool:
        """Whether the request was refused only for its max_tokens, and what fits is known now."""
        asked = sent.sampling.get("max_tokens")
        window = window_of(fault_of(sent.reply.status, sent.reply.headers, sent.reply.body).message)
        if asked is None or window is None or window.prompt_fits is False:
            return False
        size = window.size or self._servers.window(sent.upstream)
        prompt = window.prompt_tokens if window.exact else await self._prompt_size(sent.upstream, request)
        if size is None or prompt is None or prompt >= size:
            return False
        sent.upstream.refuses_overrun = asked < size
        request.fitted = size - prompt
        return True

    async def _fault(self, request: _Request, sent: _Sent) -> Fault:
        """The fault of a refusal; an overflow with the prompt's exact size, which harnesses compact by."""
        fault = fault_of(sent.reply.status, sent.reply.headers, sent.reply.body)
        if fault.kind is FaultKind.CONTEXT_OVERFLOW:
            window = window_of(fault.message)
            if window is None or not window.exact:
                size = await self._prompt_size(sent.upstream, request) or 0
                fault = msgspec.structs.replace(fault, prompt_tokens=max(size, fault.prompt_tokens or 0) or None)
        return fault

    def _generation(self, request: _Request, sent: _Sent, completion: Completion) -> Generation:
        upstream, window = sent.upstream, self._servers.window(sent.upstream)
        asked, limit = request.asked.get("max_tokens"), sent.sampling.get("max_tokens")
        prompt = completion.prompt_token_ids
        room = max(0, window - len(prompt)) if window is not None and prompt is not None else None
        if room is not None:
            limit = room if limit is None else min(limit, room)
        for choice in completion.choices:
            _learn_ending(upstream, choice, limit)
        return Generation(
            completion=completion,
            body_sent=sent.body,
            upstream=upstream.url,
            upstream_ms=sent.ms,
            clamped=asked is not None and limit is not None and limit < asked,
            sampling=sent.sampling,
            logprobs_mode=upstream.logprobs_mode,
            limit=limit,
            endings=frozenset(upstream.endings),
            ids_refused=request.ids_refused,
        )

    async def _prompt_size(self, upstream: Upstream, request: _Request) -> int | None:
        if request.prompt_ids is not None:
            return len(request.prompt_ids)
        try:
            return await self._servers.count(upstream, request.chat)
        except (CallError, Unreachable, Cut, TimedOut) as error:
            log.info("engine %s counts no tokens: %s", upstream.url, error)
            return None

    async def _ask(self, question: Callable[[Upstream], Awaitable[T]], session: str = "") -> T:
        """Ask something that needs no generation, of the first server that can be reached. Raises CallError."""
        tried: list[Upstream] = []
        reason = ""
        while (upstream := self._pool.choose(session, tried)) is not None:
            try:
                return await question(upstream)
            except Unreachable as error:
                reason = str(error)
                tried.append(upstream)
                self._pool.down(upstream, reason, self._servers.revive)
            except (Cut, TimedOut) as error:
                raise _broken(error) from error
        raise self._servers.unavailable(reason)

    async def _note_weights(self, sent: _Sent, completion: Completion) -> None:
        """vLLM 0.32 tells no versions in chat answers: those before and after are told apart here."""
        try:
            after = await self._servers.weights(sent.upstream)
        except Unreachable:
            after = None  # it died right behind its answer, which is whole
        for choice in completion.choices:
            if choice.weight_versions is None:
                versions = [sent.weights] if after in (None, sent.weights) else [sent.weights, after]
                choice.weight_versions = [{"version": version} for version in versions]


def _broken(error: Cut | TimedOut) -> CallError:
    if isinstance(error, TimedOut):
        return CallError(Fault(FaultKind.TIMEOUT, f"the engine took too long: {error}"))
    return CallError(Fault(FaultKind.UPSTREAM, f"the engine's connection ended before its whole answer: {error}"))


def _pause(retry_after: str | None, tries: int) -> float:
    """Seconds until a busy engine is tried again; a date counts as longer than any grace."""
    if retry_after is None:
        return 0.25 * 2**tries
    try:
        return max(0.0, float(retry_after))
    except ValueError:
        return float("inf")


def _learn_ending(upstream: Upstream, choice: Choice, limit: int | None) -> None:
    ids = choice.token_ids
    stopped = choice.finish_reason == "stop" and choice.stop_reason is None and not choice.message.tool_calls
    if stopped and ids and (limit is None or len(ids) < limit):
        upstream.endings.add(ids[-1])
