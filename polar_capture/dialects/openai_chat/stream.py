"""A completion as the chunks of a Chat Completions stream."""

from typing import Any

import msgspec

from polar_capture.dialects import sse
from polar_capture.dialects.base import Event, ParsedCall, Reply, Stream
from polar_capture.dialects.openai_chat.errors import error_object
from polar_capture.dialects.openai_chat.logprobs import by_text, spread
from polar_capture.dialects.openai_chat.reply import FINGERPRINT, ChatReply, Shown
from polar_capture.dialects.openai_chat.request import Asked
from polar_capture.dialects.pieces import pieces
from polar_capture.faults import Fault
from polar_capture.lineage.minting import Minter

_DONE = Event(b"[DONE]")


class ChatStream(Stream):
    """Role chunks, then choice by choice: reasoning, text, tool calls, finish; usage last where asked for."""

    def __init__(self, call: ParsedCall, minter: Minter, model: str) -> None:
        self._asked: Asked = call.extra
        self._choices = call.chat.sampling.n
        self._head = msgspec.json.encode(
            {
                "id": minter.once("chatcmpl-"),
                "object": "chat.completion.chunk",
                "created": minter.created,
                "model": call.model_requested or model,
                "service_tier": "default",
                "system_fingerprint": FINGERPRINT,
            }
        )[:-1]
        self._opened = False

    def open(self, prompt_tokens: int | None) -> bytes:
        return sse.encode(self._opening())

    def noop(self) -> bytes:
        return sse.encode([*self._opening(), self._delta(0, {})])

    def finish(self, reply: Reply) -> bytes:
        assert isinstance(reply, ChatReply)
        events = self._opening()
        for shown in reply.shown:
            events += self._choice(shown)
        if self._asked.include_usage:
            events.append(self._chunk([], reply.usage))
        events.append(_DONE)
        return sse.encode(events)

    def fail(self, fault: Fault) -> bytes:
        return sse.encode([Event(msgspec.json.encode({"error": error_object(fault)}))])

    def _opening(self) -> list[Event]:
        if self._opened:
            return []
        self._opened = True
        start = {"role": "assistant", "content": "", "refusal": None}
        return [self._delta(index, start) for index in range(self._choices)]

    def _choice(self, shown: Shown) -> list[Event]:
        deltas = [{"reasoning_content": piece, "reasoning": piece} for piece in pieces(shown.reasoning or "")]
        runs = None
        if shown.logprobs is not None and not deltas and not shown.calls:
            runs = by_text(shown.logprobs, shown.content or "")
        texts = pieces(shown.content or "") if runs is None else [piece for piece, _ in runs]
        deltas += [{"content": piece} for piece in texts]
        for index, call in enumerate(shown.calls):
            deltas += self._call_deltas(index, call)
        logprobs = (
            [entries for _, entries in runs] if runs is not None else spread(shown.logprobs or [], max(len(deltas), 1))
        )
        if not deltas and shown.logprobs:
            deltas = [{"content": ""}]
        events = [self._delta(shown.index, delta, some) for delta, some in zip(deltas, logprobs, strict=False)]
        events.append(self._delta(shown.index, {}, finish_reason=shown.finish_reason))
        return events

    def _call_deltas(self, index: int, call: dict[str, Any]) -> list[dict[str, Any]]:
        if self._asked.legacy_functions:
            first = {"function_call": {"name": call["name"], "arguments": ""}}
            return [first, *({"function_call": {"arguments": piece}} for piece in pieces(call["arguments"]))]
        kind = call["type"]
        field = "input" if kind == "custom" else "arguments"
        start = {"index": index, "id": call["id"], "type": kind, kind: {"name": call[kind]["name"], field: ""}}
        rest = [{"index": index, kind: {field: piece}} for piece in pieces(call[kind][field])]
        return [{"tool_calls": [part]} for part in (start, *rest)]

    def _delta(
        self,
        index: int,
        delta: dict[str, Any],
        logprobs: list[dict[str, Any]] | None = None,
        finish_reason: str | None = None,
    ) -> Event:
        shown = {"content": logprobs, "refusal": None} if logprobs else None
        return self._chunk([{"index": index, "delta": delta, "logprobs": shown, "finish_reason": finish_reason}])

    def _chunk(self, choices: list[dict[str, Any]], usage: dict[str, Any] | None = None) -> Event:
        tail: dict[str, Any] = {"choices": choices}
        if self._asked.include_usage:
            tail["usage"] = usage
        return Event(self._head + b"," + msgspec.json.encode(tail)[1:])
