"""What a call was asked, as digests: two conversations with equal digests have equal prompts under one template.

They can be made of a running call, and of the body that a recorded one sent (`calls.chat_request`): a session goes on
in a new process.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from polar_capture.chat import ChatRequest, Message
from polar_capture.continuation.reasons import Fork
from polar_capture.engine import wire


class Asked(msgspec.Struct, frozen=True):
    """Digests of a prompt's parts. `messages` counts all of them, `history` covers all but the leading system
    message."""

    messages: int
    system: bytes
    history: bytes
    tools: bytes
    options: bytes

    def difference(self, other: "Asked") -> Fork | None:
        """What differs between the two, the most telling first; None: they ask the same."""
        if self.tools != other.tools:
            return Fork.TOOLS_CHANGED
        if self.system != other.system:
            return Fork.SYSTEM_CHANGED
        if self.history != other.history or self.messages != other.messages:
            return Fork.HISTORY_EDITED
        return Fork.OPTIONS_CHANGED if self.options != other.options else None


def asked(chat: ChatRequest, options: Mapping[str, Any], upto: Iterable[int] = ()) -> list[Asked]:
    """The digests of a canonical conversation: of its first n ≥ 1 messages for each n of `upto`, then of all.

    `options` are the chat_template_kwargs that go with it.
    """
    tools = _digest(wire.encode([wire.tool_object(tool) for tool in chat.tools])) if chat.tools else b""
    return list(_parts((_words(m) for m in chat.messages), [*upto, len(chat.messages)], tools, options_digest(options)))


class _Function(msgspec.Struct):
    name: str
    arguments: str


class _Call(msgspec.Struct):
    id: str
    function: _Function


class _Message(msgspec.Struct):
    role: str
    content: str | None = None
    reasoning: str | None = None
    tool_calls: list[_Call] = []
    tool_call_id: str | None = None
    name: str | None = None


class _Body(msgspec.Struct):
    messages: list[_Message]
    tools: msgspec.Raw = msgspec.Raw()
    chat_template_kwargs: dict[str, Any] = {}


def asked_in(body: bytes) -> Asked | None:
    """The digests of a recorded call's `chat_request`; None for one that holds media or is none of ours."""
    try:
        sent = msgspec.json.decode(body, type=_Body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    words = [_words_sent(m) for m in sent.messages]
    tools = _digest(bytes(sent.tools)) if bytes(sent.tools) else b""
    return next(iter(_parts(words, [len(sent.messages)], tools, options_digest(sent.chat_template_kwargs))))


def _parts(words: Iterable[list[Any]], upto: list[int], tools: bytes, options: bytes) -> Iterator[Asked]:
    system, history = b"", hashlib.blake2b(digest_size=16)
    count = 0
    for count, said in enumerate(words, 1):
        encoded = wire.encode(said)
        if count == 1 and said[0] == "system":
            system = _digest(encoded)
        else:
            history.update(encoded)
        for _ in range(upto.count(count)):
            yield Asked(count, system, history.digest(), tools, options)
    if count == 0:
        yield Asked(0, system, history.digest(), tools, options)


def _words(message: Message) -> list[Any]:
    """A message as vLLM gets it, field by field."""
    content: Any = message.content
    if content is not None and not isinstance(content, str):
        content = msgspec.to_builtins(content)
    if content is None and not message.tool_calls:
        content = ""
    calls = [[c.id, c.name, wire.arguments_object(c.arguments)] for c in message.tool_calls]
    return [message.role, content, message.reasoning or None, calls, message.tool_call_id, message.name]


def _words_sent(message: _Message) -> list[Any]:
    calls = [[c.id, c.function.name, c.function.arguments] for c in message.tool_calls]
    return [message.role, message.content, message.reasoning, calls, message.tool_call_id, message.name]


def options_digest(options: Mapping[str, Any]) -> bytes:
    """What stands for chat_template_kwargs in `Asked.options`."""
    return _digest(wire.encode(sorted(options.items())))


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()
