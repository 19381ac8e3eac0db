"""A completion as a generateContent stream: server-sent events, or one JSON array that comes in pieces."""

import msgspec

from polar_capture.dialects import sse
from polar_capture.dialects.base import Event, ParsedCall, Reply, Stream
from polar_capture.dialects.google.errors import error_object
from polar_capture.dialects.google.reply import GoogleReply
from polar_capture.dialects.google.request import Asked
from polar_capture.faults import Fault


class EventStream(Stream):
    """With alt=sse: data lines only, no names, no end marker."""

    def open(self, prompt_tokens: int | None) -> bytes:
        return b""

    def noop(self) -> bytes:
        # An empty event. Comments break Google's Python and Go SDKs, which take every line for data; an empty candidate
        # would enter the history that the Python SDK keeps.
        return b"\n\n"

    def finish(self, reply: Reply) -> bytes:
        assert isinstance(reply, GoogleReply)
        return sse.encode(Event(msgspec.json.encode(chunk)) for chunk in reply.chunks())

    def fail(self, fault: Fault) -> bytes:
        return sse.encode([Event(msgspec.json.encode({"error": error_object(fault)}))])


class ArrayStream(Stream):
    """Without alt=sse: a JSON array, whose blanks between elements keep the connection alive."""

    content_type = "application/json; charset=UTF-8"

    def __init__(self) -> None:
        self._opened = False

    def open(self, prompt_tokens: int | None) -> bytes:
        if self._opened:
            return b""
        self._opened = True
        return b"["

    def noop(self) -> bytes:
        return self.open(None) + b"\n"

    def finish(self, reply: Reply) -> bytes:
        assert isinstance(reply, GoogleReply)
        return self.open(None) + b",\r\n".join(msgspec.json.encode(chunk) for chunk in reply.chunks()) + b"\n]"

    def fail(self, fault: Fault) -> bytes:
        return self.open(None) + msgspec.json.encode({"error": error_object(fault)}) + b"\n]"


def stream_of(call: ParsedCall) -> Stream:
    asked: Asked = call.extra
    return EventStream() if asked.events else ArrayStream()
