"""What a rollout has done so far: its slots, their results, and what an earlier start has left of them."""

import time
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec
import sqlalchemy as sa

from polar_capture.exits import Exit, Failure
from polar_capture.outcomes import SessionStatus
from polar_capture.rollout.tasks import Task
from polar_capture.store import Store
from polar_capture.store.models import Call, Reward, Session

Stage = Literal["waiting", "prepare", "run", "evaluate", "done"]

ABANDONED = ".abandoned"
"""Behind the group's id: attempts that a retry has replaced leave their group, so that they count in no statistics."""


class Slot(msgspec.Struct, frozen=True):
    """One sample of one task: what a session is needed for."""

    rollout: str
    task: Task
    index: int

    @property
    def group_id(self) -> str:
        return group_id(self.rollout, self.task)

    def session(self, attempt: int) -> str:
        return f"{self.rollout}.{self.task.id}.{self.index}" + (f".r{attempt}" if attempt else "")


def group_id(rollout: str, task: Task) -> str:
    return f"{rollout}.{task.id}"


class Result(msgspec.Struct, kw_only=True):
    """One finished sample. `status` is the session's; `abandoned`: it could not be had, and is missing still."""

    session_id: str
    task_id: str
    group_id: str
    sample_index: int
    status: str
    reward: float | None = None
    rewards: dict[str, float] = {}
    error: str | None = None
    attempt: int = 0
    turns: int = 0
    tokens: int = 0
    """Sampled ones."""
    seconds: float = 0.0
    """From prepare to the recorded reward."""
    policy_version_min: int | None = None
    policy_version_max: int | None = None

    @property
    def finished(self) -> bool:
        return self.status != SessionStatus.ABANDONED


class Group(msgspec.Struct, kw_only=True):
    """All samples of one task, in order of their index."""

    task: Task
    group_id: str
    results: list[Result]

    @property
    def rewards(self) -> list[float | None]:
        return [result.reward for result in self.results]

    @property
    def mean(self) -> float | None:
        known = [reward for reward in self.rewards if reward is not None]
        return sum(known) / len(known) if known else None


class Note(msgspec.Struct, omit_defaults=True):
    """The field `rollout` of a session's metadata: what a later start must know."""

    name: str
    task: str
    """The task's fingerprint."""
    agent: str
    stage: Stage
    attempt: int = 0
    error: str | None = None
    seconds: float | None = None
    folder: str | None = None
    exit_status: int | None = None
    timed_out: bool = False
    policy_versions: tuple[int, int] | None = None
    """The first and the last; a session that spans a weight update has two."""


class Prior(msgspec.Struct):
    """What is known of one slot from before: its finished result, or the attempt whose evaluation is missing, or the
    attempts to abandon; and the number of the next one."""

    result: Result | None = None
    unjudged: Note | None = None
    stale: list[Note] = []
    attempt: int = 0


class Facts(msgspec.Struct):
    """What the calls of one session say. `broken` is the message of a last call that failed below the agent."""

    calls: int = 0
    turns: int = 0
    captured: int = 0
    tokens: int = 0
    policy_min: int | None = None
    policy_max: int | None = None
    broken: str | None = None


def facts(captured: Store, session_id: str) -> Facts:
    columns = (
        *(Call.kind, Call.status, Call.reason, Call.http_status, Call.error),
        *(Call.completion_tokens, Call.policy_version, Call.trainable),
    )
    found = Facts()
    versions: list[int] = []
    with captured.database.read.connect() as connection:
        for row in connection.execute(sa.select(*columns).where(Call.session_id == session_id).order_by(Call.seq)):
            found.calls += 1
            if row.kind == "turn" and row.status == "ok":
                found.turns += 1
                found.captured += bool(row.completion_tokens)
                found.tokens += row.completion_tokens or 0
            if row.policy_version is not None:
                versions.append(row.policy_version)
            if row.kind == "turn":
                failed = row.status == "error" and (row.http_status or 500) >= 500
                found.broken = f"{row.http_status}: {row.error}" if failed else None
    found.policy_min, found.policy_max = min(versions, default=None), max(versions, default=None)
    return found


