"""The messages of a session's calls, each distinct one once: a call names what it has beyond an earlier call."""

from typing import Any

import msgspec

_LONGEST_MEDIA = 200
"""Characters of a data: URL that are kept: a page shows that there is a picture, not the picture."""


class _Body(msgspec.Struct):
    messages: list[dict[str, Any]] = []
    tools: list[Any] | None = None


class MessageTable:
    """Distinct messages and tool lists in order of appearance, and each call's as numbers of them."""

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []
        self.tools: list[list[Any]] = []
        self._known: dict[bytes, int] = {}
        self._known_tools: dict[bytes, int] = {}
        self._of_call: list[list[int]] = []

    def add(self, chat_request: bytes | None, parent: int | None) -> dict[str, Any] | None:
        """The next call's messages as {base, keep, rest, tools}: the first `keep` of call number `base`, then `rest`.

        `parent` is the call that it continues, or was measured against. None where the body is no chat request.
        """
        try:
            body = msgspec.json.decode(chat_request or b"", type=_Body)
        except (msgspec.DecodeError, UnicodeDecodeError):
            self._of_call.append([])
            return None
        own = [self._number(message) for message in body.messages]
        self._of_call.append(own)
        before = self._of_call[parent] if parent is not None else []
        keep = 0
        while keep < min(len(own), len(before)) and own[keep] == before[keep]:
            keep += 1
        tools = None
        if body.tools:
            key = msgspec.json.encode(body.tools)
            tools = self._known_tools.setdefault(key, len(self.tools))
            if tools == len(self.tools):
                self.tools.append(body.tools)
        return {"base": -1 if parent is None else parent, "keep": keep, "rest": own[keep:], "tools": tools}

    def _number(self, message: dict[str, Any]) -> int:
        key = msgspec.json.encode(message, order="deterministic")
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
