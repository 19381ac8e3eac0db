"""What exact continuation costs and saves: time to answer and prefix-cache hits of long sessions, with and without.

    python -m tests.bench.continuation [--turns 30] [--sessions 2]

A real vLLM with `--chat-template tests/engine/templates/thinks.jinja`, of Qwen3's kind (POLAR_ROLES_URL names one that
runs already). Each session is a tool loop whose results have some 900 tokens, with a new question at every sixth turn;
its harness drops thoughts. Sessions with and
without follow each other, so that a busy machine is busy for both. What is beside the generation is mostly the renders
that tell the tail; without continuation the engine renders within it.
"""

import argparse
import asyncio
import json
import re
import statistics
import time
from collections import Counter
from random import Random
from typing import Any

import requests
from rich.console import Console
from rich.table import Table

from tests.engine.continuation_stage import BASH, TEMPLATES, URL, echoed, roles_engine
from tests.proxying import Proxy, proxy

MODES = ("off", "auto")


def cache_counters(url: str) -> tuple[float, float]:
    """Prompt tokens looked up in the prefix cache so far, and those found."""
    text = requests.get(f"{url}/metrics", timeout=10).text

    def total(name: str) -> float:
        return sum(float(line.rsplit(" ", 1)[1]) for line in re.findall(rf"^vllm:{name}{{.*$", text, re.MULTILINE))

    return total("prefix_cache_queries_total"), total("prefix_cache_hits_total")


class Session:
    """One growing conversation through one proxy."""

    def __init__(self, running: Proxy, name: str, seed: int) -> None:
        self._running, self._name, self._random = running, name, Random(seed)
        self._messages: list[dict[str, Any]] = [{"role": "user", "content": self._question()}]
        self._turn = 0

    def _question(self) -> str:
        return "Write a direction, use the tool bash"

    async def turn(self) -> float:
        """Seconds until the answer."""
        body = {"model": "m", "messages": self._messages, "tools": [BASH], "temperature": 1.0, "max_tokens": 60}
        begun = time.perf_counter()
        status, answer, _ = await self._running.answer("POST", URL, json=body, session=self._name)
        seconds = time.perf_counter() - begun
        assert status == 200, answer
        message = json.loads(answer)["choices"][0]["message"]
        self._messages.append(echoed(message, self._random))
        output = "\n".join(f"{self._random.random():.6f} proof.txt" for _ in range(60))
        for call in message.get("tool_calls") or []:
            self._messages.append({"role": "tool", "tool_call_id": call["id"], "content": output})
        self._turn += 1
        if self._turn % 6 == 0 or not message.get("tool_calls"):
            self._messages.append({"role": "user", "content": output + "\n" + self._question()})
        return seconds


async def measure(engine_url: str, turns: int, sessions: int) -> None:
    times: dict[str, list[float]] = {mode: [] for mode in MODES}
    asked, hits, size = dict.fromkeys(MODES, 0.0), dict.fromkeys(MODES, 0.0), dict.fromkeys(MODES, 0)
    beside: dict[str, list[float]] = {mode: [] for mode in MODES}
    outcomes: dict[str, Counter[str]] = {mode: Counter() for mode in MODES}
    for number in range(sessions):
        for mode in MODES:
            async with proxy(engine_url, continuation=mode) as running:
                before = await asyncio.to_thread(cache_counters, engine_url)
                talk = Session(running, f"{mode}-{number}", seed=2 * number + MODES.index(mode))
                times[mode] += [await talk.turn() for _ in range(turns)]
                after = await asyncio.to_thread(cache_counters, engine_url)
                asked[mode] += after[0] - before[0]
                hits[mode] += after[1] - before[1]
                for row in await running.calls(f"{mode}-{number}"):
                    size[mode] = max(size[mode], row["prompt_tokens"])
                    outcomes[mode][row["continuation"]] += 1
                    beside[mode].append((row["finished_at"] - row["started_at"]) * 1000 - row["upstream_ms"])
    table = Table(title=f"{sessions} sessions of {turns} turns")
    columns = ("continuation", "mean ms", "p50 ms", "p90 ms", "p50 ms beside the generation", "cache hits", "longest")
    for column in (*columns, "outcomes"):
        table.add_column(column, justify="right")
    for mode in MODES:
        ordered = sorted(times[mode])
        table.add_row(
            mode,
            f"{statistics.mean(ordered) * 1000:.0f}",
            f"{statistics.median(ordered) * 1000:.0f}",
            f"{ordered[int(len(ordered) * 0.9)] * 1000:.0f}",
            f"{statistics.median(beside[mode]):.0f}",
            f"{hits[mode] / max(asked[mode], 1):.1%}",
            str(size[mode]),
            ", ".join(f"{name} {count}" for name, count in sorted(outcomes[mode].items())),
        )
    Console().print(table)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--turns", type=int, default=30)
    options.add_argument("--sessions", type=int, default=2)
    chosen = options.parse_args()
    with roles_engine("--chat-template", str(TEMPLATES / "thinks.jinja")) as engine:
        asyncio.run(measure(engine.url, chosen.turns, chosen.sessions))


if __name__ == "__main__":
    main()
