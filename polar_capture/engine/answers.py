"""vLLM's answers, decoded into the internal form. Only the fields that are used are named: the rest costs nothing.

Shapes: vLLM 0.32's chat completion. 20,000 prompt ids and 500 sampled tokens with logprobs (200 KB) take about 0.6 ms:
the prompt's ids become an array without ever being 20,000 Python objects, which would cost three times that.
"""

import json
import math
from typing import Annotated, Any

import msgspec
import numpy as np

from polar_capture.chat import Choice, Completion, Int32Array, Message, ToolCall, Usage

TokenIds = list[Annotated[int, msgspec.Meta(ge=0, lt=2**31)]]


class NotAnAnswer(Exception):
    """The body is no chat completion; the message says why, without quoting it."""


class _Function(msgspec.Struct):
    name: str | None = None
    arguments: str | dict[str, Any] | None = None


class _ToolCall(msgspec.Struct):
    id: str | None = None
    function: _Function | None = None


class _Message(msgspec.Struct):
    content: str | None = None
    reasoning: str | None = None
    reasoning_content: str | None = None  # vLLM before 0.12
    tool_calls: list[_ToolCall] | None = None


class _Position(msgspec.Struct, gc=False):
    logprob: float | None = None


class _Logprobs(msgspec.Struct):
    content: list[_Position] | None = None


class _RawLogprobs(msgspec.Struct):
    content: msgspec.Raw = msgspec.Raw()


class _Choice(msgspec.Struct):
    index: int = 0
    message: _Message = msgspec.field(default_factory=_Message)
    logprobs: _Logprobs | None = None
    finish_reason: str | None = None
    stop_reason: str | int | None = None
    token_ids: TokenIds | None = None
    weight_versions: list[dict[str, Any]] | None = None


class _PromptDetails(msgspec.Struct):
    cached_tokens: int | None = None


class _CompletionDetails(msgspec.Struct):
    reasoning_tokens: int | None = None


class _Usage(msgspec.Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _PromptDetails | None = None
    completion_tokens_details: _CompletionDetails | None = None


class _Answer(msgspec.Struct):
    choices: list[_Choice]
    usage: _Usage | None = None
    model: str | None = None
    prompt_token_ids: msgspec.Raw = msgspec.Raw()


class _ShownChoice(msgspec.Struct):
    logprobs: _RawLogprobs | None = None


class _ShownAnswer(msgspec.Struct):
    choices: list[_ShownChoice]


_answer = msgspec.json.Decoder(_Answer)
_shown = msgspec.json.Decoder(_ShownAnswer)


def decode(body: bytes, *, show_logprobs: bool = False) -> Completion:
    """The completion in `body`. `show_logprobs` also keeps the engine's logprob objects as bytes.

    Ids that are no integers from 0 to 2**31 - 1 count as missing; a logprob that is null or NaN is NaN. Raises
    NotAnAnswer for what is no JSON, has another shape, or holds no choice.
    """
    try:
        answer = _answer.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        body, answer = _leniently(body)
    if not answer.choices:
        raise NotAnAnswer("an answer without choices")
    if {choice.index for choice in answer.choices} != set(range(len(answer.choices))):
        for position, choice in enumerate(answer.choices):  # clients and rows go by the index
            choice.index = position
    shown: list[bytes | None] = [None] * len(answer.choices)
    if show_logprobs:
        shown = [bytes(c.logprobs.content) or None if c.logprobs else None for c in _shown.decode(body).choices]
    choices = [_choice(choice, raw) for choice, raw in zip(answer.choices, shown, strict=True)]
    prompt_ids = _ids(answer.prompt_token_ids)
    return Completion(choices, _usage(answer, prompt_ids), answer.model or "", prompt_ids)


_FINISHES = frozenset(("stop", "length", "tool_calls", "content_filter", "abort", "repetition"))


def _choice(choice: _Choice, shown: bytes | None) -> Choice:
    message = choice.message
    calls = [
        ToolCall(call.id or "", (call.function and call.function.name) or "", _arguments(call.function))
        for call in message.tool_calls or []
    ]
    logprobs = None
    if choice.logprobs is not None and choice.logprobs.content is not None:
        logprobs = [math.nan if p.logprob is None else p.logprob for p in choice.logprobs.content]
    finish = choice.finish_reason
    return Choice(
        index=choice.index,
        message=Message("assistant", message.content, message.reasoning or message.reasoning_content, calls),
        # A generation without a finish was not finished.
        finish_reason=finish if finish in _FINISHES else "tool_calls" if finish == "function_call" else "abort",
        stop_reason=choice.stop_reason,
        token_ids=choice.token_ids,
        logprobs=logprobs,
        logprobs_content=shown,
        weight_versions=choice.weight_versions,
    )


def _arguments(function: _Function | None) -> str:
    arguments = function.arguments if function else None
    return arguments if isinstance(arguments, str) else json.dumps(arguments or {}, ensure_ascii=False)


_ID_CHARACTERS = b"0123456789, \t\r\n"
_ID_LIMIT = 2**31


def _ids(array: msgspec.Raw) -> Int32Array | None:
    """A JSON array of token ids as int32 [n]; None for null, and for what holds anything else than ids."""
    text = bytes(array).strip()
    if not text.startswith(b"["):
        return None
    text = text[1:-1]
    if text.translate(None, _ID_CHARACTERS):
        return None
    ids = np.fromstring(text, np.int64, sep=",") if text.strip() else np.empty(0, np.int64)
    if ids.size and int(ids.max()) >= _ID_LIMIT:
        return None
    return ids.astype(np.int32)


def _usage(answer: _Answer, prompt_ids: Int32Array | None) -> Usage:
    """What the engine counted; what it did not count, by the ids."""
    usage = answer.usage or _Usage()
    prompt, completion = usage.prompt_tokens_details, usage.completion_tokens_details
    prompt_tokens, completion_tokens = usage.prompt_tokens, usage.completion_tokens
    if prompt_tokens is None:
        prompt_tokens = 0 if prompt_ids is None else len(prompt_ids)
    if completion_tokens is None:
        completion_tokens = sum(len(choice.token_ids or ()) for choice in answer.choices)
    return Usage(
        prompt_tokens,
        completion_tokens,
        (prompt.cached_tokens or 0) if prompt else 0,
        (completion.reasoning_tokens or 0) if completion else 0,
    )


def _leniently(body: bytes) -> tuple[bytes, _Answer]:
    """For the rare answer that strict JSON or the id range refuses: NaN, lone surrogates, ids out of range."""
    try:
        value = json.loads(body.decode("utf-8", "replace"))
    except ValueError:
        raise NotAnAnswer("a body that is no JSON") from None
    if not isinstance(value, dict) or not isinstance(value.get("choices"), list):
        raise NotAnAnswer("JSON that is no chat completion")
    for choice in value["choices"]:
        if isinstance(choice, dict) and "token_ids" in choice and not _sound_ids(choice["token_ids"]):
            choice["token_ids"] = None
    text = json.dumps(_finite(value), ensure_ascii=False)
    repaired = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").encode()
    try:
        return repaired, _answer.decode(repaired)
    except msgspec.ValidationError as error:
        raise NotAnAnswer(f"a chat completion of another shape: {error}") from None


def _sound_ids(ids: Any) -> bool:
    return isinstance(ids, list) and all(type(i) is int and 0 <= i < 2**31 for i in ids)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
