"""One sample from beginning to end: prepare → run → evaluate → reward."""

import asyncio
import contextlib
import os
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Protocol

import msgspec

from polar_capture.control_client import ControlClient
from polar_capture.environment import child_environment, evaluator_environment
from polar_capture.exits import Failure
from polar_capture.outcomes import SessionStatus
from polar_capture.reward_command import Judgement
from polar_capture.rollout import evaluation, processes, workspaces
from polar_capture.rollout.agents import Agent
from polar_capture.rollout.isolation import Isolation
from polar_capture.rollout.problems import EvaluatorFault, InfrastructureFault
from polar_capture.rollout.progress import ABANDONED, Facts, Note, Result, Slot, Stage, facts, result
from polar_capture.rollout.proxies import Access
from polar_capture.rollout.workspaces import Folders
from polar_capture.store import Store

Callback = Callable[[dict[str, Any]], Awaitable[Any] | Any]
"""A trainer's own reward: gets `task`, `workspace` (a path) and `session`, and returns what an evaluator would."""


class Place(msgspec.Struct, kw_only=True):
    """All that the samples of one rollout on one machine share."""

    access: Access
    captured: Store
    agent: Agent
    label: str
    isolation: Isolation
    root: Path
    evaluate: Callback | None = None
    keep: bool = False
    moved: Callable[[Slot, Stage], None] = lambda slot, stage: None


class Bench(Protocol):
    """Where samples are made: on this machine or on others."""

    async def sample(self, slot: Slot, number: int) -> Result:
        """A new attempt. InfrastructureFault where another may succeed."""

    async def judge(self, slot: Slot, note: Note) -> Result | None:
        """The missing evaluation of an earlier attempt; None where its workspace is gone."""

    async def abandon(self, slot: Slot, note: Note) -> None:
        """Take an earlier attempt out of its group."""


class LocalBench:
    """This machine."""

    def __init__(self, place: Place) -> None:
        self._place = place

    async def sample(self, slot: Slot, number: int) -> Result:
        try:
            return await Attempt(self._place, slot, number).sample()
        except InfrastructureFault as fault:
            status = self._place.access.died()
            if status is not None:
                raise Failure(f"the proxy ended (status {status}); its log: {self._place.access.log}") from fault
            raise

    async def judge(self, slot: Slot, note: Note) -> Result | None:
        attempt = Attempt(self._place, slot, note.attempt)
        if not await asyncio.to_thread(attempt.folders.work.is_dir):
            return None
        status = SessionStatus.FAILED if note.exit_status else SessionStatus.COMPLETED
        status = SessionStatus.TIMEOUT if note.timed_out else status
        return await attempt.judge(msgspec.structs.replace(note, error=None), status)

    async def abandon(self, slot: Slot, note: Note) -> None:
        await Attempt(self._place, slot, note.attempt).abandon("the rollout was interrupted")


