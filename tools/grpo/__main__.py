#!/usr/bin/env python3
"""A policy that learns through an unmodified coding agent: groups of Pi's runs, rewards, GRPO steps, new weights.

    python -m tools.grpo [--steps 40] [--group 16] [--folder .grpo]

Each step: `rollouts.collect` runs a group of Pi on one task, through the proxy, on a real vLLM; `build` makes samples
with advantages of the captured tokens; the trainer (torch, in the engine's environment) takes one step; vLLM loads the
new weights and forgets its prefix cache; the proxy gets the new policy version. Before each step the trainer's own
logprobs are compared with the captured ones: they must agree, or the ratio of the policies would mean nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import requests

from polar_capture import builds, datasets, rollouts, store
from polar_capture.config import ServeConfig
from polar_capture.exits import Failure
from polar_capture.home import Home
from polar_capture.launch import start_proxy
from tools.engine.serve import PYTHON as ENGINE_PYTHON
from tools.engine.serve import Engine, EngineError, driver_model

ROOT = Path(__file__).resolve().parents[2]
TASK = {
    "id": "direction",
    "prompt": "Write a direction into proof.txt, use the tool bash",
    "evaluator": {"command": "grep -qx north proof.txt", "reads": "status"},
    "timeouts": {"run": 120},
    "limits": {"turns": 6},
}
SAMPLING = {"temperature": 1.0, "top_p": 1.0, "top_k": -1, "min_p": 0.0}
"""The policy's own distribution, so that raw and processed logprobs are the same."""
TOLERANCE = 1e-3
"""Of logprobs in float32 between vLLM and transformers."""
LEARNT = 0.95
STARTED = time.monotonic()


class LoopError(RuntimeError):
    """The loop cannot go on; the message says why."""


def say(text: str) -> None:
    print(f"[{time.monotonic() - STARTED:5.1f} s] {text}", flush=True)


class Trainer:
    """trainer.py as a process that answers one order at a time."""

    def __init__(self, model: Path, learning_rate: float, log: Path) -> None:
        command = [str(ENGINE_PYTHON), str(Path(__file__).with_name("trainer.py")), str(model)]
        command += ["--learning-rate", str(learning_rate)]
        with log.open("wb") as errors:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True, start_new_session=True
            )
        self._log = log

    def ready(self) -> Trainer:
        self._answer()
        return self

    def ask(self, **order: Any) -> dict[str, float]:
        assert self._process.stdin
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> dict[str, float]:
        assert self._process.stdout
        line = self._process.stdout.readline()
        if not line:
            raise LoopError(f"the trainer ended:\n{self._log.read_text(errors='replace')[-2000:]}")
        answer: dict[str, float] = json.loads(line)
        return answer

    def stop(self) -> None:
        assert self._process.stdin
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(5)
        self._process.kill()
        self._process.wait()


class Loop:
    """One run, in its own folder: database, weights, plot."""

    def __init__(self, folder: Path, group: int, parallel: int) -> None:
        self.folder, self.group, self.parallel = folder, group, parallel
        self.home = Home(folder / "home")
        self.db = f"sqlite:///{folder}/polar.db"
        self.steps: list[dict[str, float]] = []
        self.proxy = self.control = self.token = ""

    async def collect(self, version: int) -> rollouts.Group:
        """One group with the policy now in force. LoopError unless all its samples were had and judged."""
        groups = rollouts.collect(
            [TASK],
            harness="pi",
            samples=self.group,
            parallel=self.parallel,
            name=f"step-{version}",
            proxy=self.proxy,
            db=self.db,
            home=self.home.path,
        )
        async for group in groups:
            faults = [result.error for result in group.results if result.error]
            if len(faults) > self.group // 4:
                raise LoopError(f"{len(faults)} of {self.group} samples have no reward: {faults[0]}")
            return group
        raise LoopError("the rollout gave no group")

    def rows(self, group: rollouts.Group) -> Path:
        """The group's trainable samples with their advantages, in a file."""
        with store.open(self.db, create=False) as captured:
            builds.build(captured, group_id=group.group_id)
        rows = datasets.load(
            self.db,
            "SELECT sample_id AS id, input_ids, loss_mask, logprobs, advantage FROM training_samples "
            f"WHERE group_id = '{group.group_id}'",
        )
        rows = [row for row in rows if row["advantage"] is not None and any(row["loss_mask"])]
        if not rows:
            raise LoopError(f"group {group.group_id} has no trainable sample")
        file = self.folder / "rows.jsonl"
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return file

    def put_in_force(self, engine: Engine, weights: Path, version: int) -> None:
        """Serve these weights as this version: nothing is sampled meanwhile, and no stale prefix is kept."""
        self._tell("pause")
        for path, body in (
            ("/collective_rpc", {"method": "reload_weights", "kwargs": {"weights_path": str(weights)}}),
            ("/reset_prefix_cache", None),
            ("/update_weight_version", {"new_version": f"step-{version}"}),
        ):
            answer = _http().post(engine.url + path, json=body, timeout=60)
            if not answer.ok:
                raise LoopError(f"vLLM answered {path} with {answer.status_code}: {answer.text[:200]}")
        self._tell("policy", {"version": version, "label": f"step-{version}"})
        self._tell("resume")

    def _tell(self, page: str, body: dict[str, Any] | None = None) -> None:
        answer = _http().post(
            f"{self.control}/{page}", json=body, headers={"Authorization": f"Bearer {self.token}"}, timeout=60
        )
        if not answer.ok:
            raise LoopError(f"the proxy answered /{page} with {answer.status_code}: {answer.text[:200]}")

    def keep(self, step: dict[str, float]) -> None:
        self.steps.append(step)
        with (self.folder / "steps.jsonl").open("a") as file:
            file.write(json.dumps(step) + "\n")


