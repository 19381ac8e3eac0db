"""Whether an answer's ids and logprobs can be trained on. Pure; nothing is repaired."""

from collections.abc import Collection

import numpy as np

from polar_capture.chat import Choice, Int32Array, Usage
from polar_capture.outcomes import Reason, Warning

LOWEST = -9999.0
"""vLLM clamps logprobs here: the value of a token that could not be sampled."""

ROUNDING = 1e-6
"""How far above 0 float32's log-softmax may end up."""

ENOUGH_ZEROS = 8
"""So many logprobs that are all exactly 0 are no coincidence: speculative decoding hides the real ones."""

_CALL_MARKS = (
    ("<tool_call>", "</tool_call>"),  # hermes, Qwen
    ("<function=", "</function>"),  # Qwen coder, Llama
    ("[TOOL_CALLS]", "\0"),  # Mistral: never closed
    ("<|python_tag|>", "\0"),  # Llama
    ("<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>"),  # DeepSeek
    ("<|tool_call_begin|>", "<|tool_call_end|>"),  # Kimi
)
"""How tool calls open and close in raw text, by family: a call that was cut stays raw in the content."""


def check(
    choice: Choice,
    prompt_ids: Int32Array | None,
    usage: Usage,
    *,
    choices: int = 1,
    limit: int | None = None,
    endings: Collection[int] = (),
) -> tuple[Reason | None, list[Warning]]:
    """Why `choice` is not trainable (None: it is, as far as the engine goes), and what is odd about it.

    `choices` is how many the answer holds: its usage counts them together. `limit` is how many tokens it could have at
    most (max_tokens, or the rest of the window), `endings` are ids known to end a turn.
    """
    return _reason(choice, prompt_ids, usage, choices), _warnings(choice, prompt_ids, limit, endings)


def _reason(choice: Choice, prompt_ids: Int32Array | None, usage: Usage, choices: int) -> Reason | None:
    ids, logprobs = choice.token_ids, choice.logprobs
    if choice.finish_reason == "abort":
        return Reason.ABORTED
    if prompt_ids is None or not len(prompt_ids) or ids is None:
        return Reason.IDS_MISSING
    if logprobs is None:
        return Reason.LOGPROBS_MISSING if ids else None
    if len(ids) != len(logprobs) or (choices == 1 and _disagrees(len(prompt_ids), len(ids), usage)):
        return Reason.LENGTH_MISMATCH
    values = np.asarray(logprobs, np.float64)
    if not ((values > LOWEST) & (values <= ROUNDING)).all():  # also False for NaN
        return Reason.LOGPROB_INVALID
    if len({str(span.get("version")) for span in choice.weight_versions or ()}) > 1:
        return Reason.MIXED_POLICY
    return None


def _disagrees(prompt: int, sampled: int, usage: Usage) -> bool:
    """Whether the engine's own count says that ids are missing.

    A usage that fits neither the prompt nor the answer counts something else (a proxy's books): it is no evidence.
    """
    return (usage.prompt_tokens == prompt) != (usage.completion_tokens == sampled)


def _warnings(
    choice: Choice, prompt_ids: Int32Array | None, limit: int | None, endings: Collection[int]
) -> list[Warning]:
    warnings = []
    if prompt_ids is not None and len(prompt_ids) > 1 and prompt_ids[0] == prompt_ids[1]:
        warnings.append(Warning.DOUBLE_BOS)
    if choice.logprobs and len(choice.logprobs) >= ENOUGH_ZEROS and not any(choice.logprobs):
        warnings.append(Warning.LOGPROBS_ALL_ZERO)
    if _cut_in_call(choice, limit, endings):
        warnings.append(Warning.CUT_TOOL_CALL)
    return warnings


def _cut_in_call(choice: Choice, limit: int | None, endings: Collection[int]) -> bool:
    """Cut inside a call, which stays raw text, or right behind one, where vLLM says tool_calls (measured)."""
    message, ids = choice.message, choice.token_ids
    if choice.finish_reason in ("length", "abort"):
        text = message.content if isinstance(message.content, str) else ""
        return bool(message.tool_calls) or any(text.rfind(a) > text.rfind(b) for a, b in _CALL_MARKS)
    if not message.tool_calls or choice.stop_reason is not None or not ids or limit is None:
        return False
    return len(ids) >= limit and ids[-1] not in endings
