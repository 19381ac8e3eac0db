"""Many sessions that each make a call at fixed times, whether the last one was quick or slow (an open loop).

A call's latency counts from when it was due, so that a proxy that falls behind is not spared the calls that wait.
"""

import asyncio
import json
import ssl
import time

import aiohttp
import msgspec

LEAD = 0.5
"""Seconds before the first call is due."""


class Told(msgspec.Struct):
    """What a load found: milliseconds of each call, messages of those that failed, and how late the load itself was."""

    latencies: list[float] = []
    failures: list[str] = []
    lateness: list[float] = []
    """Milliseconds between due and sent."""

    def percentile(self, share: float) -> float:
        return percentile(self.latencies, share)


def percentile(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


class Sessions:
    """`count` sessions with a call each `every` seconds. They begin one after the other within `ramp` seconds, a
    multiple of `every`, so that their calls are spread evenly; all calls count, those that open a connection too."""

    def __init__(self, count: int, every: float, ramp: float, body: bytes) -> None:
        self.count, self.every, self.ramp = count, every, ramp
        # The last user message is another in each call, as in a conversation; the rest is made once.
        self._head, self._tail = body.split(b"TURN")

    async def run(self, url: str, seconds: float, proxies: list[str] | None = None, ca: str | None = None) -> Told:
        """For so many seconds; through `proxies` (a session stays with one of them), or straight to `url`."""
        told = Told()
        trust: dict[str, ssl.SSLContext] = {"ssl": ssl.create_default_context(cafile=ca)} if ca else {}
        connector = aiohttp.TCPConnector(limit=0)
        timeout = aiohttp.ClientTimeout(total=60)
        begin = time.perf_counter() + LEAD
        turns = max(1, int(seconds / self.every))
        async with aiohttp.ClientSession(connector=connector, timeout=timeout) as client:

            async def session(number: int) -> None:
                way = {"proxy": _named(proxies[number % len(proxies)], number)} if proxies else {}
                for turn in range(turns):
                    due = begin + self.ramp * number / self.count + self.every * turn
                    await asyncio.sleep(max(0.0, due - time.perf_counter()))
                    told.lateness.append((time.perf_counter() - due) * 1000)
                    data = self._head + f"turn {turn}, session {number}".encode() + self._tail
                    headers = {"content-type": "application/json"}
                    try:
                        async with client.post(url, data=data, headers=headers, **way, **trust) as response:
                            answer = await response.read()
                        if response.status != 200 or _broken(answer):
                            told.failures.append(f"{response.status} {answer[-200:]!r}")
                    except (aiohttp.ClientError, TimeoutError) as error:
                        told.failures.append(f"{type(error).__name__}: {error}")
                    told.latencies.append((time.perf_counter() - due) * 1000)

            await asyncio.gather(*(session(number) for number in range(self.count)))
        return told


def _named(proxy: str, number: int) -> str:
    return proxy.replace("://", f"://load-{number}:capture@")


def _broken(answer: bytes) -> bool:
    """A stream that ended without its last event, or with an error."""
    return b"event: " in answer[:200] and (b"message_stop" not in answer[-200:] or b"event: error" in answer)


def with_turn(body: bytes) -> bytes:
    """A Messages body whose last user message holds the mark that each call replaces."""
    request = json.loads(body)
    request["messages"][-1]["content"].append({"type": "text", "text": "go on TURN"})
    return json.dumps(request).encode()
