"""One frame of a WebSocket: a client's request, or one event of the answer to it.

Responses over WebSocket: https://platform.openai.com/docs/guides/websocket-mode
"""

import json
from typing import Any

from polar_capture.dialects.base import WireRequest
from polar_capture.views.answers import answer_text
from polar_capture.views.requests import cut, request_text
from polar_capture.views.visible import visible

_ENDS = frozenset({"response.completed", "response.incomplete", "response.failed", "error"})
_DETAILS = ("delta", "text", "arguments", "input")


def client_frame_text(wire: WireRequest) -> str | None:
    """A frame from the client, decoded; where nothing is sampled for it (Codex warms connections up with such frames)
    that is said, and what no dialect reads is indented JSON. None for what is no JSON object."""
    event = _event(wire.body)
    if event is None:
        return None
    text = request_text(wire)
    if text is not None and event.get("generate") is not False:
        return text
    head = f"{event.get('type', 'a frame')} · nothing is sampled for it"
    return visible(f"{head}\n\n{text or cut(json.dumps(event, indent=2, ensure_ascii=False))}")


def server_frame_text(frame: bytes) -> str | None:
    """A frame to the client: the whole answer where it ends one, else one line. None for what is no JSON object."""
    event = _event(frame)
    if event is None:
        return None
    kind = str(event.get("type", ""))
    if kind in _ENDS or not kind.startswith("response."):
        return answer_text(frame)
    said = next((json.dumps(event[name], ensure_ascii=False) for name in _DETAILS if event.get(name)), "")
    item = event.get("item")
    if isinstance(item, dict):
        said = " ".join(str(item[name]) for name in ("type", "name", "status") if item.get(name))
    return visible(f"{kind}  {cut(said)}".rstrip())


def ended_answer(frame: bytes) -> str | None:
    """The id of the answer that a frame to the client ends; None for all other frames."""
    event = _event(frame)
    if event is None or event.get("type") not in _ENDS or not isinstance(event.get("response"), dict):
        return None
    return str(event["response"].get("id"))


def _event(frame: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(frame)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
