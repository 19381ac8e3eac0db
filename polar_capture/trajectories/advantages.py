"""Advantages of the sessions of a group, from one reward each however many branches a session has.

With r the session's reward and mean, std (ddof 1) over the group's sessions that have one:

- grpo:     (r − mean) / (std + 1e-4)
- dr-grpo:  r − mean
- rloo:     r − mean of the others' rewards
- none:     no advantage

A group with fewer than two rewards has no baseline: its advantages are null. A session without a reward has no
advantage and no part in the statistics.
"""

import math
from collections.abc import Mapping
from typing import Any, Literal

import msgspec

Method = Literal["grpo", "dr-grpo", "rloo", "none"]
Sharing = Literal["full", "split", "tokens"]
"""How a session's advantage goes to its branches. `full` (the default): each branch has all of it; as each sampled
token trains in one branch only, none counts twice. `split`: each of the b branches that train anything has 1/b of it.
`tokens`: each has its part by trained tokens."""

EPSILON = 1e-4


class GroupReport(msgspec.Struct, kw_only=True):
    """The statistics of one group."""

    group_id: str
    members: int
    rewarded: int
    mean: float | None = None
    std: float | None = None
    zero_variance: bool = False
    """All rewards are equal: no advantage but 0, nothing is learnt from it."""
    too_few: bool = False
    """Fewer than two rewards: no baseline."""
    missing: list[str] = []
    """Sessions without a reward."""
    missing_indices: list[int] = []
    """Numbers of samples of the group that have no session."""

    def as_json(self) -> dict[str, Any]:
        return dict(msgspec.to_builtins(self))


def group_advantages(
    group_id: str,
    rewards: Mapping[str, float | None],
    method: Method,
    indices: Mapping[str, int | None] | None = None,
) -> tuple[dict[str, float | None], GroupReport]:
    """Advantages by session id, and the group's report. `rewards` has every session of the group, None without a
    reward; `indices` their sample_index, where known."""
    known = {session: value for session, value in rewards.items() if value is not None}
    numbers = {number for number in (indices or {}).values() if number is not None}
    report = GroupReport(
        group_id=group_id,
        members=len(rewards),
        rewarded=len(known),
        missing=sorted(set(rewards) - set(known)),
        missing_indices=sorted(set(range(max(numbers, default=-1) + 1)) - numbers),
        too_few=len(known) < 2,
    )
    if known:
        report.mean = math.fsum(known.values()) / len(known)
    if len(known) < 2 or report.mean is None:
        return dict.fromkeys(rewards, None), report
    mean, total, n = report.mean, math.fsum(known.values()), len(known)
    report.zero_variance = len(set(known.values())) == 1
    report.std = (
        0.0 if report.zero_variance else math.sqrt(math.fsum((r - mean) ** 2 for r in known.values()) / (n - 1))
    )
    advantages: dict[str, float | None] = dict.fromkeys(rewards, None)
    if method == "none":
        return advantages, report
    for session, reward in known.items():
        if report.zero_variance:
            advantages[session] = 0.0
        elif method == "rloo":
            advantages[session] = reward - (total - reward) / (n - 1)
        else:
            advantages[session] = (reward - mean) / (report.std + EPSILON if method == "grpo" else 1.0)
    return advantages, report


def share(advantage: float | None, trained: list[int], sharing: Sharing) -> list[float | None]:
    """A session's advantage for each of its branches, given how many tokens train in each."""
    whole = sum(trained)
    branches = sum(1 for tokens in trained if tokens)
    if advantage is None or sharing == "full" or not whole:
        return [advantage] * len(trained)
    if sharing == "split":
        return [advantage / branches if tokens else 0.0 for tokens in trained]
    return [advantage * tokens / whole for tokens in trained]
