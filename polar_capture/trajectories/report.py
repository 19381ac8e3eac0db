"""What a build made of a session, in numbers: nothing is left out without a count."""

from collections import Counter
from typing import Any

import msgspec


class SessionReport(msgspec.Struct, kw_only=True):
    """Counts of one session's build."""

    session_id: str
    strategy: str
    calls: int = 0
    samples: int = 0
    sampled_tokens: int = 0
    """Completion tokens of the calls that belong to the trajectory: helpers, failed and superseded attempts are not
    of it."""
    trained_tokens: int = 0
    """Those with mask 1 in a sample."""
    empty_calls: int = 0
    """Calls in which nothing was sampled."""
    suspect_calls: int = 0
    """Calls whose logprobs are all exactly 0."""
    missing_seqs: list[int] = []
    """Numbers in the order of arrival that have no row: calls that were lost or pruned."""
    verdicts: Counter[str] = msgspec.field(default_factory=Counter)
    breaks: Counter[str] = msgspec.field(default_factory=Counter)
    reasons: Counter[str] = msgspec.field(default_factory=Counter)
    """Calls that do not train, by `outcomes.Reason`."""
    masked: Counter[str] = msgspec.field(default_factory=Counter)
    """Trainable calls kept as context only, by the option that said so."""

    @property
    def delivered_fraction(self) -> float:
        """Trained tokens over the trajectory's sampled tokens; 0 where nothing was sampled."""
        return self.trained_tokens / self.sampled_tokens if self.sampled_tokens else 0.0

    def as_json(self) -> dict[str, Any]:
        return {**msgspec.to_builtins(self), "delivered_fraction": self.delivered_fraction}