def load(
    captured: Store, rollout: str, tasks: Sequence[Task], samples: int, agent: str
) -> dict[tuple[str, int], Prior]:
    """What earlier starts of this rollout have left, by task id and index.

    Failure (status 2) where they belong to another task of that id, or to another agent.
    """
    priors = {(task.id, index): Prior() for task in tasks for index in range(samples)}
    fingerprints = {task.id: task.fingerprint for task in tasks}
    groups = [group_id(rollout, task) for task in tasks]
    rows: list[Any] = []
    columns = (
        Session.id,
        Session.task_id,
        Session.group_id,
        Session.sample_index,
        Session.status,
        Session.extra.label("extra"),
    )
    with captured.database.read.connect() as connection:
        for begin in range(0, len(groups), 200):
            part = groups[begin : begin + 200]
            wanted = [*part, *(group + ABANDONED for group in part)]
            rows += connection.execute(
                sa.select(*columns).where(Session.group_id.in_(wanted)).order_by(Session.started_at)
            )
    for row in rows:
        prior = priors.get((row.task_id, row.sample_index))
        if prior is None or "rollout" not in (row.extra or {}):
            continue
        note = msgspec.convert(row.extra["rollout"], Note)
        prior.attempt = max(prior.attempt, note.attempt + 1)
        if row.status == SessionStatus.ABANDONED:
            continue
        _check_same(row.id, note, fingerprints[row.task_id], agent)
        if note.stage == "done":
            prior.result = result(captured, row.id, row.task_id, row.group_id, row.sample_index, row.status, note)
        elif note.stage == "evaluate" and prior.unjudged is None:
            prior.unjudged = note
        else:
            prior.stale.append(note)
    return priors


def _check_same(session_id: str, note: Note, fingerprint: str, agent: str) -> None:
    changed = "the task" if note.task != fingerprint else "the harness" if note.agent != agent else None
    if changed:
        raise Failure(
            f"rollout {note.name} has session {session_id} already, and {changed} is another now: groups must not mix "
            "them; give --name a new name",
            Exit.USAGE,
        )


def result(captured: Store, session_id: str, task_id: str, group: str, index: int, status: str, note: Note) -> Result:
    """The result of a session whose rewards are recorded."""
    found = facts(captured, session_id)
    query = sa.select(Reward.name, Reward.value).where(Reward.session_id == session_id, Reward.call_id.is_(None))
    with captured.database.read.connect() as connection:
        rewards = {row.name: row.value for row in connection.execute(query.order_by(Reward.created_at, Reward.id))}
    return Result(
        session_id=session_id,
        task_id=task_id,
        group_id=group,
        sample_index=index,
        status=status,
        reward=rewards.get("outcome"),
        rewards=rewards,
        error=note.error,
        attempt=note.attempt,
        turns=found.turns,
        tokens=found.tokens,
        seconds=note.seconds or 0.0,
        policy_version_min=found.policy_min,
        policy_version_max=found.policy_max,
    )


class Board:
    """The state of every slot, for the table that people watch. Times are monotonic seconds."""

    def __init__(self, tasks: Sequence[Task], samples: int) -> None:
        self.samples = samples
        self.stages: dict[str, dict[int, Stage]] = {task.id: dict.fromkeys(range(samples), "waiting") for task in tasks}
        self.results: dict[str, list[Result]] = {task.id: [] for task in tasks}
        self.started = time.monotonic()
        self.earlier = 0
        self.retries = 0
        self.nodes: Sequence[Any] = ()
        """The cluster's nodes (`cluster.Node`), where there is one."""
        self.tokens = 0
        """Sampled by finished samples of this start."""

    def move(self, slot: Slot, stage: Stage) -> None:
        self.stages[slot.task.id][slot.index] = stage

    def finish(self, done: Result, *, earlier: bool = False) -> None:
        self.stages[done.task_id][done.sample_index] = "done"
        self.results[done.task_id].append(done)
        self.earlier += earlier
        self.tokens += 0 if earlier else done.tokens

    def counts(self) -> Mapping[str, int]:
        found = dict.fromkeys(("waiting", "prepare", "run", "evaluate", "done"), 0)
        for stages in self.stages.values():
            for stage in stages.values():
                found[stage] += 1
        return found

    @property
    def all_results(self) -> list[Result]:
        return [result for results in self.results.values() for result in results]
