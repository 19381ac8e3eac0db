"""A client that asks again for a turn which it never got: it joins the generation that runs, or gets the answer
replayed.

So no turn is sampled twice because a connection broke, and none is trained twice.
"""

import asyncio
import time
from collections import OrderedDict

import msgspec

from polar_capture.call import Call
from polar_capture.chat import Message
from polar_capture.dialects.base import ParsedCall, Reply

Key = tuple[str, str, int]
"""Session, dialect, and a hash of what is asked."""

KEPT_SECONDS = 900.0
KEPT_ANSWERS = 256
"""Undelivered answers that wait for their client to come back, over all sessions."""


class Attempt(msgspec.Struct):
    """One generation and the clients that wait for it. `key` is of `key_of`."""

    key: Key
    call: Call
    work: "asyncio.Task[Reply]"
    clients: int = 1
    finished_at: float = 0.0

    @property
    def sound(self) -> bool:
        """Whether there is an answer to give."""
        return self.work.done() and not self.work.cancelled() and self.work.exception() is None


class Retries:
    """The attempts which a client may ask for again."""

    def __init__(self) -> None:
        self._running: dict[Key, Attempt] = {}
        self._undelivered: OrderedDict[Key, Attempt] = OrderedDict()

    def find(self, key: Key, attempt: int | None) -> Attempt | None:
        """The attempt which a request repeats: an undelivered answer to the same question; or, when the client itself
        counts this as a retry, the generation that still runs."""
        waiting = self._undelivered.pop(key, None)
        if waiting is not None and time.monotonic() - waiting.finished_at < KEPT_SECONDS:
            return waiting
        return self._running.get(key) if attempt else None

    def start(self, attempt: Attempt) -> None:
        self._running.setdefault(attempt.key, attempt)

    def finish(self, attempt: Attempt, *, delivered: bool) -> None:
        """The last client of an attempt is served, or gone."""
        if self._running.get(attempt.key) is attempt:
            del self._running[attempt.key]
        if delivered or not attempt.sound:
            return
        attempt.finished_at = time.monotonic()
        self._undelivered[attempt.key] = attempt
        while len(self._undelivered) > KEPT_ANSWERS:
            self._undelivered.popitem(last=False)


def key_of(session_id: str, dialect: str, parsed: ParsedCall) -> Key:
    """What makes two requests the same question: session, dialect and the understood conversation, volatile lines left
    out. Strings keep their hash, so this costs a tenth of a digest over the body; it is good in one process only."""
    chat = parsed.chat
    return session_id, dialect, hash((tuple(map(_message, chat.messages)), tuple(tool.name for tool in chat.tools)))


def _message(message: Message) -> int:
    content = message.content if isinstance(message.content, str) else msgspec.json.encode(message.content)
    calls = tuple((call.id, call.name, call.arguments) for call in message.tool_calls)
    return hash((message.role, content, message.reasoning, calls, message.tool_call_id))
