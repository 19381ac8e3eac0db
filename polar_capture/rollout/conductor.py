"""Many samples at once: which is next, what is tried again, and which groups are complete."""

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Sequence

import msgspec
import requests

from polar_capture.outcomes import SessionStatus
from polar_capture.rollout.problems import EngineGone, InfrastructureFault
from polar_capture.rollout.progress import Board, Group, Prior, Result, Slot, group_id
from polar_capture.rollout.sample import Bench
from polar_capture.rollout.tasks import Task


class Orders(msgspec.Struct, frozen=True, kw_only=True):
    """What a rollout is asked to do. `retries` are for infrastructure faults, `patience` is in seconds."""

    name: str
    tasks: Sequence[Task]
    samples: int
    parallel: int
    retries: int = 2
    patience: float = 300.0
    """How long the engine may be away before the rollout stops."""


class EngineWatch:
    """Holds new attempts back while the engine is away. `healthy` is None where nobody can ask it."""

    def __init__(self, healthy: Callable[[], bool] | None, patience: float) -> None:
        self._healthy = healthy
        self._patience = patience
        self._asking = asyncio.Lock()
        self._doubtful = False

    def doubt(self) -> None:
        """An attempt failed below the agent: ask before the next one."""
        self._doubtful = True

    async def ready(self) -> None:
        """Return when the engine answers. EngineGone after `patience` seconds."""
        if not self._doubtful or self._healthy is None:
            return
        async with self._asking:
            deadline = time.monotonic() + self._patience
            while self._doubtful:
                if await asyncio.to_thread(self._healthy):
                    self._doubtful = False
                elif time.monotonic() > deadline:
                    raise EngineGone(
                        f"the engine has not answered for {self._patience:g} s: start it, and run the same command "
                        "again; what is finished stays"
                    )
                else:
                    await asyncio.sleep(0.5)


def health_of(upstreams: Sequence[str]) -> Callable[[], bool] | None:
    """Whether any of these engines says that it is well; None where none is known."""

    def healthy() -> bool:
        with requests.Session() as http:
            http.trust_env = False
            for url in upstreams:
                with contextlib.suppress(requests.RequestException):
                    if http.get(f"{url}/health", timeout=5).ok:
                        return True
        return False

    return healthy if upstreams else None


class Conductor:
    """Runs the missing samples of all groups, at most `parallel` at once."""

    def __init__(
        self, orders: Orders, bench: Bench, priors: dict[tuple[str, int], Prior], board: Board, watch: EngineWatch
    ) -> None:
        self._orders, self._bench, self._priors, self._board, self._watch = orders, bench, priors, board, watch
        self._finished: asyncio.Queue[Result | BaseException] = asyncio.Queue()

    async def groups(self) -> AsyncGenerator[Group, None]:
        """Each group when its last sample is there; those that were complete before come first. When this ends,
        however it ends, no process of a sample is left."""
        by_task: dict[str, list[Result]] = {task.id: [] for task in self._orders.tasks}
        tasks = {task.id: task for task in self._orders.tasks}
        waiting: deque[Slot] = deque()
        for task in self._orders.tasks:
            for index in range(self._orders.samples):
                prior = self._priors[task.id, index]
                if prior.result is not None:
                    by_task[task.id].append(prior.result)
                    self._board.finish(prior.result, earlier=True)
                else:
                    waiting.append(Slot(self._orders.name, task, index))
        for task_id, results in by_task.items():
            if len(results) == self._orders.samples:
                yield self._group(tasks[task_id], results)
        missing = len(waiting)
        workers = [asyncio.create_task(self._work(waiting)) for _ in range(min(self._orders.parallel, missing))]
        try:
            for _ in range(missing):
                done = await self._finished.get()
                if isinstance(done, BaseException):
                    raise done
                self._board.finish(done)
                by_task[done.task_id].append(done)
                if len(by_task[done.task_id]) == self._orders.samples:
                    yield self._group(tasks[done.task_id], by_task[done.task_id])
        finally:
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)

    def _group(self, task: Task, results: list[Result]) -> Group:
        ordered = sorted(results, key=lambda result: result.sample_index)
        return Group(task=task, group_id=group_id(self._orders.name, task), results=ordered)

    async def _work(self, waiting: deque[Slot]) -> None:
        while waiting:
            try:
                self._finished.put_nowait(await self._fill(waiting.popleft()))
            except Exception as error:
                self._finished.put_nowait(error)
                return

    async def _fill(self, slot: Slot) -> Result:
        """A result for this slot: what is left of an earlier start, else new attempts."""
        prior = self._priors[slot.task.id, slot.index]
        for note in prior.stale:
            await self._bench.abandon(slot, note)
        if prior.unjudged is not None:
            judged = await self._bench.judge(slot, prior.unjudged)
            if judged is not None:
                return judged
            await self._bench.abandon(slot, prior.unjudged)
        number, why = prior.attempt, ""
        for tried in range(self._orders.retries + 1):
            await self._watch.ready()
            try:
                return await self._bench.sample(slot, number)
            except InfrastructureFault as fault:
                self._watch.doubt()
                self._board.retries += 1
                number, why = max(number, fault.number) + 1, str(fault)
                if tried < self._orders.retries:
                    await asyncio.sleep(min(8.0, 0.5 * 2**tried))
        return Result(
            session_id=slot.session(number - 1),
            task_id=slot.task.id,
            group_id=slot.group_id,
            sample_index=slot.index,
            status=SessionStatus.ABANDONED,
            error=f"{why} (after {self._orders.retries + 1} attempts)",
            attempt=number - 1,
        )
