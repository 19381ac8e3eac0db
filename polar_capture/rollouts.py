"""Rollouts for trainers: groups of rewarded sessions, as they become complete.

    async for group in rollouts.collect(tasks, harness="pi", samples=8, upstream="http://127.0.0.1:8000"):
        print(group.group_id, group.rewards)

The tokens, masks and logprobs of a group are rows of `samples` once they are built (`polar_capture.builds.build`).
"""

import asyncio
import contextlib
import os
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from polar_capture import store
from polar_capture.config import DEFAULT_DB, DEFAULT_HOME, ConfigError, ServeConfig, database_url, parse_upstreams
from polar_capture.environment import proxy_addresses
from polar_capture.exits import Failure
from polar_capture.home import Home
from polar_capture.rollout import agents, isolation, proxies, workspaces
from polar_capture.rollout import tasks as task_files
from polar_capture.rollout.conductor import Conductor, EngineWatch, Orders, health_of
from polar_capture.rollout.only_one import only_one
from polar_capture.rollout.problems import EngineGone, TasksError
from polar_capture.rollout.progress import Board, Group, Result, Slot, Stage, load
from polar_capture.rollout.sample import Callback, LocalBench, Place
from polar_capture.rollout.tasks import Task

__all__ = ["EngineGone", "Group", "Plan", "Result", "Task", "TasksError", "collect", "run"]

MAX_NAME = 40


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """A whole rollout as a value: what, by whom, how often, and where."""

    name: str
    tasks: Sequence[Task]
    agent: agents.Spec
    samples: int = 8
    parallel: int = 4
    retries: int = 2
    patience: float = 300.0
    db: str
    """SQLAlchemy URL; the one that the proxy writes to."""
    home: Home
    serve: ServeConfig | None = None
    """A proxy of the rollout's own; None: `proxy` names running ones."""
    proxy: str | None = None
    key: str | None = None
    runtime: str = "local"
    image: str | None = None
    workdir: Path | None = None
    keep: bool = False

    def __post_init__(self) -> None:
        if task_files.TASK_ID.fullmatch(self.name) is None or len(self.name) > MAX_NAME:
            raise ConfigError(f"--name {self.name!r}: use 1 to {MAX_NAME} of A-Z a-z 0-9 . _ -")
        for option, value, least in (
            ("--samples", self.samples, 1),
            ("--parallel", self.parallel, 1),
            ("--retries", self.retries, 0),
        ):
            if value < least:
                raise ConfigError(f"{option} {value}: at least {least}")
        if (self.serve is None) == (self.proxy is None):
            raise ConfigError("a rollout needs either an engine (--upstream URL) or a running proxy (--proxy URL)")

    @property
    def orders(self) -> Orders:
        return Orders(
            name=self.name,
            tasks=self.tasks,
            samples=self.samples,
            parallel=self.parallel,
            retries=self.retries,
            patience=self.patience,
        )


def read_tasks(tasks: str | os.PathLike[str] | Iterable[Task | Mapping[str, Any]]) -> list[Task]:
    """Tasks of a JSONL file, or from Python values. TasksError with everything that is wrong."""
    if isinstance(tasks, str | os.PathLike):
        return task_files.read(Path(tasks))
    return task_files.checked(tasks)


async def run(plan: Plan, board: Board, evaluate: Callback | None = None) -> AsyncGenerator[Group, None]:
    """The groups of a plan as they become complete; `board` is kept up to date meanwhile.

    Raises Failure where the rollout cannot start or go on (the engine gone, the proxy dead); what is finished stays,
    and the same plan goes on from there.
    """
    await asyncio.to_thread(plan.agent.make)  # nothing starts for a harness that is not there
    async with contextlib.AsyncExitStack() as stack:
        access = _access(plan, stack)
        captured = stack.enter_context(store.open(plan.db, create=False))
        stack.enter_context(only_one(captured, plan.name, plan.home.path / "rollouts"))
        priors = load(captured, plan.name, plan.tasks, plan.samples, plan.agent.label)
        bench = LocalBench(await place(plan, access, captured, stack, evaluate, board.move))
        watch = EngineWatch(health_of(plan.serve.upstreams if plan.serve else ()), plan.patience)
        groups = Conductor(plan.orders, bench, priors, board, watch).groups()
        async with contextlib.aclosing(groups):
            async for group in groups:
                yield group


