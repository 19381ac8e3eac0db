"""What a harness sent back of a sampled turn, against what was sampled.

The harness's own body is read by its dialect; the ids that we minted say which turn a message is.
"""

import difflib
import json
import re
from typing import Any

import msgspec

from polar_capture.chat import Message
from polar_capture.dialects import registry
from polar_capture.dialects.base import WireRequest
from polar_capture.faults import CallError
from polar_capture.pages.messages import json_object

Segment = tuple[str, str]
"""("=", text) in both, ("-", text) only sampled, ("+", text) only echoed."""

_WORDS = re.compile(r"\s+|\w+|[^\w\s]")
_MOST_WORDS = 3000
"""Words on either side above which only the common head and tail are found: matching is quadratic."""


class EchoFinder:
    """Compares the turns that a session's requests hold with the sampled ones. Asked call by call, in order: a turn
    that comes back the same way again is told once."""

    def __init__(self, calls_of_ids: dict[str, str]) -> None:
        self._calls_of_ids = calls_of_ids
        self._sampled: dict[str, Message] = {}
        self._told: dict[str, str] = {}

    def sampled(self, call_id: str, message: bytes | None) -> None:
        """The message that a call sampled, to compare with later."""
        try:
            self._sampled[call_id] = msgspec.convert(json_object(message), Message)
        except msgspec.ValidationError:
            return  # an error has no message: there is nothing to echo

    def echoed(self, path: str, host: str, body: bytes | None) -> list[dict[str, Any]]:
        """The sampled turns in this request that are new or differ from how they came back before: [{of, fields}], a
        field {name, same, segments}."""
        found = []
        for message in _messages(path, host, body):
            call_id = next((self._calls_of_ids[i] for i in message.echo if i in self._calls_of_ids), None)
            if call_id is None or call_id not in self._sampled:
                continue
            said = _fields(message)
            key = json.dumps(said)
            if self._told.get(call_id) == key:
                continue
            self._told[call_id] = key
            found.append({"of": call_id, "fields": _compared(_fields(self._sampled[call_id]), said)})
        return found


def _messages(path: str, host: str, body: bytes | None) -> list[Message]:
    known = registry.find("POST", path, host, {})
    if known is None or not body:
        return []
    dialect, route = known
    try:
        return dialect.parse(WireRequest("POST", path, {}, {}, body, host), route).chat.messages
    except CallError:
        return []  # recorded as the call's error


def _fields(message: Message) -> list[tuple[str, str]]:
    content = message.content
    if isinstance(content, list):
        content = "\n".join(part.text if hasattr(part, "text") else f"[{part.kind}]" for part in content)
    fields = [("reasoning", message.reasoning or ""), ("content", content or "")]
    for number, call in enumerate(message.tool_calls):
        fields.append((f"tool call {number + 1}", f"{call.name}({call.arguments})"))
    return fields


def _compared(sampled: list[tuple[str, str]], echoed: list[tuple[str, str]]) -> list[dict[str, Any]]:
    before, after = dict(sampled), dict(echoed)
    rows = []
    for name in dict.fromkeys([*before, *after]):
        a, b = before.get(name, ""), after.get(name, "")
        if a or b:
            rows.append({"name": name, "same": a == b, "segments": differences(a, b)})
    return rows


def differences(a: str, b: str) -> list[Segment]:
    """Segments that turn `a` into `b`, by words. Joined without "+" they are `a`, without "-" `b`."""
    if a == b:
        return [("=", a)] if a else []
    left, right = _words(a), _words(b)
    head = 0
    while head < min(len(left), len(right)) and left[head] == right[head]:
        head += 1
    tail = 0
    while tail < min(len(left), len(right)) - head and left[-1 - tail] == right[-1 - tail]:
        tail += 1
    mine, theirs = left[head : len(left) - tail], right[head : len(right) - tail]
    segments: list[Segment] = [("=", "".join(left[:head]))]
    if max(len(mine), len(theirs)) > _MOST_WORDS:
        segments += [("-", "".join(mine)), ("+", "".join(theirs))]
    else:
        for kind, i, j, k, m in difflib.SequenceMatcher(None, mine, theirs, autojunk=False).get_opcodes():
            if kind == "equal":
                segments.append(("=", "".join(mine[i:j])))
            else:
                segments += [("-", "".join(mine[i:j])), ("+", "".join(theirs[k:m]))]
    segments.append(("=", "".join(left[len(left) - tail :])))
    return [segment for segment in segments if segment[1]]


def _words(text: str) -> list[str]:
    return _WORDS.findall(text)
