"""What a build may be told, with the defaults and what each costs."""

from typing import Literal

import msgspec

from polar_capture.outcomes import Reason

Strategy = Literal["prefix_merging", "per_request"]
ADMISSIBLE = frozenset(
    {Reason.ABORTED, Reason.MIXED_POLICY, Reason.UNDELIVERED, Reason.LATE_CALL, Reason.SIDE, Reason.NESTED}
)
"""Reasons that a build may be told to overlook: the tokens and logprobs are whole, only their standing is in doubt."""


class BuildOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How calls become samples."""

    strategy: Strategy = "prefix_merging"
    admit: frozenset[Reason] = frozenset()
    """Reasons to overlook, of ADMISSIBLE. Aborted turns were cut from outside, mixed-policy turns have logprobs of more
    than one policy: both are left out unless admitted."""
    truncated: Literal["train", "mask"] = "train"
    """Turns cut by max_tokens or the window: the policy did sample these tokens, so they train; `mask` keeps them as
    context only, so that length alone is not rewarded or punished."""
    suspect: Literal["train", "mask"] = "train"
    """Turns with the warning logprobs_all_zero: speculative decoding hides the real logprobs."""
    stitch: bool = False
    """Join a turn whose chain broke only at the template's empty think block (Qwen3, thinking off), where the tokens
    prove it. The joined turn trains in a context that has this block once more than it was sampled in, which is why it
    is off by default; the sample's verdict says `repaired`."""

    oldest_policy: int | None = None
    """Turns of an older policy version, or an unknown one, are context only (`stale_policy`). None: any age trains."""

    def __post_init__(self) -> None:
        refused = sorted(self.admit - ADMISSIBLE)
        if refused:
            allowed = ", ".join(sorted(ADMISSIBLE))
            raise ValueError(f"can't admit {', '.join(refused)}: tokens or logprobs are missing; one of {allowed}")
