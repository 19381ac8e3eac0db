"""What the trajectory code knows of captured calls: plain rows, independent of any database."""

from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

Int32Array = npt.NDArray[np.int32]
Float32Array = npt.NDArray[np.float32]


class CallRow(msgspec.Struct, kw_only=True):
    """One call of one session, with its tokens.

    `prompt_ids` is int32 [p]: the whole prompt, or, where `base_call_id` is set, only what follows the first
    `base_len` tokens of that call's prompt + completion. `completion_ids` is int32 [c], `logprobs` float32 [c] in
    nats. None where the engine gave none.
    """

    id: str
    session_id: str
    seq: int
    choice_index: int = 0
    agent: str = "main"
    kind: str = "turn"
    attempt: int = 0
    parent_call_id: str | None = None
    status: str = "ok"
    trainable: bool = True
    reason: str | None = None
    warnings: list[str] = []
    delivered: bool | None = None
    finish_reason: str | None = None
    completion_tokens: int | None = None
    policy_version: int | None = None
    weight_versions: list[dict[str, Any]] | None = None
    base_call_id: str | None = None
    base_len: int = 0
    prompt_ids: Int32Array | None = None
    completion_ids: Int32Array | None = None
    logprobs: Float32Array | None = None

    @property
    def has_ids(self) -> bool:
        """Prompt and completion ids are both known (the completion may be empty)."""
        return self.prompt_ids is not None and self.completion_ids is not None

    @property
    def order(self) -> tuple[int, int, str]:
        """Order of arrival within the session; total, so that no result depends on the order rows are read in."""
        return (self.seq, self.choice_index, self.id)

    def mixes_policies(self) -> bool:
        """The engine reported more than one weight version over the sampled tokens."""
        return len({span.get("version") for span in self.weight_versions or []}) > 1


class Span(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A sampled span of a sample: tokens [start, end) of `input_ids` are the call's completion, bit for bit.

    `trained` is false where the span has mask 0: it trains in another branch, or its call is not trainable.
    `reason` says why, where it trains in no branch: a `Reason`, or the build's option (`truncated`, `suspect`).
    `reward` and `advantage` are set only where credit is not the same for all turns.
    """

    start: int
    end: int
    call_id: str
    policy_version: int | None
    trained: bool
    reason: str | None = None
    reward: float | None = None
    advantage: float | None = None

    def as_json(self) -> dict[str, Any]:
        return {"start": self.start, "end": self.end, "call_id": self.call_id, "policy_version": self.policy_version,
                "trained": self.trained} | {
            name: value for name in ("reason", "reward", "advantage") if (value := getattr(self, name)) is not None
        }  # fmt: skip


class BreakRecord(msgspec.Struct, frozen=True):
    """Where a call does not continue its predecessor.

    `at` is the length of the common prefix of the call's prompt with the predecessor's prompt + completion; `tokens`
    is how many of the predecessor's tokens from there on are not in the call's context.
    """

    call_id: str
    break_: str
    at: int
    tokens: int
    predecessor: str

    def as_json(self) -> dict[str, Any]:
        return {
            "call_id": self.call_id,
            "break": self.break_,
            "at": self.at,
            "tokens": self.tokens,
            "predecessor": self.predecessor,
        }


class Sample(msgspec.Struct, kw_only=True):
    """One training sample: a path of the token tree.

    `input_ids` int32 [n], `loss_mask` uint8 [n] (1 = sampled by the policy and trained here), `logprobs` float32 [n] in
    nats, NaN exactly where the mask is 0.
    """

    id: str
    strategy: str
    session_id: str
    agent: str
    branch: int
    verdict: str
    delivered_fraction: float
    prompt_len: int
    finish_reason: str | None
    turn_spans: list[Span]
    breaks: list[BreakRecord]
    input_ids: Int32Array
    loss_mask: npt.NDArray[np.uint8]
    logprobs: Float32Array
    group_id: str | None = None
    task_id: str | None = None
    reward: float | None = None
    advantage: float | None = None

    @property
    def policy_versions(self) -> tuple[int | None, int | None]:
        """Lowest and highest policy version of the trained spans."""
        known = [s.policy_version for s in self.turn_spans if s.trained and s.policy_version is not None]
        return (min(known), max(known)) if known else (None, None)
