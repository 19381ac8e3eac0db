"""Which sampled turn a conversation goes on from, and with what. Pure."""

import msgspec

from polar_capture.chat import ChatRequest, MediaPart, Message
from polar_capture.chat_normal import text_of
from polar_capture.continuation.reasons import Fork
from polar_capture.lineage.turns import Restored

RIVALS = 16
"""How many calls that said the same words are looked at."""


class Step(msgspec.Struct, frozen=True):
    """A conversation that goes on from a sampled turn, its message number `answer`. `parents` are the calls that it may
    be of, the likeliest first: what they were asked tells."""

    parents: list[str]
    answer: int


def step(chat: ChatRequest, restored: Restored) -> Step | Fork | None:
    """What a restored and canonical conversation continues; None: it holds no sampled turn."""
    if not restored.found:
        return None
    if chat.continue_final:
        return Fork.PREFILL
    if any(_holds_media(message) for message in chat.messages):
        return Fork.MULTIMODAL
    if restored.standing is None:
        return Fork.TURN_EDITED if restored.last_edited else Fork.UNSAMPLED_TURN
    answer = max(i for i, message in enumerate(chat.messages) if message.role == "assistant")
    sampled = next(message for message in reversed(restored.messages) if message.role == "assistant")
    if not _same(chat.messages[answer], sampled):
        return Fork.TURNS_JOINED
    if answer == 0:
        return Fork.HISTORY_EDITED  # what it answered is gone
    if answer == len(chat.messages) - 1:
        return Fork.NOTHING_NEW
    return Step(list(dict.fromkeys([restored.standing, *reversed(restored.rivals)]))[:RIVALS], answer)


def _holds_media(message: Message) -> bool:
    return isinstance(message.content, list) and any(isinstance(part, MediaPart) for part in message.content)


def _same(rendered: Message, sampled: Message) -> bool:
    return (
        text_of(rendered.content) == text_of(sampled.content)
        and (rendered.reasoning or None) == (sampled.reasoning or None)
        and len(rendered.tool_calls) == len(sampled.tool_calls)
    )
