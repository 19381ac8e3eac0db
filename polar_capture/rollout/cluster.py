"""`--ray`: the samples of a rollout spread over a Ray cluster, by an actor and a proxy on each node.

Ray knows the nodes and which of them live; what is done is in the shared PostgreSQL. A node that dies takes its running
samples with it: they are abandoned and made again on another node. Those that it had finished are on record.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator
from typing import Any

import msgspec

from polar_capture import rollouts, store
from polar_capture.exits import Exit, Failure
from polar_capture.outcomes import SessionStatus
from polar_capture.rollout import proxies
from polar_capture.rollout.conductor import Conductor, EngineWatch, health_of
from polar_capture.rollout.only_one import only_one
from polar_capture.rollout.problems import InfrastructureFault
from polar_capture.rollout.progress import ABANDONED, Board, Group, Note, Result, Slot, load
from polar_capture.rollout.sample import LocalBench
from polar_capture.rollouts import Plan
from polar_capture.store import Store
from polar_capture.store.records import SessionRecord

START_PATIENCE = 300.0
"""Seconds for a node's proxy and harness to be ready."""


class NodeWorker:
    """Makes samples on one node; as a Ray actor it lives in a process of that node."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._stack = contextlib.AsyncExitStack()
        self._bench: LocalBench | None = None

    async def open(self) -> int:
        """Start the node's own proxy, and have the harness ready; the actor's process id."""
        import os

        plan = self._plan
        assert plan.serve is not None
        serve = msgspec.structs.replace(plan.serve, control_token=plan.home.control_token())
        access = await asyncio.to_thread(
            self._stack.enter_context, proxies.private(plan.home, serve, f"{plan.name}-{os.getpid()}")
        )
        captured = self._stack.enter_context(store.open(plan.db, create=False))
        self._bench = LocalBench(await rollouts.place(plan, access, captured, self._stack))
        return os.getpid()

    async def sample(self, slot: Slot, number: int) -> Result | str:
        """A result, or the message of an infrastructure fault."""
        assert self._bench is not None
        try:
            return await self._bench.sample(slot, number)
        except InfrastructureFault as fault:
            return str(fault)

    async def judge(self, slot: Slot, note: Note) -> Result | None:
        assert self._bench is not None
        return await self._bench.judge(slot, note)

    async def close(self) -> None:
        await self._stack.aclose()


class Node(msgspec.Struct):
    """One node as the driver sees it."""

    id: str
    actor: Any
    running: int = 0
    finished: int = 0
    lost: int = 0
    """Samples that were under way when it died."""
    alive: bool = True


class RayBench:
    """The nodes of a cluster."""

    def __init__(self, nodes: list[Node], captured: Store, plan: Plan) -> None:
        self.nodes = nodes
        self._captured = captured
        self._plan = plan

    async def sample(self, slot: Slot, number: int) -> Result:
        """As LocalBench; the death of a node is no failure of the sample, which goes to the next node."""
        import ray

        while True:
            node = self._idlest()
            node.running += 1
            try:
                made = await node.actor.sample.remote(slot, number)
            except ray.exceptions.RayActorError:
                node.alive = False
                node.lost += 1
                recorded = await asyncio.to_thread(self._recorded, slot)
                if recorded is not None:
                    return recorded
                note = Note(name=slot.rollout, task=slot.task.fingerprint, agent=self._plan.agent.label, stage="run")
                await self.abandon(slot, msgspec.structs.replace(note, attempt=number, error="its node died"))
                number += 1
                continue
            finally:
                node.running -= 1
            if isinstance(made, str):
                fault = InfrastructureFault(made)
                fault.number = number
                raise fault
            node.finished += 1
            return made

    async def judge(self, slot: Slot, note: Note) -> Result | None:
        for node in filter(lambda node: node.alive, self.nodes):
            judged: Result | None = await node.actor.judge.remote(slot, note)
            if judged is not None:
                return judged
        return None

    async def abandon(self, slot: Slot, note: Note) -> None:
        record = SessionRecord(
            slot.session(note.attempt),
            started_at=time.time(),
            task_id=slot.task.id,
            group_id=slot.group_id + ABANDONED,
            sample_index=slot.index,
            status=SessionStatus.ABANDONED,
            ended_at=time.time(),
            extra={"rollout": msgspec.to_builtins(note)},
        )
        await asyncio.to_thread(self._captured.upsert_session, record)

    def _idlest(self) -> Node:
        living = [node for node in self.nodes if node.alive]
        if not living:
            raise Failure("every node of the Ray cluster has died: start it, and run the same command again")
        return min(living, key=lambda node: node.running)

    def _recorded(self, slot: Slot) -> Result | None:
        """The result of a sample whose node died after it was on record."""
        prior = load(self._captured, slot.rollout, [slot.task], slot.index + 1, self._plan.agent.label)
        return prior[slot.task.id, slot.index].result


async def spread(plan: Plan, board: Board, address: str) -> AsyncGenerator[Group, None]:
    """The groups of a plan, made on the cluster at `address`; `plan.parallel` is for all nodes together.

    Raises Failure as `rollouts.run` does, and for a cluster that cannot be had.
    """
    if not plan.db.startswith("postgresql"):
        raise Failure("--ray needs a database that every node reaches: --db postgresql://USER@HOST/NAME", Exit.USAGE)
    if plan.serve is None:
        raise Failure(
            "--ray starts a proxy on each node: leave --proxy out, and name the engine by --upstream", Exit.USAGE
        )
    connected = _connect(address)
    async with contextlib.AsyncExitStack() as stack:
        if connected:
            stack.callback(_disconnect)
        captured = stack.enter_context(store.open(plan.db))
        stack.enter_context(only_one(captured, plan.name, plan.home.path / "rollouts"))
        priors = load(captured, plan.name, plan.tasks, plan.samples, plan.agent.label)
        nodes = await _start(plan)
        stack.push_async_callback(_stop, nodes)
        bench = RayBench(nodes, captured, plan)
        watch = EngineWatch(health_of(plan.serve.upstreams), plan.patience)
        board.nodes = nodes
        groups = Conductor(plan.orders, bench, priors, board, watch).groups()
        async with contextlib.aclosing(groups):
            async for group in groups:
                yield group


def _connect(address: str) -> bool:
    """Join the cluster; False where this process is in one already."""
    try:
        import ray
    except ImportError as error:
        raise Failure("--ray needs Ray: pip install ray", Exit.USAGE) from error
    if ray.is_initialized():
        return False
    try:
        ray.init(address=address, log_to_driver=False, logging_level="ERROR")
    except Exception as error:
        raise Failure(f"--ray {address}: {type(error).__name__}: {error}") from error
    return True


def _disconnect() -> None:
    import ray

    ray.shutdown()


async def _start(plan: Plan) -> list[Node]:
    """A worker on each living node. Failure where not one of them gets ready."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    worker = ray.remote(NodeWorker)
    nodes = []
    for found in ray.nodes():
        if found["Alive"]:
            place = NodeAffinitySchedulingStrategy(node_id=found["NodeID"], soft=False)
            actor = worker.options(
                scheduling_strategy=place, num_cpus=0, max_concurrency=plan.parallel + 2, max_restarts=0
            ).remote(plan)
            nodes.append(Node(found["NodeID"], actor))
    ready = await asyncio.gather(
        *(asyncio.wait_for(node.actor.open.remote(), START_PATIENCE) for node in nodes), return_exceptions=True
    )
    living = [node for node, told in zip(nodes, ready, strict=True) if not isinstance(told, BaseException)]
    if not living:
        faults = [str(told) for told in ready if isinstance(told, BaseException)]
        raise Failure(f"no node of the Ray cluster could start its proxy: {faults[0] if faults else 'there is none'}")
    return living


async def _stop(nodes: list[Node]) -> None:
    import ray

    for node in nodes:
        if node.alive:
            with contextlib.suppress(ray.exceptions.RayError, TimeoutError):
                await asyncio.wait_for(node.actor.close.remote(), 60)
            ray.kill(node.actor)
