"""The event stream of a response, the same for SSE and WebSocket: every event typed, numbered, naming its item.

Event shapes: openai-python, `types/responses/response_*_event.py`. What each client cannot do without:
facts/harnesses.md §6.
"""

from collections.abc import Iterator
from typing import Any

import msgspec

from polar_capture.dialects import sse
from polar_capture.dialects.base import Event, Reply, Stream
from polar_capture.dialects.openai_responses.faults import response_error
from polar_capture.dialects.openai_responses.items import Item
from polar_capture.dialects.openai_responses.response import ResponseReply
from polar_capture.dialects.pieces import pieces
from polar_capture.faults import Fault

_CLOSING = {"completed": "response.completed", "incomplete": "response.incomplete", "failed": "response.failed"}


class ResponseEvents:
    """Makes the events of one response, in order. `opening` is the response in progress, `lane` its `stream_id`."""

    def __init__(self, opening: dict[str, Any], lane: str | None = None) -> None:
        self._opening = opening
        self._opening_json = msgspec.Raw(msgspec.json.encode(opening))
        self._lane = {} if lane is None else {"stream_id": lane}
        self._number = 0

    @property
    def opened(self) -> bool:
        return self._number > 0

    def open(self) -> list[Event]:
        """created and in_progress, the first time; they claim no usage."""
        if self.opened:
            return []
        opening = {"response": self._opening_json}
        return [self._event("response.created", opening), self._event("response.in_progress", opening)]

    def noop(self) -> list[Event]:
        """in_progress once more: the one event that keeps Codex waiting (comments and ping frames do not)."""
        return self.open() or [self._event("response.in_progress", {"response": self._opening_json})]

    def finish(self, response: dict[str, Any]) -> list[Event]:
        events = self.open()
        for index, item in enumerate(response["output"]):
            events += [self._event(kind, fields) for kind, fields in _item_events(item, index)]
        return [*events, self._event(_CLOSING[response["status"]], {"response": response})]

    def fail(self, fault: Fault) -> list[Event]:
        failed = self._opening | {"status": "failed", "error": response_error(fault)}
        return [*self.open(), self._event("response.failed", {"response": failed})]

    def _event(self, kind: str, fields: dict[str, Any]) -> Event:
        data = {"type": kind, "sequence_number": self._number, **fields, **self._lane}
        self._number += 1
        return Event(msgspec.json.encode(data), kind)


def _item_events(item: Item, index: int) -> Iterator[tuple[str, dict[str, Any]]]:
    place = {"item_id": item["id"], "output_index": index}
    yield "response.output_item.added", {"output_index": index, "item": _begun(item)}
    match item["type"]:
        case "reasoning":
            for number, part in enumerate(item["summary"]):
                yield from _summary_events(part, place | {"summary_index": number})
        case "message":
            for number, part in enumerate(item["content"]):
                yield from _text_events(part, place | {"content_index": number})
        case "function_call":
            for piece in pieces(item["arguments"]):
                yield "response.function_call_arguments.delta", place | {"delta": piece}
            done = place | {"name": item["name"], "arguments": item["arguments"]}
            yield "response.function_call_arguments.done", done
        case "custom_tool_call":
            for piece in pieces(item["input"]):
                yield "response.custom_tool_call_input.delta", place | {"delta": piece}
            yield "response.custom_tool_call_input.done", place | {"input": item["input"]}
    yield "response.output_item.done", {"output_index": index, "item": item}


def _begun(item: Item) -> Item:
    """An item as it is announced: its identity, without what its own events will tell."""
    match item["type"]:
        case "reasoning":
            return {"id": item["id"], "type": "reasoning", "summary": []}
        case "message":
            return item | {"status": "in_progress", "content": []}
        case "function_call":
            return item | {"status": "in_progress", "arguments": ""}
        case "custom_tool_call":
            return item | {"status": "in_progress", "input": ""}
        case _:
            return item | {"status": "in_progress"} if "status" in item else item


def _summary_events(part: dict[str, Any], place: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    yield "response.reasoning_summary_part.added", place | {"part": part | {"text": ""}}
    for piece in pieces(part["text"]):
        yield "response.reasoning_summary_text.delta", place | {"delta": piece}
    yield "response.reasoning_summary_text.done", place | {"text": part["text"]}
    yield "response.reasoning_summary_part.done", place | {"part": part}


def _text_events(part: dict[str, Any], place: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    yield "response.content_part.added", place | {"part": part | {"text": "", "logprobs": []}}
    for piece in pieces(part["text"]):
        yield "response.output_text.delta", place | {"delta": piece, "logprobs": []}
    yield "response.output_text.done", place | {"text": part["text"], "logprobs": part["logprobs"]}
    yield "response.content_part.done", place | {"part": part}


class ResponseStream(Stream):
    """The events as server-sent events."""

    def __init__(self, events: ResponseEvents) -> None:
        self._events = events

    def open(self, prompt_tokens: int | None) -> bytes:
        return sse.encode(self._events.open())

    def noop(self) -> bytes:
        return sse.encode(self._events.noop())

    def finish(self, reply: Reply) -> bytes:
        return sse.encode(self._events.finish(response_of(reply)))

    def fail(self, fault: Fault) -> bytes:
        return sse.encode(self._events.fail(fault))


def response_of(reply: Reply) -> dict[str, Any]:
    """The response object of a reply of this dialect."""
    if not isinstance(reply, ResponseReply):
        raise TypeError(f"a Responses stream cannot say a {type(reply).__name__}")
    return reply.response
