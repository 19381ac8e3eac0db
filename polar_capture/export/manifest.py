"""What stands beside an exported file: what is in it, how it was chosen, and what was left out and why."""

from collections import Counter
from typing import Any

import msgspec


class Manifest(msgspec.Struct, kw_only=True):
    """One export, in numbers. `left_out` counts samples, `calls_left_out` calls that train in none of the file's
    samples."""

    format: str
    file: str
    layout: dict[str, str] = {}
    options: dict[str, Any] = {}
    version: str = ""
    created_at: str = ""
    samples: int = 0
    sessions: int = 0
    groups: dict[str, int] = msgspec.field(default_factory=dict)
    """Group → sessions of it in the file."""
    tokens: int = 0
    trained_tokens: int = 0
    verdicts: Counter[str] = msgspec.field(default_factory=Counter)
    breaks: Counter[str] = msgspec.field(default_factory=Counter)
    policy_versions: list[int] = msgspec.field(default_factory=list)
    """Lowest and highest; empty where none is known."""
    suspect_samples: int = 0
    """Samples with a call whose logprobs are all exactly 0."""
    left_out: Counter[str] = msgspec.field(default_factory=Counter)
    sessions_without_reward: int = 0
    sessions_not_built: int = 0
    """Sessions with calls and no sample of the exported strategy."""
    stale_rewards: int = 0
    """Sessions whose latest outcome is not the reward of their samples: given since the build, or built with
    --component."""
    incomplete_sessions: dict[str, list[int]] = msgspec.field(default_factory=dict)
    """Sessions in whose order of arrival a call has no row, with its numbers."""
    calls_left_out: Counter[str] = msgspec.field(default_factory=Counter)
    size: int = 0
    sha256: str = ""

    def as_json(self) -> dict[str, Any]:
        return dict(msgspec.to_builtins(self))
