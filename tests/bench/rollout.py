"""Rollouts at their size: 256 sessions at once through the proxy, and what a rollout adds to a session of its own.

    python -m tests.bench.rollout [--sessions 256] [--every 4] [--seconds 60] [--samples 24] [--workers 1,2]

First table: each session makes a 200 KB call every 4 s at fixed times, straight to the engine's double and then through
the proxy; the limit holds for what the proxy adds to the 99th percentile. Second table: from a sample's start to its
first call and from its last answer to the recorded reward, less what agent and evaluator take by themselves.
"""

import argparse
import asyncio
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import certifi
import psutil
from rich.console import Console
from rich.table import Table

from polar_capture import ready, rollouts, store
from polar_capture.config import ServeConfig
from polar_capture.home import Home
from polar_capture.rollout.agents import Spec
from polar_capture.rollout.progress import Board, Slot, Stage
from polar_capture.rollouts import Plan
from tests.bench.gateway import MESSAGES, PROMPT_IDS, SAMPLED, cpu_seconds, messages_body, started
from tests.bench.session_load import Sessions, Told, percentile, with_turn

ADDED_LIMIT = 250.0
"""Milliseconds that the proxy may add to the 99th percentile."""
OVERHEAD_LIMIT = 150.0
"""Milliseconds that a rollout may add to a sample before its first call and behind its last one, together."""

RAMP = 4
"""Rounds within which the sessions begin."""
TURNS = 16
"""Prompts that grow out of each other, so that each call continues the one before, as an agent's do."""

AGENT = Path(__file__).with_name("rollout_agent.py")


@contextlib.contextmanager
def double(folder: Path) -> Iterator[str]:
    command = [sys.executable, "-m", "tests.double", "--port", "0", "--canned", f"{PROMPT_IDS},{SAMPLED},{TURNS}"]
    process, line = started(command, "ready", folder / "double.log")
    try:
        yield json.loads(line[line.index("{") :])["url"]
    finally:
        process.terminate()
        process.wait(30)


@contextlib.contextmanager
def proxy(folder: Path, upstream: str, workers: int) -> Iterator[ready.Ready]:
    command = [sys.executable, "-m", "polar_capture", "serve", "--port", "0", "--upstream", upstream]
    command += ["--db", str(folder / f"bench-{workers}.db"), "--home", str(folder / "home"), "--egress", "block"]
    command += ["--workers", str(workers)]
    process, line = started(command, "ready", folder / f"proxy-{workers}.log")
    running = ready.parse(line)
    assert running is not None
    try:
        yield running
    finally:
        process.terminate()
        process.wait(60)


def processes(pid: int) -> list[psutil.Process]:
    """A `serve` and its workers."""
    parent = psutil.Process(pid)
    return [parent, *parent.children(recursive=True)]


async def at_once(console: Console, chosen: argparse.Namespace, folder: Path, upstream: str) -> None:
    table = Table(
        title=f"{chosen.sessions} sessions, a 200 KB call every {chosen.every:g} s each: "
        f"{chosen.sessions / chosen.every:.0f} calls/s for {chosen.seconds:g} s"
    )
    columns = ("path", "calls", "failed", "p50 ms", "p95 ms", "p99 ms", "max ms", "added p99 ms", "CPU ms/call")
    for column in columns:
        table.add_column(column, justify="right")
    load = Sessions(chosen.sessions, chosen.every, RAMP * chosen.every, with_turn(messages_body(200_000)))
    direct = await load.run(f"{upstream}/v1/chat/completions", chosen.seconds)
    table.add_row("direct", *_cells(direct), "", "")
    for workers in chosen.workers:
        with proxy(folder, upstream, workers) as running:
            ways = running.workers or [running.proxy]
            await Sessions(8, 1.0, 1.0, with_turn(messages_body(2_000))).run(MESSAGES, 2.0, ways, running.ca)
            before = sum(map(cpu_seconds, processes(running.pid)))
            told = await load.run(MESSAGES, chosen.seconds, ways, running.ca)
            cpu = (sum(map(cpu_seconds, processes(running.pid))) - before) / len(told.latencies) * 1000
        added = told.percentile(0.99) - direct.percentile(0.99)
        held = "held" if added < ADDED_LIMIT and not told.failures else "MISSED"
        name = f"proxy, {workers} worker" + ("s" if workers > 1 else "")
        table.add_row(name, *_cells(told), f"{added:.0f} ({held})", f"{cpu:.2f}")
        console.print(f"{name}: p99 {told.percentile(0.99):.0f} ms, {added:.0f} ms added: {held}", highlight=False)
        for failure in told.failures[:3]:
            console.print(f"failed: {failure}", markup=False)
    console.print(table)
    console.print(f"the load itself sent its direct calls up to {percentile(direct.lateness, 0.99):.0f} ms late (p99)")


def _cells(told: Told) -> list[str]:
    shown = [told.percentile(share) for share in (0.5, 0.95, 0.99)]
    return [str(len(told.latencies)), str(len(told.failures)), *(f"{x:.0f}" for x in (*shown, max(told.latencies)))]


