"""The fabricated event stream of a Messages answer (https://docs.anthropic.com/en/docs/build-with-claude/streaming)."""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from polar_capture.chat import Usage
from polar_capture.dialects import sse
from polar_capture.dialects.anthropic.errors import error_object
from polar_capture.dialects.anthropic.reply import (
    Block,
    MessagesReply,
    TextBlock,
    ThinkingBlock,
    message_object,
    usage_object,
)
from polar_capture.dialects.base import Event, ParsedCall, Reply, Stream
from polar_capture.dialects.pieces import pieces
from polar_capture.faults import Fault
from polar_capture.lineage.minting import Minter


class MessagesStream(Stream):
    """The stream of one call: pings until the prompt's size is known, `message_start`, then all the rest at once."""

    def __init__(self, call: ParsedCall, minter: Minter, model: str) -> None:
        self._model = call.model_requested or model
        self._message_id = minter.once("msg_")
        self._request_id = minter.once("req_")
        self._beats = call.extra.beats
        self._prompt: Usage | None = None
        self._pinged = False

    def headers(self) -> Mapping[str, str]:
        """The response headers of a stream that is opened before its answer is known: those of the reply."""
        return {"request-id": self._request_id}

    def open(self, prompt_tokens: int | None) -> bytes:
        if self._prompt is not None:
            return b""
        if prompt_tokens is not None:
            self._prompt = Usage(prompt_tokens=prompt_tokens)
            return sse.encode([_start(self._message_id, self._model, usage_object(self._prompt))])
        if self._pinged:
            return b""
        self._pinged = True
        return sse.encode([_PING])

    def noop(self) -> bytes:
        """A ping. Clients that hear none get a `message_delta` beside it which repeats the usage: it may come any
        number of times with cumulative counts, and it adds no block that would have to be closed or echoed."""
        if self._beats and self._prompt is not None:
            return sse.encode([_PING, _delta(None, None, usage_object(self._prompt))])
        return sse.encode([_PING])

    def finish(self, reply: Reply) -> bytes:
        assert isinstance(reply, MessagesReply)
        events: list[Event] = []
        if self._prompt is None:
            events.append(_start(reply.message_id, reply.model, {**reply.usage, "output_tokens": 0}))
        for index, block in enumerate(reply.content):
            events += _block_events(index, block)
        events.append(_delta(reply.stop_reason, reply.stop_sequence, reply.usage))
        events.append(_event({"type": "message_stop"}))
        return sse.encode(events)

    def fail(self, fault: Fault) -> bytes:
        return sse.encode([_event(error_object(fault, self._request_id))])


def _event(data: dict[str, Any]) -> Event:
    return Event(msgspec.json.encode(data), data["type"])


_PING = _event({"type": "ping"})


def _start(message_id: str, model: str, usage: dict[str, Any]) -> Event:
    return _event({"type": "message_start", "message": message_object(message_id, model, usage)})


def _delta(stop_reason: str | None, stop_sequence: str | None, usage: dict[str, Any]) -> Event:
    delta = {"stop_reason": stop_reason, "stop_sequence": stop_sequence, "stop_details": None}
    return _event({"type": "message_delta", "delta": delta, "usage": usage})


def _block_events(index: int, block: Block) -> Iterator[Event]:
    """Start, deltas and stop of one block. A tool's input is one delta: SDKs parse what they have on each."""
    if isinstance(block, ThinkingBlock):
        opened: dict[str, Any] = {"type": "thinking", "thinking": "", "signature": ""}
        deltas = [{"type": "thinking_delta", "thinking": piece} for piece in pieces(block.thinking)]
        deltas.append({"type": "signature_delta", "signature": block.signature})
    elif isinstance(block, TextBlock):
        opened = {"type": "text", "text": ""}
        deltas = [{"type": "text_delta", "text": piece} for piece in pieces(block.text)]
    else:
        opened = {"type": "tool_use", "id": block.id, "name": block.name, "input": {}}
        deltas = [{"type": "input_json_delta", "partial_json": bytes(block.input).decode()}]
    yield _event({"type": "content_block_start", "index": index, "content_block": opened})
    for delta in deltas:
        yield _event({"type": "content_block_delta", "index": index, "delta": delta})
    yield _event({"type": "content_block_stop", "index": index})
