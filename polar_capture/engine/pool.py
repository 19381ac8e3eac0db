"""Several engines: which one serves a session, which ones are alive."""

import asyncio
import contextlib
import hashlib
import logging
from collections.abc import Awaitable, Callable, Iterable

import msgspec

from polar_capture.engine.wire import Abilities

log = logging.getLogger(__name__)


class ServedModel(msgspec.Struct, frozen=True):
    """One model of /v1/models: name, window in tokens (None: not told), creation time in epoch seconds."""

    id: str
    window: int | None = None
    created: int = 0


class Upstream(msgspec.Struct, eq=False):
    """One engine and what is known of it. `url` is the base URL without `/v1`."""

    url: str
    healthy: bool = True
    models: list[ServedModel] = []
    listed: bool = False
    """It has been asked for its models, and answered."""
    version: str | None = None
    logprobs_mode: str | None = None
    """raw_logprobs or processed_logprobs; None: not found out yet."""
    checked: bool = False
    """A probe has seen token ids and logprobs."""
    takes_prompt_ids: bool = False
    """It samples from given prompt ids."""
    scale_out: bool = False
    """They go by render → generate → derender, since its chat requests (kv_transfer_params.prompt_token_ids) take
    none."""
    tells_weights: bool = False
    """GET /weight_info works."""
    refuses_overrun: bool = False
    """It has answered 400 because prompt + max_tokens is above the window (vLLM before 0.32)."""
    endings: set[int] = msgspec.field(default_factory=set)
    """Ids that ended a turn here: the model's end-of-turn tokens, as far as they were seen."""
    running: int = 0
    can: Abilities = Abilities()


class Pool:
    """The engines behind one proxy. A session stays with its engine, whose prefix cache holds its prompt."""

    def __init__(self, urls: Iterable[str], *, interval: float = 1.0) -> None:
        self.upstreams = [Upstream(url) for url in urls]
        self._interval = interval
        self._watcher: asyncio.Task[None] | None = None

    def choose(self, session: str, avoid: Iterable[Upstream] = ()) -> Upstream | None:
        """The engine for a session: by rendezvous hash among the healthy ones that are not to be avoided, so that a
        lost engine moves only its own sessions. Without a session: the least busy. With none healthy: any. None where
        all are to be avoided."""
        avoided = set(map(id, avoid))
        left = [u for u in self.upstreams if id(u) not in avoided]
        candidates = [u for u in left if u.healthy] or left
        if not candidates:
            return None
        if not session:
            return min(candidates, key=lambda u: u.running)
        return max(candidates, key=lambda u: hashlib.blake2b(f"{session}\0{u.url}".encode(), digest_size=8).digest())

    def down(self, upstream: Upstream, why: str, revive: Callable[[Upstream], Awaitable[bool]]) -> None:
        """Mark an engine as down; `revive` is asked again and again, in the background, until it says True."""
        if upstream.healthy:
            log.warning("engine %s is down: %s", upstream.url, why)
        upstream.healthy = False
        self.watch(revive)

    def up(self, upstream: Upstream) -> None:
        if not upstream.healthy:
            log.warning("engine %s is back", upstream.url)
        upstream.healthy = True

    def watch(self, revive: Callable[[Upstream], Awaitable[bool]]) -> None:
        """Ask `revive` about every engine that is down or unchecked, at intervals, until there is none."""
        if self._watcher is None or self._watcher.done():
            self._watcher = asyncio.create_task(self._watch(revive))

    async def _watch(self, revive: Callable[[Upstream], Awaitable[bool]]) -> None:
        while True:
            waiting = [u for u in self.upstreams if not (u.healthy and u.checked)]
            if not waiting:
                return
            await asyncio.sleep(self._interval)
            for upstream in waiting:
                if await revive(upstream):
                    self.up(upstream)

    async def close(self) -> None:
        if self._watcher is not None:
            self._watcher.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._watcher
