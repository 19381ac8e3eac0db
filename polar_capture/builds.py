"""Build the training samples of sessions: read the calls, link them, give credit, replace the rows of the strategy.

Repeatable: the same calls and rewards give the same rows, ids included. The rewards of a group decide the advantages
of all its members, so that a build of one session gives those of its group anew as well.
"""

from collections.abc import Callable, Iterable
from typing import Any

import msgspec
import sqlalchemy as sa

from polar_capture.call_rows import SessionRow, call_rows, conversation_of
from polar_capture.group_credit import advantages_of, built_siblings, group_members, rewards_of, sessions
from polar_capture.recredit import Crediting, remember
from polar_capture.samples_table import write_session
from polar_capture.store import CodecError, Store
from polar_capture.store.models import Call
from polar_capture.trajectories.advantages import GroupReport, Method, Sharing, share
from polar_capture.trajectories.credit import CreditOptions, SessionRewards, spread
from polar_capture.trajectories.options import BuildOptions
from polar_capture.trajectories.report import SessionReport
from polar_capture.trajectories.rows import Sample as SampleRow
from polar_capture.trajectories.samples import SessionBuild, build_session


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

    @property
    def crediting(self) -> Crediting:
        return Crediting(credit=self.credit, advantage=self.advantage, sharing=self.sharing)

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
    named = sessions(captured, session_id, group_id)
    if not named and (session_id is not None or group_id is not None):
        what = f"session {session_id}" if session_id is not None else f"group {group_id}"
        raise KeyError(f"{what} is not in {captured.database.name}")
    siblings = built_siblings(captured, plan.options.strategy, named)
    scope = [*named, *siblings]
    rewards = rewards_of(captured, plan.credit, group_members(captured, scope))
    advantages, groups = advantages_of(rewards, plan.advantage)
    reports = []
    for done, session in enumerate(scope):
        report = _build_one(captured, plan, session, rewards[session], advantages[session.id])
        if done < len(named):
            reports.append(report)
        progress(done + 1, len(scope))
    remember(captured, plan.options.strategy, plan.crediting, scope)
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
        try:
            built = build_session(session.id, rows, plan.options, lambda call_id: conversation_of(captured, call_id))
        except CodecError as error:
            raise CodecError(f"session {session.id}: {error}") from error
    samples = _credited(built, plan, session, rewards, advantage)
    write_session(captured.database, plan.options.strategy, session.id, samples)
    return built.report


def _credited(
    built: SessionBuild, plan: Plan, session: SessionRow, rewards: SessionRewards, advantage: float | None
) -> Iterable[SampleRow]:
    shares = share(advantage, built.trained, plan.sharing)
    for sample, own in zip(built.samples(), shares, strict=True):
        sample.group_id, sample.task_id = session.group_id, session.task_id
        sample.reward, sample.advantage = rewards.outcome, own
        spread(sample.turn_spans, rewards, own, plan.credit)
        yield sample
