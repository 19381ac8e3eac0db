"""What a format is given of one sample, and the views of its arrays that several formats need."""

from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np

from polar_capture.trajectories.rows import Float32Array, Int32Array, Sample


class CallText(msgspec.Struct, frozen=True):
    """A call as chat messages: what was sent to the engine and the message that was sampled."""

    messages: list[dict[str, Any]]
    tools: list[dict[str, Any]] | None
    answer: dict[str, Any]


class CallNote(msgspec.Struct, frozen=True):
    """What formats say of a sampled call beside its tokens."""

    model: str | None = None
    temperature: float = 1.0
    finish_reason: str | None = None
    suspect: bool = False
    started_at: float = 0.0


class ExportRow(msgspec.Struct, kw_only=True):
    """One sample on its way out. Indices count from 0 within one export, in the order of first appearance."""

    sample: Sample
    index: int = 0
    session_index: int = 0
    group_index: int = 0
    is_last_of_session: bool = True
    sample_index: int | None = None
    harness: str | None = None
    harness_version: str | None = None
    notes: dict[str, CallNote] = {}
    text: Callable[[str], CallText | None] = lambda call_id: None

    @property
    def response(self) -> slice:
        """Everything behind the first prompt: model and tool tokens."""
        return slice(self.sample.prompt_len, len(self.sample.input_ids))

    def logprobs(self) -> Float32Array:
        """float32 [n], 0.0 where the mask is 0: trainers take no nulls and multiply by the mask."""
        return np.where(self.sample.loss_mask == 1, self.sample.logprobs, np.float32(0.0)).astype(np.float32)

    def labels(self) -> Int32Array:
        """int32 [n]: the id where the mask is 1, else −100. Unshifted: trainers shift by themselves."""
        return np.where(self.sample.loss_mask == 1, self.sample.input_ids, np.int32(-100)).astype(np.int32)

    def token_rewards(self) -> list[float] | None:
        """Rewards per token [n], on the last token of a turn: the credit of each trained turn where credit differs
        between turns, else the sample's reward on the last trained turn alone. None without a reward."""
        if self.sample.reward is None:
            return None
        rewards = [0.0] * len(self.sample.input_ids)
        trained = [span for span in self.sample.turn_spans if span.trained]
        for span in trained:
            if span.reward is not None:
                rewards[span.end - 1] = span.reward
        if trained and trained[-1].reward is None:
            rewards[trained[-1].end - 1] = self.sample.reward
        return rewards

    def token_advantages(self) -> list[float] | None:
        """Advantages per token [n], 0.0 where the mask is 0; None where the sample has none."""
        if self.sample.advantage is None:
            return None
        values = [0.0] * len(self.sample.input_ids)
        for span in self.sample.turn_spans:
            if span.trained:
                own = self.sample.advantage if span.advantage is None else span.advantage
                values[span.start : span.end] = [own] * (span.end - span.start)
        return values

    def about(self) -> dict[str, Any]:
        """Where the sample comes from, for formats with a place for anything."""
        low, high = self.sample.policy_versions
        return {
            "sample_id": self.sample.id,
            "session_id": self.sample.session_id,
            "group_id": self.sample.group_id,
            "task_id": self.sample.task_id,
            "sample_index": self.sample_index,
            "harness": self.harness,
            "agent": self.sample.agent,
            "branch": self.sample.branch,
            "verdict": self.sample.verdict,
            "strategy": self.sample.strategy,
            "reward": self.sample.reward,
            "advantage": self.sample.advantage,
            "policy_version_min": low,
            "policy_version_max": high,
        }
