"""The messages of a session's calls, each distinct one once: a call names what it has beyond an earlier call."""

import json
from typing import Any

_LONGEST_MEDIA = 200
"""Characters of a data: URL that are kept: a page shows that there is a picture, not the picture."""


def json_object(body: bytes | None) -> dict[str, Any]:
    """A stored body as a JSON object, lone surrogates included, which stricter decoders refuse; {} for anything
    else."""
    try:
        value = json.loads(body or b"")
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


class MessageTable:
    """Distinct messages and tool lists in order of appearance, and each call's as numbers of them."""

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []
        self.tools: list[list[Any]] = []
        self._known: dict[str, int] = {}
        self._known_tools: dict[str, int] = {}
        self._of_call: list[list[int]] = []

    def add(self, chat_request: bytes | None, parent: int | None) -> dict[str, Any] | None:
        """The next call's messages as {base, keep, rest, tools}: the first `keep` of call number `base`, then `rest`.

        `parent` is the call that it continues, or was measured against. None where the body is no chat request.
        """
        body = json_object(chat_request)
        if not isinstance(body.get("messages"), list):
            self._of_call.append([])
            return None
        own = [self._number(message) for message in body["messages"] if isinstance(message, dict)]
        self._of_call.append(own)
        before = self._of_call[parent] if parent is not None else []
        keep = 0
        while keep < min(len(own), len(before)) and own[keep] == before[keep]:
            keep += 1
        tools = None
        if body.get("tools"):
            key = json.dumps(body["tools"])
            tools = self._known_tools.setdefault(key, len(self.tools))
            if tools == len(self.tools):
                self.tools.append(body["tools"])
        return {"base": -1 if parent is None else parent, "keep": keep, "rest": own[keep:], "tools": tools}

    def _number(self, message: dict[str, Any]) -> int:
        key = json.dumps(message, sort_keys=True)
        number = self._known.setdefault(key, len(self.messages))
        if number == len(self.messages):
            self.messages.append(_without_media(message))
        return number


def _without_media(value: Any) -> Any:
    if isinstance(value, str) and value.startswith("data:") and len(value) > _LONGEST_MEDIA:
        return f"{value[:_LONGEST_MEDIA]}… ({len(value):,} characters)"
    if isinstance(value, dict):
        return {name: _without_media(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_without_media(item) for item in value]
    return value
