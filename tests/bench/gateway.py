"""`make bench`: what the proxy costs, beside asking the engine's double directly, in one run.

    python -m tests.bench.gateway [--calls 400] [--memory 10000] [--dialect anthropic]

The double answers at once with 20,000 prompt ids and 500 sampled tokens with logprobs. Load generator and double run in
processes of their own; CPU is that of the proxy's process, threads included. `bare` is mitmproxy relaying the same
bytes through the same hop (tests/bench/bare_relay.py): the floor of what any proxy of this kind costs on this machine.
"""

import argparse
import asyncio
import json
import re
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp
import psutil
from rich.console import Console
from rich.table import Table

from polar_capture import ready

PROMPT_IDS, SAMPLED = 20_000, 500
SIZES = {"2 KB": 2_000, "200 KB": 200_000, "2 MB": 2_000_000}
MESSAGES = "https://api.anthropic.com/v1/messages"
BARE = "https://api.anthropic.com/v1/chat/completions"


def messages_body(size: int) -> bytes:
    """A streaming Messages request of about `size` bytes: system, tools, and a history of turns with tool calls."""
    tools = [
        {
            "name": f"tool_{i}",
            "description": "x" * 200,
            "input_schema": {"type": "object", "properties": {"a": {"type": "string"}}},
        }
        for i in range(min(20, size // 1000))
    ]
    body: dict[str, Any] = {"model": "m", "max_tokens": 4096, "stream": True, "system": "s" * 500, "tools": tools}
    body["messages"] = [{"role": "user", "content": "start"}]
    turn = 0
    length = len(json.dumps(body))
    while length < size:
        use = {"type": "tool_use", "id": f"toolu_{turn}", "name": "tool_0", "input": {"a": "line\n" * 20}}
        result = {
            "type": "tool_result",
            "tool_use_id": f"toolu_{turn}",
            "content": "output of a command\n" * min(150, size // 60),
        }
        added = [
            {"role": "assistant", "content": [{"type": "text", "text": "I look."}, use]},
            {"role": "user", "content": [result]},
        ]
        body["messages"] += added
        length += len(json.dumps(added))
        turn += 1
    return json.dumps(body).encode()


class Through(NamedTuple):
    """A proxy under measurement."""

    name: str
    proxy: str
    ca: str
    process: psutil.Process


class Load:
    """Posts one body again and again over kept connections, each connection in a session of its own and of this size:
    as in an agent's session, all but the first call have a parent that is much like them."""

    def __init__(self, url: str, body: bytes, proxy: str | None = None, ca: str | None = None) -> None:
        self._url, self._body, self._proxy = url, body, proxy
        self._ssl = ssl.create_default_context(cafile=ca) if ca else None

    async def run(self, calls: int, connections: int) -> tuple[float, list[float]]:
        """Wall seconds for all calls, and each call's milliseconds."""
        left, times = iter(range(calls)), []
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(connector=connector) as client:

            async def worker(number: int) -> None:
                proxy = self._proxy.replace("://", f"://bench-{len(self._body)}-{number}@") if self._proxy else None
                extra = {"ssl": self._ssl} if self._ssl else {}
                for _ in left:
                    begun = time.perf_counter()
                    async with client.post(
                        self._url, data=self._body, proxy=proxy, headers={"content-type": "application/json"}, **extra
                    ) as response:
                        assert response.status == 200, await response.read()
                        await response.read()
                    times.append((time.perf_counter() - begun) * 1000)

            begun = time.perf_counter()
            await asyncio.gather(*(worker(n) for n in range(connections)))
            return time.perf_counter() - begun, times


def percentile(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


def started(command: list[str], pattern: str, log: Path) -> tuple[subprocess.Popen[str], str]:
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log.open("w"), text=True)
    assert process.stdout is not None
    for line in process.stdout:
        if re.search(pattern, line):
            return process, line
    raise SystemExit(f"{command} did not start: {log.read_text()[-2000:]}")


def cpu_seconds(process: psutil.Process) -> float:
    times = process.cpu_times()
    return times.user + times.system


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--calls", type=int, default=400)
    options.add_argument("--memory", type=int, default=10_000, help="calls of the memory run; 0 leaves it out")
    chosen = options.parse_args()
    console = Console()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        double, line = started(
            [sys.executable, "-m", "tests.double", "--port", "0", "--canned", f"{PROMPT_IDS},{SAMPLED}"],
            "ready",
            folder / "double.log",
        )
        upstream = json.loads(line[line.index("{") :])["url"]
        command = [sys.executable, "-m", "polar_capture", "serve", "--port", "0", "--upstream", upstream]
        command += ["--db", str(folder / "bench.db"), "--home", str(folder / "home"), "--egress", "block"]
        proxy, line = started(command, "ready", folder / "proxy.log")
        running = ready.parse(line)
        assert running is not None
        command = [
            sys.executable,
            "-m",
            "tests.bench.bare_relay",
            "--upstream",
            upstream,
            "--home",
            str(folder / "bare"),
        ]
        relay, line = started(command, "ready", folder / "bare.log")
        floor = json.loads(line[line.index("{") :])
        paths = (
            Through("bare", floor["proxy"], floor["ca"], psutil.Process(relay.pid)),
            Through("proxy", running.proxy, running.ca, psutil.Process(proxy.pid)),
        )
        try:
            asyncio.run(measure(console, chosen, upstream, paths))
        finally:
            for process in (proxy, relay, double):
                process.terminate()
                process.wait(30)


async def measure(console: Console, chosen: argparse.Namespace, upstream: str, ways: tuple[Through, Through]) -> None:
    table = Table(title=f"{PROMPT_IDS} prompt ids, {SAMPLED} sampled tokens with logprobs, streaming Messages")
    for column in ("body", "conns", "path", "p50 ms", "p95 ms", "calls/s", "CPU ms/call", "added p50 ms", "x bare"):
        table.add_column(column, justify="right")
    for label, size in SIZES.items():
        body = messages_body(size)
        direct = Load(f"{upstream}/v1/chat/completions", body)
        for connections in (1, 32):
            calls = chosen.calls if size < 1_000_000 else chosen.calls // 4
            base_wall, base = await direct.run(calls, connections)
            table.add_row(label, str(connections), "direct", *_cells(base, base_wall), "", "", "")
            spent: list[float] = []
            for way in ways:
                load = Load(BARE if way.name == "bare" else MESSAGES, body, way.proxy, way.ca)
                await load.run(20, 4)
                before = cpu_seconds(way.process)
                wall, times = await load.run(calls, connections)
                spent.append((cpu_seconds(way.process) - before) / calls * 1000)
                added = statistics.median(times) - statistics.median(base)
                ratio = f"{spent[-1] / spent[0]:.2f}"
                table.add_row("", "", way.name, *_cells(times, wall), f"{spent[-1]:.2f}", f"{added:.2f}", ratio)
    console.print(table)
    if chosen.memory:
        ours = ways[1]
        await _memory(console, chosen.memory, Load(MESSAGES, messages_body(200_000), ours.proxy, ours.ca), ours.process)


def _cells(times: list[float], wall: float) -> list[str]:
    return [f"{statistics.median(times):.2f}", f"{percentile(times, 0.95):.2f}", f"{len(times) / wall:.0f}"]


async def _memory(console: Console, calls: int, load: Load, process: psutil.Process) -> None:
    table = Table(title="memory of the proxy, 200 KB calls, 32 connections")
    table.add_column("calls", justify="right")
    table.add_column("RSS MB", justify="right")
    step = max(1, calls // 10)
    for done in range(0, calls + 1, step):
        if done:
            await load.run(step, 32)
        table.add_row(str(done), f"{process.memory_info().rss / 2**20:.0f}")
    console.print(table)


if __name__ == "__main__":
    main()
