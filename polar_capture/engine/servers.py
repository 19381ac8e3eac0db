"""What is known of the servers, and the questions that need no generation."""

import logging
from collections.abc import Sequence
from typing import TypeVar

import msgspec

from polar_capture.chat import ChatRequest
from polar_capture.engine import probe, wire
from polar_capture.engine.pool import Pool, ServedModel, Upstream
from polar_capture.engine.refusals import fault_of
from polar_capture.engine.transport import Cut, Reply, TimedOut, Transport, Unreachable
from polar_capture.faults import CallError, Fault, FaultKind

log = logging.getLogger(__name__)

COUNT_SECONDS = 30.0
"""For counting tokens: a prompt of megabytes takes a second or two."""

T = TypeVar("T")


class Servers:
    """The upstreams of a pool as one model: `wanted` names it, None takes what each server lists first.

    Methods that ask a server raise transport's errors, and CallError for an answer that is none.
    """

    def __init__(self, pool: Pool, transport: Transport, wanted: str | None) -> None:
        self._pool = pool
        self._transport = transport
        self._wanted = wanted

    # --- known ---------------------------------------------------------------------------------------------------

    def name(self, upstream: Upstream, requested: str | None = None) -> str:
        """The model name to send; what the client asked for only where the server lists no models."""
        return self._wanted or (upstream.models[0].id if upstream.models else requested or "")

    def window(self, upstream: Upstream) -> int | None:
        name = self.name(upstream)
        return next((m.window for m in upstream.models if m.id == name), None)

    def models(self) -> list[ServedModel]:
        served = {m.id: m for upstream in self._pool.upstreams for m in upstream.models}
        return [m for m in served.values() if self._wanted in (None, m.id)]

    @property
    def model(self) -> str | None:
        return self._wanted or next((u.models[0].id for u in self._pool.upstreams if u.models), None)

    @property
    def smallest_window(self) -> int | None:
        return min((size for u in self._pool.upstreams if (size := self.window(u)) is not None), default=None)

    @property
    def logprobs_mode(self) -> str | None:
        modes = {u.logprobs_mode for u in self._pool.upstreams} - {None}
        return next(iter(modes)) if len(modes) == 1 else "raw_logprobs" if modes else None

    def distrust_prompt_ids(self, url: str) -> None:
        for upstream in self._pool.upstreams:
            if upstream.url == url:
                upstream.takes_prompt_ids = False

    def require_prompt_ids(self) -> None:
        """Raises probe.NoPromptIds where a server that was checked does not sample from given prompt ids."""
        for upstream in self._pool.upstreams:
            if upstream.checked and not upstream.takes_prompt_ids:
                version = f"vLLM {upstream.version}" if upstream.version else "a server that tells no version"
                raise probe.NoPromptIds(
                    f"{upstream.url} ({version}) does not sample from given prompt ids, which --continuation exact "
                    "needs: serve the model with vLLM 0.32 or newer, or with --enable-scale-out, or use "
                    "--continuation auto"
                )

    def unavailable(self, reason: str) -> CallError:
        urls = ", ".join(upstream.url for upstream in self._pool.upstreams)
        return CallError(Fault(FaultKind.UNAVAILABLE, f"no engine can be reached at {urls}: {reason}", retry_after="5"))

    # --- asked ---------------------------------------------------------------------------------------------------

    async def count(self, upstream: Upstream, chat: ChatRequest) -> int:
        """The prompt tokens of a chat, by POST /tokenize."""
        body = wire.tokenize_body(chat, model=self.name(upstream, chat.model), can=upstream.can)
        reply = await self._transport.exchange("POST", upstream.url + "/tokenize", body, timeout=COUNT_SECONDS)
        return _field(reply, "count", int)

    async def render(self, upstream: Upstream, chat: ChatRequest, *, add_generation_prompt: bool) -> list[int]:
        """The prompt ids of a chat, by POST /tokenize."""
        body = wire.tokenize_body(
            chat,
            model=self.name(upstream, chat.model),
            can=upstream.can,
            add_generation_prompt=add_generation_prompt,
        )
        reply = await self._transport.exchange("POST", upstream.url + "/tokenize", body, timeout=COUNT_SECONDS)
        return _field(reply, "tokens", list[int])

    async def detokenize(self, upstream: Upstream, ids: Sequence[int]) -> str:
        body = wire.encode({"model": self.name(upstream), "tokens": ids})
        reply = await self._transport.exchange("POST", upstream.url + "/detokenize", body, timeout=COUNT_SECONDS)
        return _field(reply, "prompt", str)

    async def weights(self, upstream: Upstream) -> str | None:
        """The server's name of its weights; None where it tells none."""
        try:
            return await probe.weight_version(self._transport, upstream)
        except (Cut, TimedOut) as error:
            log.info("engine %s does not tell its weights: %s", upstream.url, error)
            return None

    async def list_models(self, upstream: Upstream) -> None:
        """Read /v1/models, where the server has it. Raises Unreachable only."""
        try:
            await probe.read_models(self._transport, upstream)
        except (Cut, TimedOut, probe.NotReady) as error:
            log.info("engine %s does not list its models: %s", upstream.url, error)

    async def renamed(self, upstream: Upstream) -> bool:
        """Whether the server serves another name now than the one that was last sent."""
        before = self.name(upstream)
        try:
            await self.list_models(upstream)
        except Unreachable:
            return False
        return self.name(upstream) != before

    # --- watched -------------------------------------------------------------------------------------------------

    async def first_look(self, upstream: Upstream) -> None:
        """Probe a server at the start; one that is down is watched. Raises probe.NoTokenIds, probe.ModelNotServed."""
        try:
            await probe.probe(self._transport, upstream, self._wanted)
        except probe.NotReady as error:
            self._pool.down(upstream, str(error), self.revive)
        except probe.NotChecked as error:
            _unchecked(upstream, error)

    async def revive(self, upstream: Upstream) -> bool:
        """Whether a server that was down is back; what it is now is found out anew. Never raises."""
        if not await probe.healthy(self._transport, upstream):
            return False
        try:
            await probe.probe(self._transport, upstream, self._wanted)
        except probe.NotReady:
            return False
        except (probe.NotChecked, probe.NoTokenIds, probe.ModelNotServed) as error:
            _unchecked(upstream, error)
        return True


def _unchecked(upstream: Upstream, error: Exception) -> None:
    upstream.checked = True  # asked no more: it has answered
    log.warning("engine %s failed its check; each call is checked by itself: %s", upstream.url, error)


def _field(reply: Reply, name: str, kind: type[T]) -> T:
    if reply.status != 200:
        raise CallError(fault_of(reply.status, reply.headers, reply.body))
    try:
        value = msgspec.json.decode(reply.body, type=dict[str, msgspec.Raw])[name]
        return msgspec.json.decode(value, type=kind)
    except (msgspec.DecodeError, KeyError) as error:
        raise CallError(Fault(FaultKind.UPSTREAM, f"the engine's server answered 200 without {name}")) from error
