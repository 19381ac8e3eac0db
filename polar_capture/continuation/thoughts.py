"""What a template writes behind a thought that was cut: the mark that ends it, and no answer. Pure.

Templates drop thoughts before a new question, so this can't be read off the renders that tell the tail. It is read off
renders that end with the answer, where the thought still shows, in two ways that must agree:

* behind a fixed question come two short thoughts that end in different letters: what their renders end with alike;
* the whole conversation ends with the real thought. Where its render goes on from the very ids that were sampled, the
  rest closes it; else the same with a letter behind the thought, so that no tokenizer joins the thought's last
  character with what follows (Qwen's makes one token of a full stop and a newline).

A template that shows no thoughts, in both, has no mark for their end: the end of turn alone closes such an answer, as
it closes any other. Arrays are int32 ids.
"""

from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from polar_capture.chat import Message
from polar_capture.continuation.reasons import Fork
from polar_capture.continuation.tails import Ids, common_end, ends, starts

THOUGHTS = (Message("assistant", "", reasoning="Yes"), Message("assistant", "", reasoning="Now"))
LETTER = "x"


class Closing(msgspec.Struct, frozen=True):
    """What a template writes behind a thought without an answer.

    `opens`: what stands before the thought, the mark of the role included. `closes`: all that is behind it, of which
    the last `end` ids end the turn. Nothing but these where no thoughts are shown.
    """

    opens: Ids
    closes: Ids
    end: int

    @property
    def mark(self) -> Ids:
        """What ends the thought, without the end of the turn."""
        return self.closes[: len(self.closes) - self.end]


def closing(lead: Ids, first: Ids, second: Ids, answered: Ids, answered_too: Ids) -> Closing | Fork:
    """Of four renders that end with an answer: two with the THOUGHTS, two with words. `lead` is what asks."""
    if not (starts(first, lead) and starts(second, lead)):
        return Fork.NOT_APPEND_ONLY
    behind, end = common_end(first, second), common_end(answered, answered_too)
    if np.array_equal(first, second):
        return Closing(first[:0], answered[len(answered) - end :], end)
    before = _common_start(first, second)
    if before + behind >= min(len(first), len(second)) or before <= len(lead):
        return Fork.CUT_THOUGHT
    closes = first[len(first) - behind :]
    if behind <= end or not ends(closes, answered[len(answered) - end :]):
        return Fork.CUT_THOUGHT
    return Closing(first[len(lead) : before], closes, end)


def closed(known: Closing, head: Ids, opening: Ids, sampled: Ids, whole: Ids, lettered: Ids, after: Ids) -> Ids | Fork:
    """The ids that close a thought, to be put before `after`, the end of turn and what follows it.

    `head` is the render that the turn was sampled behind, without its generation prompt `opening`; `whole` the render
    of the conversation up to the turn, `lettered` the same with the LETTER behind its thought.
    """
    if not starts(after, known.closes[len(known.closes) - known.end :]):
        return Fork.CUT_THOUGHT  # a last answer ends in another way than one that others follow
    if len(known.mark) == 0:
        return known.mark if np.array_equal(whole, lettered) else Fork.CUT_THOUGHT
    canonical = np.concatenate((head, opening, sampled))
    if starts(whole, canonical):
        rest = whole[len(canonical) :]
        agrees = len(rest) >= known.end and ends(known.closes, rest)
        return rest[: len(rest) - known.end] if agrees else Fork.CUT_THOUGHT
    turn = lettered[len(head) :]
    if not (starts(lettered, head) and starts(turn, known.opens) and ends(turn, known.closes)):
        return Fork.CUT_THOUGHT
    if not starts(canonical[len(head) :], known.opens):
        return Fork.CUT_THOUGHT  # no thought was opened, or in another way
    thought = turn[: len(turn) - len(known.closes)]
    mark: npt.NDArray[Any] = np.setdiff1d(known.mark, thought)
    # What was sampled must be inside its thought still: an answer may be cut right behind the mark.
    if len(mark) == 0 or np.isin(sampled, mark).any():
        return Fork.CUT_THOUGHT
    return known.mark


def _common_start(one: Ids, other: Ids) -> int:
    size = min(len(one), len(other))
    differ: npt.NDArray[Any] = np.flatnonzero(one[:size] != other[:size])
    return int(differ[0]) if len(differ) else size
