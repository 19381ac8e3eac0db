"""Who is in a group, what rewards its sessions have, and the advantages that these give: read from the database."""

from collections import defaultdict
from collections.abc import Sequence

import sqlalchemy as sa

from polar_capture.call_rows import SessionRow
from polar_capture.store import Store
from polar_capture.store.models import Reward, Sample, Session
from polar_capture.trajectories.advantages import GroupReport, Method, group_advantages
from polar_capture.trajectories.credit import CreditOptions, RewardRow, SessionRewards, counted

_IN_CHUNK = 500


def sessions(captured: Store, session_id: str | None = None, group_id: str | None = None) -> list[SessionRow]:
    """All sessions, or one, or those of a group, by their start."""
    query = sa.select(Session.id, Session.group_id, Session.task_id, Session.sample_index)
    if session_id is not None:
        query = query.where(Session.id == session_id)
    if group_id is not None:
        query = query.where(Session.group_id == group_id)
    with captured.database.read.connect() as connection:
        return [SessionRow(*row) for row in connection.execute(query.order_by(Session.started_at, Session.id))]


def group_members(captured: Store, scope: Sequence[SessionRow]) -> list[SessionRow]:
    """The sessions of the scope and all others of their groups."""
    groups = {session.group_id for session in scope if session.group_id is not None}
    known = {session.id for session in scope}
    others = [s for group in sorted(groups) for s in sessions(captured, group_id=group) if s.id not in known]
    return [*scope, *others]


def built_siblings(captured: Store, strategy: str, named: Sequence[SessionRow]) -> list[SessionRow]:
    """Other sessions of the same groups that have rows of this strategy: their advantages change with the group."""
    known = {session.id for session in named}
    others = [session for session in group_members(captured, named) if session.id not in known]
    if not others:
        return []
    query = sa.select(Sample.session_id).where(Sample.strategy == strategy).distinct()
    with captured.database.read.connect() as connection:
        built = set(connection.execute(query).scalars())
    return [session for session in others if session.id in built]


def rewards_of(
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


def advantages_of(
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
