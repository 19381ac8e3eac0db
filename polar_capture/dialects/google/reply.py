"""A completion as generateContent says it."""

from typing import Any

import msgspec

from polar_capture.chat import Choice, Completion, Message, ToolCall, Usage
from polar_capture.chat_normal import text_of
from polar_capture.dialects.arguments import object_json, wrapped
from polar_capture.dialects.base import ParsedCall, Reply, refuse_aborted
from polar_capture.dialects.google.logprobs import logprobs_result
from polar_capture.dialects.google.request import Asked
from polar_capture.dialects.pieces import pieces
from polar_capture.lineage.minting import Minter

_FINISH = {"stop": "STOP", "tool_calls": "STOP", "length": "MAX_TOKENS", "content_filter": "SAFETY"}


class Candidate(msgspec.Struct):
    """One choice as the client sees it. `closing` holds what goes with its last chunk, the finish reason first."""

    index: int
    parts: list[dict[str, Any]]
    closing: dict[str, Any]


class GoogleReply(Reply):
    """The whole answer. Minted here: the response's id, a signature a candidate, an id a function call."""

    def __init__(self, call: ParsedCall, completion: Completion, minter: Minter) -> None:
        refuse_aborted(completion)
        self._asked: Asked = call.extra
        self._top = call.chat.sampling.top_logprobs
        self.id = minter.once("resp-")
        self.tail: dict[str, Any] = {"usageMetadata": usage_metadata(completion.usage)}
        self._version = {"modelVersion": call.model_requested or completion.model, "responseId": self.id}
        self.candidates = [self._candidate(choice, minter) for choice in completion.choices]
        if all(choice.finish_reason == "content_filter" and _is_empty(choice.message) for choice in completion.choices):
            self.candidates = []
            self.tail["promptFeedback"] = {"blockReason": "OTHER"}

    def json(self) -> bytes:
        body = {"candidates": [self._whole(candidate) for candidate in self.candidates]} if self.candidates else {}
        return msgspec.json.encode(self.wrapped({**body, **self.tail}))

    def wrapped(self, body: dict[str, Any]) -> dict[str, Any]:
        """One response object, whole or chunk, with the ids that all of an answer's objects share."""
        body = {**body, **self._version}
        return {"response": body, "traceId": self.id} if self._asked.wrapped else body

    def chunks(self) -> list[dict[str, Any]]:
        """The answer as stream chunks: one part a chunk, whole but for texts; what closes it is on the last one."""
        bodies: list[dict[str, Any]] = []
        for candidate in self.candidates:
            cut = [piece for part in candidate.parts for piece in _cut(part)]
            for k, part in enumerate(cut):
                one: dict[str, Any] = {"content": {"parts": [part], "role": "model"}, "index": candidate.index}
                if k == len(cut) - 1:
                    one |= candidate.closing
                bodies.append({"candidates": [one]})
        if not bodies:
            bodies.append({})
        bodies[-1] |= self.tail
        return [self.wrapped(body) for body in bodies]

    def _whole(self, candidate: Candidate) -> dict[str, Any]:
        content = {"parts": candidate.parts, "role": "model"}
        return {"content": content, **candidate.closing, "index": candidate.index}

    def _candidate(self, choice: Choice, minter: Minter) -> Candidate:
        message = choice.message
        closing: dict[str, Any] = {"finishReason": _FINISH.get(choice.finish_reason, "OTHER")}
        parts: list[dict[str, Any]] = []
        if message.reasoning and self._asked.show_thoughts:
            parts.append({"text": message.reasoning, "thought": True})
        said = text_of(message.content)
        if said.strip() or not message.tool_calls:
            parts.append({"text": said})
        calls = [_call_part(call, minter) for call in message.tool_calls]
        parts += calls
        # On the first call, else on the last text: where Google puts it, and what every client sends back.
        (calls or parts)[0 if calls else -1]["thoughtSignature"] = minter.opaque(f"thought-{choice.index}")
        closing |= logprobs_result(choice, self._top)
        return Candidate(choice.index, parts, closing)


def _call_part(call: ToolCall, minter: Minter) -> dict[str, Any]:
    said = object_json(call.arguments)
    # Digits and order of keys as sampled, on one line as an event's data must be.
    args = wrapped(call.arguments) if said is None else msgspec.Raw(msgspec.json.format(said, indent=-1))
    return {"functionCall": {"id": minter.id("call_"), "name": call.name, "args": args}}


def _is_empty(message: Message) -> bool:
    return not (message.content or message.reasoning or message.tool_calls)


def _cut(part: dict[str, Any]) -> list[dict[str, Any]]:
    """A text part in pieces, its signature on the last; other parts whole."""
    if "text" not in part or len(part["text"]) <= 1:
        return [part]
    marks = {"thought": True} if part.get("thought") else {}
    cut = [{"text": piece, **marks} for piece in pieces(part["text"], shortest=96, most=64)]
    if "thoughtSignature" in part:
        cut[-1]["thoughtSignature"] = part["thoughtSignature"]
    return cut


def usage_metadata(usage: Usage) -> dict[str, Any]:
    """Token counts; Google counts thoughts apart from the candidates' tokens, and the total holds both."""
    thoughts = min(usage.reasoning_tokens, usage.completion_tokens)
    metadata: dict[str, Any] = {
        "promptTokenCount": usage.prompt_tokens,
        "candidatesTokenCount": usage.completion_tokens - thoughts,
        "totalTokenCount": usage.prompt_tokens + usage.completion_tokens,
        "promptTokensDetails": [{"modality": "TEXT", "tokenCount": usage.prompt_tokens}],
    }
    if usage.cached_tokens:
        metadata["cachedContentTokenCount"] = usage.cached_tokens
        metadata["cacheTokensDetails"] = [{"modality": "TEXT", "tokenCount": usage.cached_tokens}]
    if thoughts:
        metadata["thoughtsTokenCount"] = thoughts
    return metadata
