"""Rewards that come after the build: the rows of the session and of its group get rewards and advantages anew.

By the options that they were built with, which `sessions.metadata.build` keeps by strategy where they are not the
defaults. Tokens, masks and logprobs do not depend on rewards and stay, so that it takes milliseconds.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
import sqlalchemy as sa

from polar_capture.call_rows import SessionRow
from polar_capture.group_credit import advantages_of, built_siblings, group_members, rewards_of, sessions
from polar_capture.samples_table import span
from polar_capture.store import Store
from polar_capture.store.models import Sample, Session
from polar_capture.trajectories.advantages import Method, Sharing, share
from polar_capture.trajectories.credit import CreditOptions, SessionRewards, spread

KEY = "build"
"""The field of a session's metadata."""

_IN_CHUNK = 500


class Crediting(msgspec.Struct, frozen=True, kw_only=True):
    """What of a build's plan decides rewards and advantages."""

    credit: CreditOptions = CreditOptions()
    advantage: Method = "grpo"
    sharing: Sharing = "full"

    def as_json(self) -> dict[str, Any]:
        """Without what is as by default."""
        return {
            name: msgspec.to_builtins(getattr(self, name))
            for name in self.__struct_fields__
            if getattr(self, name) != getattr(Crediting(), name)
        }


def remember(captured: Store, strategy: str, crediting: Crediting, built: Sequence[SessionRow]) -> None:
    """Keep how these sessions were built; writes only where that has changed."""
    wanted = crediting.as_json()
    ids = [session.id for session in built]
    for begin in range(0, len(ids), _IN_CHUNK):
        query = sa.select(Session.id, Session.extra).where(Session.id.in_(ids[begin : begin + _IN_CHUNK]))
        with captured.database.read.connect() as connection:
            known = {row[0]: row[1] or {} for row in connection.execute(query)}
        changed = [id for id, found in known.items() if found.get(KEY, {}).get(strategy, {}) != wanted]
        if not changed:
            continue
        with captured.database.write.begin() as connection:
            for id in changed:
                latest = connection.execute(sa.select(Session.extra).where(Session.id == id)).scalar_one() or {}
                value = {**latest, KEY: {**latest.get(KEY, {}), strategy: wanted}}
                connection.execute(sa.update(Session).where(Session.id == id).values({Session.extra: value}))


def recredit(captured: Store, session_id: str) -> int:
    """Bring the samples of the session and of its group up to date with their rewards; how many rows that were."""
    query = sa.select(Sample.strategy).where(Sample.session_id == session_id).distinct()
    with captured.database.read.connect() as connection:
        strategies = sorted(connection.execute(query).scalars())
    return sum(_of_strategy(captured, session_id, strategy) for strategy in strategies)


def _of_strategy(captured: Store, session_id: str, strategy: str) -> int:
    named = sessions(captured, session_id=session_id)
    scope = [*named, *built_siblings(captured, strategy, named)]
    crediting = _remembered(captured, session_id, strategy)
    rewards = rewards_of(captured, crediting.credit, group_members(captured, scope))
    advantages, _ = advantages_of(rewards, crediting.advantage)
    with captured.database.write.begin() as connection:
        return sum(
            _update(connection, strategy, session.id, crediting, rewards[session], advantages[session.id])
            for session in scope
        )


def _remembered(captured: Store, session_id: str, strategy: str) -> Crediting:
    row = captured.session(session_id) or {}
    found = (row.get("metadata") or {}).get(KEY, {}).get(strategy, {})
    return msgspec.convert(found, Crediting)


def _update(
    connection: sa.Connection,
    strategy: str,
    session_id: str,
    crediting: Crediting,
    rewards: SessionRewards,
    advantage: float | None,
) -> int:
    query = sa.select(Sample.id, Sample.turn_spans).where(Sample.session_id == session_id, Sample.strategy == strategy)
    rows = [(id, [span(one) for one in spans]) for id, spans in connection.execute(query.order_by(Sample.branch)).all()]
    shares = share(advantage, [_trained(spans) for _, spans in rows], crediting.sharing)
    for (id, spans), own in zip(rows, shares, strict=True):
        spread(spans, rewards, own, crediting.credit)
        written = [one.as_json() for one in spans]
        # SQLite's JSON is text, and shall be the text that a build writes.
        text = sa.literal(msgspec.json.encode(written).decode(), sa.Text)
        values: dict[str, Any] = {"reward": rewards.outcome, "advantage": own}
        values["turn_spans"] = text if connection.dialect.name == "sqlite" else written
        connection.execute(sa.update(Sample).where(Sample.id == id).values(values))
    return len(rows)


def _trained(spans: Iterable[Any]) -> int:
    return sum(one.end - one.start for one in spans if one.trained)