def _access(plan: Plan, stack: contextlib.AsyncExitStack) -> proxies.Access:
    if plan.serve is not None:
        return stack.enter_context(proxies.private(plan.home, plan.serve, plan.name))
    assert plan.proxy is not None
    return proxies.running(plan.home, proxy_addresses(plan.proxy), plan.key)


async def place(
    plan: Plan,
    access: proxies.Access,
    captured: store.Store,
    stack: contextlib.AsyncExitStack,
    evaluate: Callback | None = None,
    moved: Callable[[Slot, Stage], None] = lambda slot, stage: None,
) -> Place:
    """What the samples of a plan need on this machine, until `stack` ends. Raises Failure where it cannot be had."""
    walls = isolation.make(plan.runtime, plan.image)
    agent = await asyncio.to_thread(plan.agent.make)
    await walls.open([address for address, _ in access.addresses])
    stack.push_async_callback(walls.close)
    return Place(
        access=access,
        captured=captured,
        agent=agent,
        label=plan.agent.label,
        isolation=walls,
        root=(plan.workdir or workspaces.default_root()).absolute(),
        evaluate=evaluate,
        keep=plan.keep,
        moved=moved,
    )


async def collect(
    tasks: str | os.PathLike[str] | Iterable[Task | Mapping[str, Any]],
    *,
    harness: str | None = None,
    command: Sequence[str] = (),
    samples: int = 8,
    parallel: int = 4,
    name: str = "rollout",
    upstream: str | Sequence[str] = (),
    proxy: str | None = None,
    db: str | os.PathLike[str] | None = None,
    home: str | os.PathLike[str] | None = None,
    reward: Callback | None = None,
    sampling: Mapping[str, float] | None = None,
    egress: str = "block",
    **more: Any,
) -> AsyncGenerator[Group, None]:
    """Run `samples` sessions of each task, by a harness or by a `command` of yours, and give each group when it is
    complete.

    `upstream` starts a proxy that lives as long as the iteration; `proxy` uses running ones, whose database `db` is.
    `reward` judges in this process, beside the tasks' own evaluators, and gives the reward `outcome`. `more` are fields
    of `Plan` (retries, runtime, image, workdir, keep, key, patience). Started again with the same name, it does what is
    missing. Raises TasksError, ConfigError, Failure.
    """
    place = _home(home)
    url = database_url(str(db or os.environ.get("POLAR_DB") or DEFAULT_DB))
    serve = None
    if proxy is None:
        serve = ServeConfig(
            upstreams=parse_upstreams([upstream] if isinstance(upstream, str) else upstream),
            home=place.path,
            db=url,
            port=0,
            control_token=place.control_token(),
            sampling=dict(sampling or {}),
            egress=egress,  # type: ignore[arg-type]  # checked by ServeConfig
        )
    plan = Plan(
        name=name,
        tasks=read_tasks(tasks),
        agent=agents.Spec(harness=harness, command=tuple(command)),
        samples=samples,
        parallel=parallel,
        db=url,
        home=place,
        serve=serve,
        proxy=proxy,
        **more,
    )
    if harness is None and not command:
        raise Failure("a rollout needs a harness=NAME or a command=(…)")
    groups = run(plan, Board(plan.tasks, plan.samples), reward)
    async with contextlib.aclosing(groups):
        async for group in groups:
            yield group


def _home(given: str | os.PathLike[str] | None) -> Home:
    return Home(Path(given or os.environ.get("POLAR_HOME") or DEFAULT_HOME).expanduser().absolute())
