"""When what is sent, and what becomes of a client that leaves."""

import asyncio
import concurrent.futures
import itertools
import threading
import time

import aiohttp
import pytest

from polar_capture import delivery
from tests.double import Double, Step
from tests.proxying import Proxy, proxy
from tests.unit.proxy.dialect_calls import CALLS


async def arrivals(running: Proxy, url: str, body: dict) -> list[tuple[float, bytes]]:
    """Each chunk of an answer with its time since the request, in seconds."""
    begun, chunks = time.monotonic(), []
    async with running.request("POST", url, json=body) as response:
        assert response.status == 200
        async for chunk in response.content.iter_any():
            chunks.append((time.monotonic() - begun, chunk))
    return chunks


def slow_commits(running: Proxy, seconds: float) -> asyncio.Event:
    """Make every commit of calls take longer; the event is set when a row has been handed over."""
    recorder, submitted = running.runtime.gateway.recorder, asyncio.Event()
    commit = recorder.call

    def call(records):
        future: concurrent.futures.Future[None] = concurrent.futures.Future()
        commit(records).add_done_callback(lambda _: threading.Timer(seconds, future.set_result, [None]).start())
        submitted.set()
        return future

    recorder.call = call  # type: ignore[method-assign]
    return submitted


@pytest.mark.parametrize("dialect", CALLS)
async def test_o_transport_03_and_06_a_slow_answer_opens_after_the_grace_and_is_kept_alive(dialect, monkeypatch):
    monkeypatch.setattr(delivery.deliver, "__kwdefaults__", {"keepalive": 0.3})
    async with Double() as vllm, proxy(vllm.url, grace=0.3) as running:
        vllm.push(Step(content="Ok.", delay=1.6), Step(content="Ok."))
        url, body = CALLS[dialect].asking("hi", stream=True)
        slow = await arrivals(running, url, body)
        fast = await arrivals(running, url, body)
    gaps = [later - earlier for (earlier, _), (later, _) in itertools.pairwise(slow)]
    assert slow[0][0] < 1.0, "the stream opens long before the answer"
    assert max(gaps) < 1.0
    assert b"Ok." in b"".join(chunk for _, chunk in slow)
    assert b"Ok." in b"".join(chunk for _, chunk in fast)


async def test_a_fault_inside_the_grace_is_a_plain_http_error_and_after_it_an_error_event():
    async with Double() as vllm, proxy(vllm.url, grace=0.3) as running:
        url, body = CALLS["openai_chat"].asking("hi", stream=True)
        vllm.push(Step(status=400, error="nope"), Step(status=400, error="nope", delay=0.8))
        status, early, headers = await running.answer("POST", url, json=body)
        assert (status, headers["content-type"].partition(";")[0]) == (400, "application/json")
        assert b"nope" in early
        status, late, headers = await running.answer("POST", url, json=body)
        assert (status, headers["content-type"].partition(";")[0]) == (200, "text/event-stream")
        assert b"nope" in late
        rows = await running.calls()
    assert [row["status"] for row in rows] == ["error", "error"]
    assert [row["reason"] for row in rows] == ["upstream_error"] * 2


@pytest.mark.parametrize("stream", [True, False])
async def test_o_transport_05_a_client_that_leaves_aborts_the_generation(stream):
    async with Double() as vllm, proxy(vllm.url, grace=0.2) as running:
        vllm.push(Step(delay=30))
        url, body = CALLS["openai_chat"].asking("hi", stream=stream)
        with pytest.raises((TimeoutError, aiohttp.ClientError)):
            async with running.request("POST", url, json=body, timeout=aiohttp.ClientTimeout(1)) as response:
                await response.read()
        asked = vllm.chats[-1]
        async with asyncio.timeout(5):
            while asked.disconnected_at is None:
                await asyncio.sleep(0.02)
        (row,) = await running.calls()
        assert running.runtime.gateway.running == 0
    assert (row["status"], row["reason"], row["trainable"], row["delivered"]) == ("aborted", "aborted", False, False)
    assert row["prompt_ids"] is None


async def test_an_answer_that_was_not_taken_is_undelivered_and_replayed_to_the_retry():
    async with Double() as vllm, proxy(vllm.url, grace=0.1) as running:
        vllm.push(Step(content="Once.", delay=0.5), Step(content="Twice."))
        url, body = CALLS["openai_chat"].asking("hi")
        submitted = slow_commits(running, 0.5)
        task = asyncio.create_task(running.answer("POST", url, json=body))
        await submitted.wait()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await asyncio.sleep(0.8)
        (row,) = await running.calls()
        assert (row["delivered"], row["trainable"], row["reason"]) == (False, False, "undelivered")
        status, answer, _ = await running.answer("POST", url, json=body)
        assert b"Once." in answer, (status, answer)
        (row,) = await running.calls()
        assert len(vllm.chats) == 2, "the probe and one generation: nothing is sampled twice"
    assert (row["delivered"], row["trainable"], row["reason"], row["attempt"]) == (True, True, None, 1)


async def test_a_counted_retry_joins_the_running_generation():
    async with Double() as vllm, proxy(vllm.url) as running:
        vllm.push(Step(content="Once.", delay=0.8), Step(content="Twice."))
        url, body = CALLS["anthropic"].asking("hi")
        first = asyncio.create_task(running.answer("POST", url, json=body))
        await asyncio.sleep(0.3)
        second = await running.answer("POST", url, json=body, headers={"x-stainless-retry-count": "1"})
        assert b"Once." in second[1]
        assert (await first)[1] == second[1]
        rows = await running.calls()
    assert len(rows) == 1
