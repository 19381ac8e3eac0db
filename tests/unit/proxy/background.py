"""A real proxy in a thread of its own, for tests that are not coroutines themselves (Hypothesis)."""

import asyncio
import contextlib
import json
import threading
from collections.abc import Coroutine, Iterator
from typing import Any, TypeVar

from tests.double import Double
from tests.proxying import Proxy, proxy

T = TypeVar("T")


class Background:
    """`do` runs a coroutine in the proxy's loop. `dialled` are the addresses to which the proxy opened connections."""

    def __init__(self, loop: asyncio.AbstractEventLoop, vllm: Double, running: Proxy) -> None:
        self._loop, self.vllm, self.running = loop, vllm, running
        self.dialled: list[tuple[str, int]] = []

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(60)

    def answer(self, method: str, url: str, **options: Any) -> tuple[int, bytes, dict[str, str]]:
        return self.do(self.running.answer(method, url, **options))

    def post(self, url: str, body: Any, **options: Any) -> dict[str, Any]:
        """The JSON of an answer that has to be there."""
        status, answer, _ = self.answer("POST", url, data=json.dumps(body), **options)
        assert status == 200, answer
        return json.loads(answer)

    @property
    def internal_errors(self) -> int:
        return self.running.runtime.gateway.counts["internal_errors"]


@contextlib.contextmanager
def background(**settings: Any) -> Iterator[Background]:
    """`settings` are fields of ServeConfig."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    stack = contextlib.AsyncExitStack()

    async def begin() -> Background:
        vllm = await stack.enter_async_context(Double())
        running = await stack.enter_async_context(proxy(vllm.url, egress="block", **settings))
        made = Background(loop, vllm, running)
        hook = running.addon.server_connect

        async def watched(data: Any) -> None:
            made.dialled.append(data.server.address)
            await hook(data)

        running.addon.server_connect = watched
        return made

    try:
        made = asyncio.run_coroutine_threadsafe(begin(), loop).result(60)
        yield made
    finally:
        asyncio.run_coroutine_threadsafe(stack.aclose(), loop).result(60)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(5)
        loop.close()