class Attempt:
    """One attempt at a slot, as one session."""

    def __init__(self, place: Place, slot: Slot, number: int) -> None:
        self.place, self.slot, self.number = place, slot, number
        self.session = slot.session(number)
        self.folders = Folders(place.root / slot.rollout / self.session)
        self.started = time.monotonic()
        self._control: ControlClient = place.access.control(self.session)

    async def sample(self) -> Result:
        """Run all stages. InfrastructureFault where it may be tried again, and the session is abandoned then; when
        cancelled, what is done stays on record."""
        try:
            await self._open()
            await self._prepare()
            note, status = await self._run()
        except (InfrastructureFault, asyncio.CancelledError) as error:
            if isinstance(error, InfrastructureFault):
                error.number = self.number
            await asyncio.shield(self.abandon(str(error) or "interrupted"))
            raise
        try:
            return await self.judge(note, status)
        except InfrastructureFault as fault:
            # The agent's work is done and on disk: it is judged by the next start, never sampled again.
            raise Failure(f"session {self.session} could not be given its reward: {fault}") from fault

    async def judge(self, note: Note, status: str) -> Result:
        """The evaluation of a session that has ended, and its reward on record."""
        self._moved("evaluate")
        try:
            judgements = await self._judgements() if note.error is None else {}
        except EvaluatorFault as fault:
            await self._note(note := msgspec.structs.replace(note, error=str(fault)))
            return await self._result(status, note)  # its stage stays: the next start judges again
        # A sample of which nothing was captured is missing still, and is made anew by the next start.
        stage: Stage = "done" if note.error is None else "run"
        note = msgspec.structs.replace(note, stage=stage, seconds=time.monotonic() - self.started)
        recording = asyncio.ensure_future(self._record(judgements, note))
        try:
            await asyncio.shield(recording)
        except asyncio.CancelledError:
            await recording  # a reward without its note would be given a second time by the next start
            raise
        return await self._result(status, note)

    async def _record(self, judgements: dict[str, Judgement], note: Note) -> None:
        for name, one in judgements.items():
            row = {"name": name, "value": one.value, "source": "rollout", "comment": one.comment}
            await self._told(self._control.give_reward, self.session, row)
        await self._note(note)
        if not self.place.keep:
            await asyncio.to_thread(self.folders.remove)

    async def abandon(self, why: str) -> None:
        """Take the session out of its group; the calls that it has stay on record."""
        note = self._as_note("run", error=why)
        fields = {"status": SessionStatus.ABANDONED, "group_id": self.slot.group_id + ABANDONED}
        # Where the proxy is gone too, the next start finds the session open, and abandons it
        with contextlib.suppress(Failure):
            await asyncio.to_thread(self._control.open_session, self.session, fields | _metadata(note))
        if not self.place.keep:
            await asyncio.to_thread(self.folders.remove)

    # --- the stages ------------------------------------------------------------------------------------------------

    async def _open(self) -> None:
        task, agent = self.slot.task, self.place.agent
        fields = {
            "task_id": task.id,
            "group_id": self.slot.group_id,
            "sample_index": self.slot.index,
            "status": SessionStatus.OPEN,
            "harness": agent.name,
        }
        metadata = _metadata(self._as_note("prepare"))["metadata"]
        metadata |= {"limits": msgspec.to_builtins(task.limits)} if task.limits.any else {}
        metadata |= {"tags": task.tags} if task.tags else {}
        await self._told(self._control.open_session, self.session, {**fields, "metadata": metadata})

    async def _prepare(self) -> None:
        self._moved("prepare")
        seconds = self.slot.task.stages.prepare
        environment = {**evaluator_environment(os.environ, self.session), **self.slot.task.env}
        try:
            async with asyncio.timeout(seconds):
                await workspaces.prepare(self.slot.task, self.folders, environment, seconds)
        except TimeoutError:
            raise InfrastructureFault(f"prepare took longer than {seconds:g} s") from None

    async def _run(self) -> tuple[Note, str]:
        self._moved("run")
        task, place, folders = self.slot.task, self.place, self.folders
        endpoint = place.access.endpoint(self.session)
        launch = await asyncio.to_thread(place.agent.launch, task, folders.home)
        environment = {**child_environment(endpoint, launch.inherited), **launch.environment}
        enclosed = place.isolation.agent(launch.command, environment, folders, endpoint.proxy, endpoint.bundle)
        try:
            ended = await processes.run(
                enclosed.command,
                folder=folders.work,
                environment=enclosed.environment,
                seconds=task.stages.run,
                output=folders.log("run"),
                jail=enclosed.jail,
            )
        except OSError as error:
            raise InfrastructureFault(f"the harness could not be started: {error}") from error
        finally:
            for finish in filter(None, (launch.finish, enclosed.finish)):
                await asyncio.shield(self._finish(finish, environment))
        found = await asyncio.to_thread(facts, place.captured, self.session)
        self._check_below(found, ended)
        problem = None
        if not found.captured:
            said = workspaces.tail(folders.log("run"))
            problem = f"no turn was captured (status {ended.status}): {place.isolation.blame}{said}"
        status = SessionStatus.TIMEOUT if ended.timed_out else SessionStatus.COMPLETED
        if not ended.timed_out and (ended.status or problem):
            status = SessionStatus.FAILED
        note = self._as_note("evaluate", error=problem)
        note.exit_status, note.timed_out = ended.status, ended.timed_out
        if found.policy_min is not None and found.policy_max is not None:
            note.policy_versions = (found.policy_min, found.policy_max)
        await self._told(self._control.change_session, self.session, {"status": status} | _metadata(note))
        return note, status

    def _check_below(self, found: Facts, ended: processes.Ended) -> None:
        """Whether it was the engine or the proxy that failed, and not the agent."""
        died = self.place.access.died()
        if died is not None:
            raise InfrastructureFault(f"the proxy ended (status {died})")
        if found.broken is not None and not ended.timed_out:
            raise InfrastructureFault(f"the engine failed: {found.broken}")

    async def _finish(self, command: tuple[str, ...], environment: dict[str, str]) -> None:
        with contextlib.suppress(OSError):  # there was nothing to end
            await processes.run(
                command,
                folder=self.folders.work,
                environment=environment,
                seconds=20,
                output=self.folders.log("finish"),
            )

    async def _judgements(self) -> dict[str, Judgement]:
        task = self.slot.task
        seconds = task.stages.evaluate
        try:
            async with asyncio.timeout(seconds):
                environment = evaluator_environment(os.environ, self.session)
                found = await evaluation.judge(task, self.folders, self.session, environment, seconds)
                if self.place.evaluate is not None:
                    found["outcome"] = await self._callback(self.place.evaluate)
                return found
        except TimeoutError:
            raise EvaluatorFault(f"the evaluation took longer than {seconds:g} s") from None

    async def _callback(self, evaluate: Callback) -> Judgement:
        given = {"task": self.slot.task, "workspace": self.folders.work, "session": self.session}
        try:
            value = await asyncio.to_thread(evaluate, given)
            if isinstance(value, Awaitable):
                value = await value
        except Exception as error:
            raise EvaluatorFault(f"the evaluator raised {type(error).__name__}: {error}") from error
        return evaluation.judgement_of(value)

    # --- what is on record -------------------------------------------------------------------------------------------

    def _as_note(self, stage: Stage, error: str | None = None) -> Note:
        place, slot = self.place, self.slot
        return Note(
            name=slot.rollout,
            task=slot.task.fingerprint,
            agent=place.label,
            stage=stage,
            attempt=self.number,
            error=error,
            folder=str(self.folders.root),
        )

    async def _note(self, note: Note) -> None:
        await self._told(self._control.change_session, self.session, _metadata(note))

    async def _result(self, status: str, note: Note) -> Result:
        slot = self.slot
        return await asyncio.to_thread(
            result, self.place.captured, self.session, slot.task.id, slot.group_id, slot.index, status, note
        )

    async def _told(self, method: Callable[..., Any], *arguments: Any) -> None:
        """Tell the control host. InfrastructureFault where it does not take it."""
        try:
            await asyncio.to_thread(method, *arguments)
        except Failure as failure:
            raise InfrastructureFault(str(failure)) from failure

    def _moved(self, stage: Stage) -> None:
        self.place.moved(self.slot, stage)


def _metadata(note: Note) -> dict[str, Any]:
    return {"metadata": {"rollout": msgspec.to_builtins(note)}}
