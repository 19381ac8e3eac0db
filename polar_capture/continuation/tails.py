"""The tail: what the served model's template writes between a sampled answer and the next generation. Pure.

It is read off renders of the engine, in two ways that must agree, and nothing is known of any template beforehand:

* behind a fixed exchange of short messages, whose rendered beginning is known, come the new messages (`short`);
* the whole conversation's render ends with the very ids that the last answer and the new messages have in a short
  conversation (`turn`), and is the render that the answer was sampled behind, plus exactly those ids.

The fixed exchange asks with a message of the same role as the answer was sampled behind. Arrays are int32 ids.
Everything that does not fit is a Fork: a tail is derived or refused, never guessed.
"""

from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from polar_capture.chat import Message
from polar_capture.continuation.reasons import Fork

Ids = npt.NDArray[np.int32]

ANSWERS = (Message("assistant", "Yes"), Message("assistant", "Now"))
"""Two answers that end in different letters: where their renders part for good, an answer's text ends."""


def asking(role: str) -> list[Message]:
    """A short conversation that waits for an answer; its last message is of the role, `tool` or any other."""
    question = Message("user", "Hello.")
    return [question, ANSWERS[0], follower("tool")] if role == "tool" else [question]


def follower(role: str) -> Message:
    """A short message of the role that comes behind the answer."""
    return Message("tool", "ok", tool_call_id="call_0") if role == "tool" else Message("user", "Go on")


class Frame(msgspec.Struct, frozen=True):
    """What a template writes around the fixed exchange.

    `lead`: what asks, without a generation prompt. `opening`: the generation prompt behind it, empty for templates that
    have none there. `answered`: what asks and the first answer, up to the end of its text.
    """

    lead: Ids
    opening: Ids
    answered: Ids


def frame(lead: Ids, asked: Ids, first: Ids, second: Ids) -> Frame | Fork:
    """The frame, from four renders: what asks, without and with a generation prompt; the same, an answer and a follower
    with one, for each of the two ANSWERS."""
    if not (starts(asked, lead) and starts(first, lead) and starts(second, lead)):
        return Fork.NOT_APPEND_ONLY
    after = common_end(first, second)
    answered = first[: len(first) - after]
    if after == 0 or len(answered) <= len(lead):
        return Fork.TEMPLATE
    return Frame(lead, asked[len(lead) :], answered)


class Seam(msgspec.Struct, frozen=True):
    """`turn`: the last answer as the template renders it. `after`: everything that the template writes behind it, end
    of turn, new messages and generation prompt."""

    turn: Ids
    after: Ids


def brief_seam(known: Frame, short: Ids, turn: Ids) -> Seam | Fork:
    """What stands behind the last answer, by the first derivation and the short conversation alone: `seam` says what
    the renders are, and what is still to be compared."""
    if not (starts(short, known.answered) and starts(turn, known.lead)):
        return Fork.TEMPLATE
    after = short[len(known.answered) :]
    rendered = turn[len(known.lead) :]
    if len(after) == 0 or len(rendered) <= len(after) or not ends(rendered, after):
        return Fork.TEMPLATE
    return Seam(rendered[: len(rendered) - len(after)], after)


def seam(known: Frame, short: Ids, turn: Ids, full: Ids) -> Seam | Fork:
    """What stands behind the last answer.

    `short` renders the fixed exchange with the new messages, `turn` what asks there with the real answer and the new
    messages, `full` the whole conversation; all with a generation prompt.
    """
    found = brief_seam(known, short, turn)
    if isinstance(found, Fork):
        return found
    return found if ends(full, turn[len(known.lead) :]) else Fork.TEMPLATE


def appended(opening: Ids, found: Seam, before: Ids, now: Ids) -> bool:
    """Whether the whole render `now` is `before`, the one that the answer was sampled behind, without its generation
    prompt `opening`, and then the answer and what follows it: no id more, none less."""
    if not ends(before, opening):
        return False
    head = before[: len(before) - len(opening)]
    return starts(now, head) and len(now) == len(head) + len(found.turn) + len(found.after)


class Ending(msgspec.Struct, frozen=True):
    """How an answer's tokens end. `cut`: by a limit, in place of an end token; `thought`: before any word of an answer;
    `stop_string`: at a string that the client named."""

    cut: bool = False
    thought: bool = False
    stop_string: bool = False


def tail(after: Ids, last: int, ending: Ending, mark: Ids | None = None) -> Ids | Fork:
    """The ids to put behind a completion whose last id is `last`; `mark` are those that close a thought that was cut.

    An end token that was sampled is the first of what the template writes: the end of turn (ChatML), or the marker of
    the next role (GLM). A cut answer is closed by the template's own ids.
    """
    if ending.stop_string:
        return Fork.STOP_STRING
    if ending.thought:
        return Fork.CUT_THOUGHT if mark is None else np.concatenate((mark, after))
    if last == after[0]:
        return after[1:] if len(after) > 1 else Fork.TEMPLATE
    return after if ending.cut else Fork.END_OF_TURN


def starts(whole: Ids, beginning: Ids) -> bool:
    return np.array_equal(whole[: len(beginning)], beginning)


def ends(whole: Ids, end: Ids) -> bool:
    return len(end) == 0 or np.array_equal(whole[-len(end) :], end)


def common_end(one: Ids, other: Ids) -> int:
    size = min(len(one), len(other))
    differ: npt.NDArray[Any] = np.flatnonzero(one[len(one) - size :] != other[len(other) - size :])
    return size if len(differ) == 0 else size - 1 - int(differ[-1])
