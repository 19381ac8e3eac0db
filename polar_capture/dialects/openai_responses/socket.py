"""Responses over a WebSocket: `response.create` frames in, the stream's events out as frames, one response at a time.

The connection remembers its latest responses, so that a turn with `previous_response_id` carries only what is new; a
prewarm (`generate: false`) is answered without the engine. Protocol: openai-python `responses_client_event.py`; what
Codex 0.171.0 sends and needs: facts/harnesses.md §4.
"""

from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Any

import msgspec

from polar_capture.chat import Usage
from polar_capture.dialects.base import Action, Generate, ParsedCall, Reply, Send, Socket, WireRequest
from polar_capture.dialects.json_body import decode_object
from polar_capture.dialects.openai_responses.events import ResponseEvents, response_of
from polar_capture.dialects.openai_responses.faults import PREVIOUS, error_object, retry_headers, status_of
from polar_capture.dialects.openai_responses.items import Item, as_items
from polar_capture.dialects.openai_responses.request import Asked, understand
from polar_capture.dialects.openai_responses.response import finished, response_id, shell, usage_of
from polar_capture.dialects.openai_responses.stored import after_output
from polar_capture.faults import CallError, Fault, FaultKind, invalid
from polar_capture.lineage.minting import Minter

_REMEMBERED = 4
"""Conversations kept a connection: the latest, and a few that a client may go back to (a fork, a lane)."""
_QUEUED = 64


class ResponsesSocket(Socket):
    """One connection. See `Socket` for the order of calls."""

    def __init__(self, wire: WireRequest, mint: Callable[[], Minter]) -> None:
        self._wire = wire
        self._mint = mint
        self._conversations: OrderedDict[str, list[Item]] = OrderedDict()
        self._waiting: deque[dict[str, Any]] = deque()
        self._call: ParsedCall | None = None
        self._events: ResponseEvents | None = None

    def receive(self, frame: str | bytes) -> list[Action]:
        lane = None
        try:
            body = decode_object(frame.encode("utf-8", "surrogatepass") if isinstance(frame, str) else frame)
            lane = _lane(body)
            return self._take(body)
        except CallError as error:
            return [_error(error.fault, lane)]

    def _take(self, body: dict[str, Any]) -> list[Action]:
        kind = body.get("type")
        if kind == "response.processed":
            return []
        if kind == "response.steer":
            return [_steering_refused(body)]
        if kind != "response.create":
            raise invalid(f"Unknown event type '{kind}'. Supported: response.create.", "type")
        if isinstance(body.get("response"), dict):
            nested = body.pop("response")
            body = body | nested | {"type": kind}
        if self._call is None:
            return self._create(body)
        if len(self._waiting) == _QUEUED:
            raise CallError(Fault(FaultKind.RATE_LIMITED, "Too many responses are waiting on this connection."))
        self._waiting.append(body)
        return []

    def _create(self, body: dict[str, Any]) -> list[Action]:
        try:
            call = self._understood(body)
        except CallError as error:
            return [_error(error.fault, _lane(body))]
        if body.get("generate") is False:
            return self._prewarm(call)
        self._call = call
        wire = msgspec.structs.replace(self._wire, method="POST", body=msgspec.json.encode(body))
        return [Generate(call, wire)]

    def _understood(self, body: dict[str, Any]) -> ParsedCall:
        """The call with the connection's own memory put in; what it does not remember is left for `resolve`."""
        known = self._conversations.get(body[PREVIOUS]) if isinstance(body.get(PREVIOUS), str) else None
        if known is None:
            call = understand(body, self._wire.headers)
        else:
            call = understand(
                body, self._wire.headers, items=[*known, *as_items(body.get("input"))], history=len(known)
            )
        call.stream = True
        return call

    def _prewarm(self, call: ParsedCall) -> list[Action]:
        asked: Asked = call.extra
        if asked.unresolved is not None:
            fault = Fault(
                FaultKind.NOT_FOUND, f"Previous response with id '{asked.unresolved}' not found.", param=PREVIOUS
            )
            return [_error(fault, _lane(asked.body))]
        identifier = response_id(asked, self._mint())
        self._remember(identifier, asked.items)
        events = ResponseEvents(shell(asked, identifier, ""), _lane(asked.body))
        done = finished(asked, identifier, "", [], "stop", usage_of(Usage()))
        return [Send(event.data) for event in events.finish(done)]

    def start(self, call: ParsedCall, minter: Minter, model: str) -> list[Action]:
        self._call = call
        asked: Asked = call.extra
        self._events = ResponseEvents(shell(asked, response_id(asked, minter), model), _lane(asked.body))
        return []

    def noop(self) -> list[Action]:
        return [Send(event.data) for event in self._events.noop()] if self._events else []

    def finish(self, reply: Reply) -> list[Action]:
        if self._call is None or self._events is None:
            raise RuntimeError("finish without start")
        response = response_of(reply)
        asked: Asked = self._call.extra
        said = [item for item in asked.items if item.get("type") != "compaction_trigger"]
        self._remember(response["id"], after_output(said, response["output"]))
        sent: list[Action] = [Send(event.data) for event in self._events.finish(response)]
        return sent + self._next()

    def fail(self, fault: Fault) -> list[Action]:
        """Before anything was sent: an `error` event with its HTTP status, which Codex takes like an HTTP error; an
        overflow and a fault behind an open answer: `response.failed`."""
        asked: Asked | None = self._call.extra if self._call else None
        lane = _lane(asked.body) if asked else None
        if self._events and (self._events.opened or fault.kind is FaultKind.CONTEXT_OVERFLOW):
            sent: list[Action] = [Send(event.data) for event in self._events.fail(fault)]
        else:
            sent = [_error(fault, lane)]
        return sent + self._next()

    def _next(self) -> list[Action]:
        """What waited meanwhile: prewarms and refusals are answered at once, the first call is begun."""
        self._call = self._events = None
        actions: list[Action] = []
        while self._waiting and self._call is None:
            actions += self._create(self._waiting.popleft())
        return actions

    def _remember(self, identifier: str, items: list[Item]) -> None:
        self._conversations[identifier] = items
        while len(self._conversations) > _REMEMBERED:
            self._conversations.popitem(last=False)


def _lane(body: dict[str, Any]) -> str | None:
    lane = body.get("stream_id")
    return lane if isinstance(lane, str) else None


def _error(fault: Fault, lane: str | None) -> Send:
    event: dict[str, Any] = {
        "type": "error",
        "sequence_number": 0,
        "status": status_of(fault),
        "error": error_object(fault),
        "headers": retry_headers(fault),
    }
    return Send(msgspec.json.encode(event if lane is None else event | {"stream_id": lane}))


def _steering_refused(body: dict[str, Any]) -> Send:
    event = {
        "type": "response.steer.failed",
        "sequence_number": 0,
        "error": {
            "type": "invalid_request_error",
            "code": "steering_not_supported",
            "message": "A running response cannot be steered here: send the input with the next response.create.",
        },
        "steer": {"input": body.get("input"), "previous_response_id": body.get(PREVIOUS)},
    }
    return Send(msgspec.json.encode(event))
