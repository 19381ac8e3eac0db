"""Server-sent events, as the HTML standard frames them (https://html.spec.whatwg.org/multipage/server-sent-events.html)."""

from collections.abc import Iterable

from polar_capture.dialects.base import Event


def encode(events: Iterable[Event]) -> bytes:
    """Frame events. `data` is JSON text, so it holds no raw line break and needs one data line only."""
    out = []
    for event in events:
        if event.name is not None:
            out.append(b"event: " + event.name.encode() + b"\n")
        out.append(b"data: " + event.data + b"\n\n")
    return b"".join(out)


def comment(text: str = "") -> bytes:
    """A comment line, which every parser skips."""
    return b": " + text.encode() + b"\n\n" if text else b":\n\n"