def _http() -> requests.Session:
    session = requests.Session()
    session.trust_env = False
    return session


def prove(trainer: Trainer, rows: Path) -> None:
    """The trainer's logprobs are the captured ones; and the check sees a single changed one."""
    told = trainer.ask(do="check", rows=str(rows))
    agreed = told["worst"] <= TOLERANCE
    say(
        f"first step: {told['tokens']:.0f} sampled tokens, trainer and capture differ by {told['worst']:.1e} at most, "
        f"importance ratio {told['ratio']:.6f}: {'they agree' if agreed else 'THEY DO NOT AGREE'}"
    )
    if not agreed:
        raise LoopError(f"logprobs differ by more than {TOLERANCE}")
    changed = [json.loads(line) for line in rows.read_text().splitlines()]
    place = changed[0]["loss_mask"].index(1)
    changed[0]["logprobs"][place] -= 0.01
    file = rows.with_name("changed.jsonl")
    file.write_text("".join(json.dumps(row) + "\n" for row in changed))
    worst = trainer.ask(do="check", rows=str(file))["worst"]
    verdict = "the check fails, as it must" if worst > TOLERANCE else "THE CHECK DOES NOT SEE IT"
    say(f"with one logprob changed by 0.01 they differ by {worst:.1e}: {verdict}")
    if worst <= TOLERANCE:
        raise LoopError("a changed logprob went unseen")


async def learn(loop: Loop, engine: Engine, trainer: Trainer, steps: int, seconds: float) -> None:
    weights = loop.folder / "weights"
    for version in range(steps):
        begun = time.monotonic()
        group = await loop.collect(version)
        collected = time.monotonic()
        rows = loop.rows(group)
        if version == 0:
            prove(trainer, rows)
        told = trainer.ask(do="step", rows=str(rows), save=str(weights))
        if told["worst"] > TOLERANCE:
            raise LoopError(f"step {version}: logprobs differ by {told['worst']:.1e}: the engine serves other weights")
        loop.put_in_force(engine, weights, version + 1)
        reward = group.mean or 0.0
        loop.keep({"step": version, "reward": reward, **told, "seconds": time.monotonic() - begun})
        say(
            f"step {version:2}: mean reward {reward:.3f} {'#' * round(reward * 20):20} ratio {told['ratio']:.6f}, loss "
            f"{told['loss']:+.4f}, rollouts {collected - begun:.1f} s, learning {time.monotonic() - collected:.1f} s"
        )
        late = [step["reward"] for step in loop.steps[-5:]]
        if len(late) == 5 and min(late) >= LEARNT:
            say("the task is learnt")
            return
        if time.monotonic() - STARTED > seconds:
            say(f"{seconds:.0f} s are over")
            return


@contextlib.contextmanager
def parts(loop: Loop, learning_rate: float) -> Iterator[tuple[Engine, Trainer]]:
    """A vLLM with weights of its own, a proxy and a trainer; gone after the block."""
    model = loop.folder / "model"
    untie = Path(__file__).with_name("untie.py")
    subprocess.run([str(ENGINE_PYTHON), str(untie), str(driver_model()), str(model)], check=True)
    with contextlib.ExitStack() as stack:
        engine = Engine(model=model, log=loop.folder / "engine.log", progress=say).launch()
        stack.callback(engine.stop)
        trainer = Trainer(model, learning_rate, loop.folder / "trainer.log")
        stack.callback(trainer.stop)
        engine.wait()
        loop.home.make_ca()
        loop.token = loop.home.control_token()
        config = ServeConfig(
            upstreams=(engine.url,),
            home=loop.home.path,
            db=loop.db,
            port=0,
            control_token=loop.token,
            sampling=SAMPLING,
            egress="block",
        )
        proxy = start_proxy(config, loop.folder / "proxy.log", os.environ)
        stack.callback(proxy.stop)
        loop.proxy, loop.control = proxy.ready.proxy, proxy.ready.control
        yield engine, trainer.ready()


def conclude(loop: Loop) -> None:
    plot = loop.folder / "rewards.png"
    subprocess.run(
        [str(ENGINE_PYTHON), str(Path(__file__).with_name("plot.py")), str(loop.folder / "steps.jsonl"), str(plot)],
        check=True,
    )
    rewards = [step["reward"] for step in loop.steps]
    ends = min(5, (len(rewards) + 1) // 2)
    first, last = sum(rewards[:ends]) / ends, sum(rewards[-ends:]) / ends
    say(f"mean reward of the first {ends} groups {first:.3f}, of the last {ends} {last:.3f}; plot: {plot}")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.grpo", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--steps", type=int, default=int(os.environ.get("STEPS") or 40))
    parser.add_argument("--seconds", type=float, default=540.0, help="no step begins after so long")
    parser.add_argument("--group", type=int, default=16)
    parser.add_argument("--parallel", type=int, default=4)
    parser.add_argument("--learning-rate", type=float, default=1e-4)
    parser.add_argument("--folder", type=Path, default=ROOT / ".grpo")
    options = parser.parse_args()
    os.environ.setdefault("POLAR_CACHE", str(ROOT / ".cache"))  # as the Makefile says it
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    folder = options.folder.absolute()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    loop = Loop(folder, options.group, options.parallel)
    try:
        with parts(loop, options.learning_rate) as (engine, trainer):
            asyncio.run(learn(loop, engine, trainer, options.steps, options.seconds))
        conclude(loop)
    except (LoopError, EngineError, Failure) as error:
        say(f"grpo: {error}")
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
