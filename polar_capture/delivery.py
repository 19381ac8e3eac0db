"""When what is sent: the status is held for the header grace, then the stream opens and is kept alive until the answer
is there.

Nothing that ends a turn is sent before the work is done, and the work is done only when the call is durable.
"""

import asyncio
from collections.abc import Awaitable, Callable

from aiohttp import web

from polar_capture.dialects.base import HttpAnswer, Reply, Stream
from polar_capture.faults import CallError, Fault

KEEPALIVE = 10.0
"""Seconds between typed no-ops; the most impatient client gives up after 67 s (facts/harnesses.md §7)."""


async def deliver(
    request: web.BaseRequest,
    work: "asyncio.Task[Reply]",
    stream: Stream | None,
    error: Callable[[Fault], HttpAnswer],
    prompt_tokens: Callable[[], Awaitable[int | None]],
    *,
    grace: float,
    keepalive: float = KEEPALIVE,
) -> web.StreamResponse:
    """Answer with the result of `work`: one JSON body where `stream` is None, else the fabricated stream.

    Raises ConnectionError when the client is gone, CancelledError when the handler is cancelled for the same reason.
    """
    await asyncio.wait({work}, timeout=None if stream is None else grace)
    if work.done() or stream is None:
        try:
            reply = await asyncio.shield(work)
        except CallError as fault:
            return await plain(request, error(fault.fault))
        if stream is None:
            return await plain(
                request, HttpAnswer(200, reply.json(), {"content-type": "application/json", **reply.headers()})
            )
        response = await _opened(request, stream, dict(reply.headers()))
        await response.write(stream.finish(reply))
    else:
        response = await _opened(request, stream, dict(stream.headers()))
        await _keep_alive(response, work, stream, prompt_tokens, keepalive)
        try:
            ending = stream.finish(await asyncio.shield(work))
        except CallError as fault:
            ending = stream.fail(fault.fault)
        await response.write(ending)
    await response.write_eof()
    return response


async def plain(request: web.BaseRequest, answer: HttpAnswer) -> web.Response:
    """One whole HTTP answer."""
    response = web.Response(status=answer.status, body=answer.body, headers=dict(answer.headers))
    await response.prepare(request)
    await response.write_eof()
    return response


async def _opened(request: web.BaseRequest, stream: Stream, headers: dict[str, str]) -> web.StreamResponse:
    response = web.StreamResponse(
        headers={"content-type": stream.content_type, "cache-control": "no-cache", "x-accel-buffering": "no", **headers}
    )
    await response.prepare(request)
    return response


async def _keep_alive(
    response: web.StreamResponse,
    work: "asyncio.Task[Reply]",
    stream: Stream,
    prompt_tokens: Callable[[], Awaitable[int | None]],
    keepalive: float,
) -> None:
    """Open the stream, say the prompt's size once it is known, and send a no-op into every silence."""
    counting = asyncio.ensure_future(prompt_tokens())
    try:
        await _write(response, stream.open(None))
        told = False
        while not work.done():
            waiting: set[asyncio.Future] = {work} if told else {work, counting}
            done, _ = await asyncio.wait(waiting, timeout=keepalive, return_when=asyncio.FIRST_COMPLETED)
            if work in done:
                return
            if counting in done:
                told = True
                size = counting.result()
                if size is not None:
                    await _write(response, stream.open(size))
            elif not done:
                await _write(response, stream.noop())
    finally:
        counting.cancel()


async def _write(response: web.StreamResponse, data: bytes) -> None:
    if data:
        await response.write(data)