class Watch(Board):
    """A board that keeps when each sample's stages began, in seconds since 1970."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.begun: dict[tuple[int, Stage], float] = {}

    def move(self, slot: Slot, stage: Stage) -> None:
        super().move(slot, stage)
        self.begun[slot.index, stage] = time.time()


def alone(folder: Path, upstream: str, evaluator: str, times: int) -> tuple[float, float, float]:
    """Median seconds of an agent straight on the engine, spawn → first call and last answer → end; of the evaluator."""
    before, behind, judged = [], [], []
    for number in range(times):
        said = folder / f"alone-{number}.json"
        environment = {**os.environ, "SSL_CERT_FILE": certifi.where()}
        begun = time.time()
        subprocess.run([sys.executable, str(AGENT), upstream, str(said)], env=environment, check=True)
        ended = time.time()
        told = json.loads(said.read_text())
        before.append(told["asks"] - begun)
        behind.append(ended - told["answered"])
        begun = time.time()
        subprocess.run(["sh", "-c", evaluator], cwd=folder, check=False)
        judged.append(time.time() - begun)
    return statistics.median(before), statistics.median(behind), statistics.median(judged)


async def overhead(console: Console, chosen: argparse.Namespace, folder: Path, upstream: str) -> None:
    evaluator = "test -d ."
    own = alone(folder, upstream, evaluator, 12)
    table = Table(title=f"what a rollout adds to each of {chosen.samples} samples, ms (median, p95)")
    for column in ("parallel", "start → first call", "last answer → reward", "together", "sample in all"):
        table.add_column(column, justify="right")
    for parallel in (1, 4):
        first, last, whole = await _rollout(folder, upstream, evaluator, chosen.samples, parallel)
        added = [(value - own[0]) * 1000 for value in first]
        behind = [(value - own[1] - own[2]) * 1000 for value in last]
        both = [a + b for a, b in zip(added, behind, strict=True)]
        middle = statistics.median(both)
        held = "" if parallel > 1 else " (held)" if middle <= OVERHEAD_LIMIT else " (MISSED)"
        row = [f"{statistics.median(x):.0f}, {percentile(x, 0.95):.0f}" for x in (added, behind, both)]
        row.append(f"{statistics.median(whole) * 1000:.0f}")
        table.add_row(str(parallel), *row[:2], row[2] + held, row[3])
    console.print(table)
    console.print(
        f"left out as their own: agent {own[0] * 1000:.0f} ms before and {own[1] * 1000:.0f} ms behind its calls, "
        f"evaluator {own[2] * 1000:.0f} ms"
    )


async def _rollout(
    folder: Path, upstream: str, evaluator: str, samples: int, parallel: int
) -> tuple[list[float], list[float], list[float]]:
    """Seconds of each sample: start → first call, last answer → reward, and in all."""
    said = folder / f"said-{parallel}"
    said.mkdir()
    task = {"id": "t", "prompt": str(said), "evaluator": evaluator}
    home, db = Home(folder / f"home-{parallel}"), f"sqlite:///{folder}/rollout-{parallel}.db"
    home.make_ca()
    serve = ServeConfig(
        upstreams=(upstream,), home=home.path, db=db, port=0, control_token=home.control_token(), egress="block"
    )
    plan = Plan(
        name=f"bench-{parallel}",
        tasks=rollouts.read_tasks([task]),
        agent=Spec(command=(sys.executable, str(AGENT), "proxy", "{prompt}")),
        samples=samples,
        parallel=parallel,
        db=db,
        home=home,
        serve=serve,
        workdir=folder / "work",
    )
    watch = Watch(plan.tasks, samples)
    async for group in rollouts.run(plan, watch):
        results = group.results
    first, last, whole = [], [], []
    with store.open(plan.db, create=False) as captured:
        for result in results:
            assert result.reward == 1.0, result.error
            begun = watch.begun[result.sample_index, "run"]
            call, *_ = captured.calls(result.session_id)
            told = json.loads((said / f"{result.session_id}.json").read_text())
            (reward,) = captured.rewards(result.session_id)
            first.append(call["started_at"] - begun)
            last.append(reward["created_at"] - told["answered"])
            whole.append(reward["created_at"] - watch.begun[result.sample_index, "prepare"])
    return first, last, whole


def main() -> None:
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--sessions", type=int, default=256)
    options.add_argument("--every", type=float, default=4.0, help="seconds between two calls of a session")
    options.add_argument("--seconds", type=float, default=60.0, help="of each row of the first table; 0: leave it out")
    options.add_argument("--samples", type=int, default=24, help="of each row of the second table")
    options.add_argument("--workers", type=lambda text: [int(n) for n in text.split(",")], default=[1, 2])
    chosen = options.parse_args()
    console = Console(width=120)
    with tempfile.TemporaryDirectory() as name, double(Path(name)) as upstream:
        if chosen.seconds:
            asyncio.run(at_once(console, chosen, Path(name), upstream))
        asyncio.run(overhead(console, chosen, Path(name), upstream))


if __name__ == "__main__":
    main()
