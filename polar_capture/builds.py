"""Build the training samples of sessions: read the calls, link them, give credit, replace the rows of the strategy.

Repeatable: the same calls and rewards give the same rows, ids included. The rewards of a group decide the advantages
of all its members, so that a build of one session gives those of its group anew as well.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec
import sqlalchemy as sa

from polar_capture.call_rows import SessionRow, call_rows, conversation_of
from polar_capture.samples_table import write_session
from polar_capture.store import Store
from polar_capture.store.models import Call, Reward, Sample, Session
from polar_capture.trajectories.advantages import GroupReport, Method, Sharing, group_advantages, share
from polar_capture.trajectories.credit import CreditOptions, RewardRow, SessionRewards, counted, spread
from polar_capture.trajectories.options import BuildOptions
from polar_capture.trajectories.report import SessionReport
from polar_capture.trajectories.rows import Sample as SampleRow
from polar_capture.trajectories.samples import SessionBuild, build_session

_IN_CHUNK = 500


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that decides what a build writes."""

    options: BuildOptions = BuildOptions()
    credit: CreditOptions = CreditOptions()
    advantage: Method = "grpo"
    sharing: Sharing = "full"
    max_staleness: int | None = None
    """How many versions a turn's policy may be behind `policy_version`; older turns stay in their rows as context, with
    the reason `stale_policy`. None: any age trains."""
    policy_version: int | None = None
    """The version in force, as the trainer counts; None: the newest that any call in the database was sampled by."""

    def __post_init__(self) -> None:
        if self.max_staleness is not None and self.max_staleness < 0:
            raise ValueError(f"max_staleness is {self.max_staleness}: 0 takes the version in force alone")
        if self.policy_version is not None and self.max_staleness is None:
            raise ValueError("policy_version is what max_staleness counts back from: give both")
        if self.max_staleness is not None and self.options.oldest_policy is not None:
            raise ValueError("max_staleness and oldest_policy both say how old a turn may be: give one of them")


class BuildReport(msgspec.Struct):
    """What a build made, session by session and group by group."""

    sessions: list[SessionReport]
    groups: list[GroupReport]

    def total(self) -> SessionReport:
        """All sessions in one."""
        total = SessionReport(session_id=f"all {len(self.sessions)}", strategy="")
        for session in self.sessions:
            for name in ("calls", "samples", "sampled_tokens", "trained_tokens", "empty_calls", "suspect_calls"):
                setattr(total, name, getattr(total, name) + getattr(session, name))
            for name in ("verdicts", "breaks", "reasons", "masked"):
                getattr(total, name).update(getattr(session, name))
        return total

    def as_json(self) -> dict[str, Any]:
        return {
            "sessions": [session.as_json() for session in self.sessions],
            "groups": [group.as_json() for group in self.groups],
            "total": self.total().as_json(),
        }


def build(
    captured: Store,
    plan: Plan | None = None,
    *,
    session_id: str | None = None,
    group_id: str | None = None,
    progress: Callable[[int, int], None] = lambda done, of: None,
) -> BuildReport:
    """Builds all sessions, or one, or those of one group. `progress` hears how many sessions of how many are done.

    KeyError for a session or a group that is not in the database.
    """
    plan = _dated(captured, plan or Plan())
    named = _sessions(captured, session_id, group_id)
    if not named and (session_id is not None or group_id is not None):
        what = f"session {session_id}" if session_id is not None else f"group {group_id}"
        raise KeyError(f"{what} is not in {captured.database.name}")
    siblings = _built_siblings(captured, plan, named)
    scope = [*named, *siblings]
    rewards = _rewards(captured, plan.credit, _group_members(captured, scope))
    advantages, groups = _advantages(rewards, plan.advantage)
    reports = []
    for done, session in enumerate(scope):
        report = _build_one(captured, plan, session, rewards[session], advantages[session.id])
        if done < len(named):
            reports.append(report)
        progress(done + 1, len(scope))
    return BuildReport(reports, groups)


