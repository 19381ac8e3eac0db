"""Which reward a session has, and how it is spread over the turns of a sample.

With R the session's reward, A its advantage, K the sampled turns of a sample in their order (k = 0 … K−1), r_j the
sum of the rewards given to turn j itself, and γ the discount:

- outcome:     every turn has reward R and advantage A.
- last-turn:   turn K−1 has reward R + r_{K−1} and advantage A + r_{K−1}; turn k before it r_k and r_k.
- discounted:  reward G_k = γ^(K−1−k)·R + Σ_{j≥k} γ^(j−k)·r_j, advantage γ^(K−1−k)·A + Σ_{j≥k} γ^(j−k)·r_j.

Rewards of single turns count as they are: groups have no baseline for them. Under `outcome` they are kept and not used.
"""

from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec

from polar_capture.trajectories.rows import Span

Credit = Literal["outcome", "last-turn", "discounted"]
OUTCOME = "outcome"


class RewardRow(msgspec.Struct, kw_only=True):
    """One reward that was given, to a session or to one of its calls. The latest of its name counts."""

    id: str
    session_id: str
    call_id: str | None = None
    name: str = OUTCOME
    value: float = 0.0
    created_at: float = 0.0


class CreditOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Which named rewards make R, as name → weight, and how R is spread over turns."""

    components: tuple[tuple[str, float], ...] = ((OUTCOME, 1.0),)
    credit: Credit = "outcome"
    gamma: float = 1.0

    def __post_init__(self) -> None:
        if not 0.0 <= self.gamma <= 1.0:
            raise ValueError(f"the discount must be from 0 to 1, got {self.gamma}")
        if not self.components:
            raise ValueError("a reward needs at least one component, such as outcome")


class SessionRewards(msgspec.Struct):
    """What counts of a session's rewards: R (None where a component is missing), and r_j by call id."""

    outcome: float | None = None
    by_call: dict[str, float] = {}


def counted(rows: Iterable[RewardRow], options: CreditOptions) -> SessionRewards:
    """The latest value of each component, weighted and summed. A missing component leaves the session without a reward:
    it is never taken for 0."""
    latest: dict[tuple[str | None, str], RewardRow] = {}
    for row in rows:
        known = latest.get((row.call_id, row.name))
        if known is None or (row.created_at, row.id) >= (known.created_at, known.id):
            latest[row.call_id, row.name] = row
    outcome: float | None = 0.0
    for name, weight in options.components:
        given = latest.get((None, name))
        outcome = None if given is None or outcome is None else outcome + weight * given.value
    by_call: dict[str, float] = {}
    weights = dict(options.components)
    for (call_id, name), row in latest.items():
        if call_id is not None and name in weights:
            by_call[call_id] = by_call.get(call_id, 0.0) + weights[name] * row.value
    return SessionRewards(outcome, by_call)


def spread(spans: Sequence[Span], rewards: SessionRewards, advantage: float | None, options: CreditOptions) -> None:
    """Sets reward and advantage of a sample's spans where credit differs between turns; `advantage` is the sample's."""
    if options.credit == "outcome":
        return
    last = len(spans) - 1
    own = 0.0
    for k in range(last, -1, -1):
        span = spans[k]
        given = rewards.by_call.get(span.call_id, 0.0)
        if options.credit == "discounted":
            own = given + options.gamma * own
            share = options.gamma ** (last - k)
        else:
            own = given
            share = 1.0 if k == last else 0.0
        span.reward = None if rewards.outcome is None else share * rewards.outcome + own
        span.advantage = None if advantage is None else share * advantage + own
