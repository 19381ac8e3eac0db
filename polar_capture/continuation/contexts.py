"""The tokens that recent calls ended with, for the calls that continue them; older ones are read from the store."""

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np

from polar_capture.chat import Message
from polar_capture.chat_normal import text_of
from polar_capture.continuation.asked import Asked, asked_in
from polar_capture.continuation.reasons import EXACT
from polar_capture.continuation.tails import Ending, Ids

KEPT_BYTES = 128 * 2**20
"""Some 160 calls of 100,000 tokens."""


class Context(msgspec.Struct, frozen=True):
    """One recorded turn. `ids`: prompt + completion, int32; the last `sampled` are the completion. `plain`: the
    template's render of what was asked, int32; None where only the engine can tell it. `asked` is of the same
    conversation."""

    ids: Ids
    sampled: int
    asked: Asked
    ending: Ending
    plain: Ids | None

    @property
    def bytes(self) -> int:
        return self.ids.nbytes + (0 if self.plain is None else self.plain.nbytes)


class Contexts:
    """Contexts by call id; the least recently used go when they take more than `capacity` bytes."""

    def __init__(self, capacity: int = KEPT_BYTES) -> None:
        self._capacity = capacity
        self._contexts: OrderedDict[str, Context] = OrderedDict()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._contexts)

    def get(self, call_id: str) -> Context | None:
        found = self._contexts.get(call_id)
        if found is not None:
            self._contexts.move_to_end(call_id)
        return found

    def add(self, call_id: str, context: Context) -> None:
        replaced = self._contexts.pop(call_id, None)
        self._bytes += context.bytes - (replaced.bytes if replaced else 0)
        self._contexts[call_id] = context
        while self._bytes > self._capacity and len(self._contexts) > 1:
            _, dropped = self._contexts.popitem(last=False)
            self._bytes -= dropped.bytes


def joined(*parts: Ids) -> Ids:
    """One int32 array of several."""
    return np.concatenate(parts).astype(np.int32, copy=False)


def ending_of(message: Message, finish_reason: str | None, stop_reason: object, sampled: Ids) -> Ending:
    """How an answer ended. `stop_reason` may be the text of a stop token's id, as the store keeps it."""
    named = stop_reason is not None and (len(sampled) == 0 or str(stop_reason) != str(int(sampled[-1])))
    cut = finish_reason == "length"
    said_nothing = not text_of(message.content) and not message.tool_calls
    return Ending(cut=cut, thought=cut and said_nothing, stop_string=named)


def context_of(row: Mapping[str, Any]) -> Context | None:
    """The context of a recorded call, from its whole row (`Store.call`); None for one that can't be continued."""
    sampling = row["sampling"] or {}
    if row["status"] != "ok" or not row["prompt_ids"] or not row["completion_ids"] or sampling.get("n", 1) != 1:
        return None
    if row["chat_request"] is None or row["message"] is None:
        return None
    of = asked_in(row["chat_request"])
    if of is None:
        return None
    prompt, sampled = np.array(row["prompt_ids"], np.int32), np.array(row["completion_ids"], np.int32)
    message = msgspec.json.decode(row["message"], type=Message)
    ending = ending_of(message, row["finish_reason"], row["stop_reason"], sampled)
    if row["finish_reason"] == "tool_calls" and len(sampled) >= sampling.get("max_tokens", len(sampled) + 1):
        ending = msgspec.structs.replace(ending, cut=True)
    plain = None if row["continuation"] == EXACT else prompt
    return Context(joined(prompt, sampled), len(sampled), of, ending, plain)
