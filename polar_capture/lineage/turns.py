"""Sampled turns found again in a client's history, and put back as they were sampled.

Harnesses re-serialise arguments, strip blanks and drop thoughts (measured: facts/harnesses.md §5). What they echo of a
turn only identifies it: where it still says the same, the sampled message stands in for the echo; where the client
changed it, the client's words are kept.
"""

from collections import OrderedDict
from typing import Any

import msgspec

from polar_capture.chat import Message, ToolCall
from polar_capture.chat_normal import text_of


class Restored(msgspec.Struct):
    """A conversation with its sampled turns restored. `parent` is the call of the last one found (None: none was);
    `found` the calls of all, in order; `edited` how many identified turns the client had changed. `standing` is the
    call whose sampled message is the last assistant message, None where that one is not as it was sampled;
    `last_edited`: it was identified, and the client had changed it. `rivals`: all calls that said its words, where it
    carries no id."""

    messages: list[Message]
    parent: str | None = None
    found: list[str] = []
    edited: int = 0
    standing: str | None = None
    last_edited: bool = False
    rivals: list[str] = []


class TurnBook:
    """The sampled messages of one session, by call and by content; the oldest are forgotten beyond `capacity`."""

    def __init__(self, capacity: int = 4096) -> None:
        self._capacity = capacity
        self._by_call: OrderedDict[str, list[Message]] = OrderedDict()
        self._by_content: dict[str, list[str]] = {}
        self._call_of_id: dict[str, str] = {}
        self._ids_of_call: dict[str, list[str]] = {}

    def __contains__(self, call_id: str) -> bool:
        return call_id in self._by_call

    def add(self, call_id: str, messages: list[Message], minted: list[str]) -> None:
        """Remember one call's sampled messages (one a choice) and the ids that its answer carried."""
        self._by_call[call_id] = messages
        self._ids_of_call[call_id] = minted
        for identifier in minted:
            self._call_of_id[identifier] = call_id
        for message in messages:
            self._by_content.setdefault(_content_key(message), []).append(call_id)
        while len(self._by_call) > self._capacity:
            self._forget(next(iter(self._by_call)))

    def call_of(self, identifier: str) -> str | None:
        return self._call_of_id.get(identifier)

    def restore(self, messages: list[Message]) -> Restored:
        """Put sampled turns back into a conversation. The input is not changed."""
        result = Restored(messages=[])
        used: dict[str, int] = {}
        for message in messages:
            if message.role == "assistant":
                found, edited = len(result.found), result.edited
                result.rivals = []
                message = self._restored(message, used, result)
                result.last_edited = result.edited > edited
                result.standing = result.parent if len(result.found) > found and not result.last_edited else None
            result.messages.append(message)
        return result

    def _restored(self, echo: Message, used: dict[str, int], result: Restored) -> Message:
        named = [self._call_of_id[i] for i in echo.echo if i in self._call_of_id]
        for call_id in dict.fromkeys(named):
            for sampled in self._by_call[call_id]:
                if says_the_same(echo, sampled):
                    return self._take(call_id, sampled, echo, result)
        if named:
            result.edited += 1
            result.parent = named[-1]
            result.found.append(named[-1])
            return echo
        return self._by_words(echo, used, result)

    def _by_words(self, echo: Message, used: dict[str, int], result: Restored) -> Message:
        """For turns that carry no id of ours: the k-th turn with these words in the history is the k-th that was
        sampled."""
        key = _content_key(echo)
        candidates = [c for c in self._by_content.get(key, ()) if c in self._by_call]
        occurrence = used.get(key, 0)
        used[key] = occurrence + 1
        fitting = [(c, s) for c in candidates for s in self._by_call[c] if says_the_same(echo, s)]
        if not fitting:
            return echo
        result.rivals = [call_id for call_id, _ in fitting]
        call_id, sampled = fitting[min(occurrence, len(fitting) - 1)]
        return self._take(call_id, sampled, echo, result)

    def _take(self, call_id: str, sampled: Message, echo: Message, result: Restored) -> Message:
        result.parent = call_id
        result.found.append(call_id)
        # The client's tool-call ids stay: its tool results refer to them.
        calls = [
            ToolCall(theirs.id, ours.name, ours.arguments)
            for ours, theirs in zip(sampled.tool_calls, echo.tool_calls, strict=True)
        ]
        return Message(
            "assistant", content=sampled.content, reasoning=sampled.reasoning, tool_calls=calls, echo=echo.echo
        )

    def _forget(self, call_id: str) -> None:
        for message in self._by_call.pop(call_id):
            key = _content_key(message)
            left = [c for c in self._by_content.get(key, ()) if c != call_id]
            if left:
                self._by_content[key] = left
            else:
                self._by_content.pop(key, None)
        for identifier in self._ids_of_call.pop(call_id):
            self._call_of_id.pop(identifier, None)


def says_the_same(echo: Message, sampled: Message) -> bool:
    """Whether an echo is the sampled turn but for what harnesses are known to mangle: blanks at the ends of texts,
    dropped thoughts, the spelling and key order of JSON arguments."""
    if text_of(echo.content).strip() != text_of(sampled.content).strip():
        return False
    if echo.reasoning and echo.reasoning.strip() != (sampled.reasoning or "").strip():
        return False
    if len(echo.tool_calls) != len(sampled.tool_calls):
        return False
    return all(
        theirs.name == ours.name and _value(theirs.arguments) == _value(ours.arguments)
        for theirs, ours in zip(echo.tool_calls, sampled.tool_calls, strict=True)
    )


def _content_key(message: Message) -> str:
    names = "\x00".join(call.name for call in message.tool_calls)
    return f"{text_of(message.content).strip()}\x00{names}"


def _value(arguments: str) -> Any:
    """The JSON value of an argument string; the string itself where it is none. Numbers compare by value (1.0 is 1),
    and no arguments at all are an empty object: that is how a client says them back."""
    if arguments.strip() in ("", "null"):
        return {}
    try:
        return msgspec.json.decode(arguments)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return arguments.strip()