def _dated(captured: Store, plan: Plan) -> Plan:
    """The plan with its staleness as a version: turns of an older one are context."""
    if plan.max_staleness is None:
        return plan
    newest = plan.policy_version
    if newest is None:
        with captured.database.read.connect() as connection:
            newest = connection.execute(sa.select(sa.func.max(Call.policy_version))).scalar()
    oldest = (newest or 0) - plan.max_staleness
    return msgspec.structs.replace(
        plan,
        options=msgspec.structs.replace(plan.options, oldest_policy=oldest),
        max_staleness=None,
        policy_version=None,
    )


def _build_one(
    captured: Store, plan: Plan, session: SessionRow, rewards: SessionRewards, advantage: float | None
) -> SessionReport:
    with captured.database.read.connect() as connection:
        rows = call_rows(connection, session.id)
        built = build_session(session.id, rows, plan.options, lambda call_id: conversation_of(captured, call_id))
    samples = _credited(built, plan, session, rewards, advantage)
    write_session(captured.database, plan.options.strategy, session.id, samples)
    return built.report


def _credited(
    built: SessionBuild, plan: Plan, session: SessionRow, rewards: SessionRewards, advantage: float | None
) -> Iterable[SampleRow]:
    shares = share(advantage, built.trained, plan.sharing)
    for sample, own in zip(built.samples(), shares, strict=True):
        sample.group_id, sample.task_id = session.group_id, session.task_id
        spread(sample, rewards, own, plan.credit)
        yield sample


def _sessions(captured: Store, session_id: str | None, group_id: str | None) -> list[SessionRow]:
    query = sa.select(Session.id, Session.group_id, Session.task_id, Session.sample_index)
    if session_id is not None:
        query = query.where(Session.id == session_id)
    if group_id is not None:
        query = query.where(Session.group_id == group_id)
    with captured.database.read.connect() as connection:
        return [SessionRow(*row) for row in connection.execute(query.order_by(Session.started_at, Session.id))]


def _group_members(captured: Store, scope: Sequence[SessionRow]) -> list[SessionRow]:
    """The sessions of the scope and all others of their groups."""
    groups = {session.group_id for session in scope if session.group_id is not None}
    known = {session.id for session in scope}
    others = [s for group in sorted(groups) for s in _sessions(captured, None, group) if s.id not in known]
    return [*scope, *others]


def _built_siblings(captured: Store, plan: Plan, named: Sequence[SessionRow]) -> list[SessionRow]:
    """Other sessions of the same groups that have rows of this strategy: their advantages change with the group."""
    known = {session.id for session in named}
    others = [session for session in _group_members(captured, named) if session.id not in known]
    if not others:
        return []
    query = sa.select(Sample.session_id).where(Sample.strategy == plan.options.strategy).distinct()
    with captured.database.read.connect() as connection:
        built = set(connection.execute(query).scalars())
    return [session for session in others if session.id in built]


def _rewards(
    captured: Store, credit: CreditOptions, sessions: Sequence[SessionRow]
) -> dict[SessionRow, SessionRewards]:
    given: dict[str, list[RewardRow]] = defaultdict(list)
    columns = (Reward.id, Reward.session_id, Reward.call_id, Reward.name, Reward.value, Reward.created_at)
    ids = [session.id for session in sessions]
    with captured.database.read.connect() as connection:
        for begin in range(0, len(ids), _IN_CHUNK):
            query = sa.select(*columns).where(Reward.session_id.in_(ids[begin : begin + _IN_CHUNK]))
            for row in connection.execute(query).mappings():
                given[row["session_id"]].append(RewardRow(**row))
    return {session: counted(given[session.id], credit) for session in sessions}


def _advantages(
    rewards: dict[SessionRow, SessionRewards], method: Method
) -> tuple[dict[str, float | None], list[GroupReport]]:
    """Advantages of all sessions, and the report of each group. A session without a group has no baseline, and none."""
    advantages: dict[str, float | None] = dict.fromkeys((session.id for session in rewards), None)
    groups: dict[str, list[SessionRow]] = defaultdict(list)
    for session in rewards:
        if session.group_id is not None:
            groups[session.group_id].append(session)
    reports = []
    for group_id in sorted(groups):
        members = groups[group_id]
        found, report = group_advantages(
            group_id,
            {session.id: rewards[session].outcome for session in members},
            method,
            {session.id: session.sample_index for session in members},
        )
        advantages |= found
        reports.append(report)
    return advantages, reports
