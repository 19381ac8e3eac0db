"""The derivations of the tail, on ids by hand."""

import numpy as np
import pytest

from polar_capture.continuation.reasons import Fork
from polar_capture.continuation.tails import Ending, Frame, Ids, Seam, appended, frame, seam, tail

ASK, REPLY, CLOSE, LINE, YES, NOW, GO = 1, 2, 3, 4, 10, 11, 12


def ids(*values: int) -> Ids:
    return np.array(values, np.int32)


LEAD = ids(ASK, 20, CLOSE, LINE)
FIRST = ids(*LEAD, REPLY, YES, CLOSE, LINE, ASK, GO, CLOSE, LINE, REPLY)
SECOND = ids(*LEAD, REPLY, 9, NOW, CLOSE, LINE, ASK, GO, CLOSE, LINE, REPLY)
KNOWN = Frame(LEAD, ids(REPLY), ids(*LEAD, REPLY, YES))


def test_a_frame_ends_where_the_two_answers_part():
    found = frame(LEAD, ids(*LEAD, REPLY), FIRST, SECOND)
    assert isinstance(found, Frame)
    for name in ("lead", "opening", "answered"):
        assert getattr(found, name).tolist() == getattr(KNOWN, name).tolist()


@pytest.mark.parametrize(
    ("renders", "fork"),
    [
        ((LEAD, ids(9, *LEAD, REPLY), FIRST, SECOND), Fork.NOT_APPEND_ONLY),
        ((LEAD, ids(*LEAD, REPLY), FIRST[1:], SECOND), Fork.NOT_APPEND_ONLY),
        ((LEAD, ids(*LEAD, REPLY), FIRST, SECOND[1:]), Fork.NOT_APPEND_ONLY),
        ((LEAD, ids(*LEAD, REPLY), FIRST, FIRST), Fork.TEMPLATE),  # the answer is not rendered at all
        ((LEAD, ids(*LEAD, REPLY), FIRST[:6], SECOND[:7]), Fork.TEMPLATE),  # nothing is behind it
    ],
)
def test_renders_that_do_not_fit_give_no_frame(renders, fork):
    assert frame(*renders) is fork


NEW = ids(CLOSE, LINE, ASK, 30, CLOSE, LINE, REPLY)
SHORT = ids(*KNOWN.answered, *NEW)
TURN = ids(*LEAD, REPLY, 40, 41, *NEW)
FULL = ids(50, 51, REPLY, 40, 41, *NEW)


def test_a_seam_is_what_stands_behind_the_answer_in_both_derivations():
    found = seam(KNOWN, SHORT, TURN, FULL)
    assert isinstance(found, Seam)
    assert found.turn.tolist() == [REPLY, 40, 41]
    assert found.after.tolist() == NEW.tolist()


@pytest.mark.parametrize(
    ("short", "turn", "full"),
    [
        (SHORT[1:], TURN, FULL),
        (KNOWN.answered, TURN, FULL),
        (SHORT, TURN[1:], FULL),
        (SHORT, ids(*LEAD, *NEW), FULL),  # the answer is not rendered
        (SHORT, ids(*TURN[:-1], 9), FULL),
        (SHORT, TURN, ids(*FULL[:-1], 9)),
        (SHORT, TURN, ids(50, 51, REPLY, 40, 41, 8, *NEW)),  # something stands between answer and tail
        (SHORT, TURN, NEW),
        (SHORT, ids(*LEAD, REPLY, 40, 41, CLOSE, LINE, ASK, 31, CLOSE, LINE, REPLY), FULL),
    ],
)
def test_derivations_that_disagree_give_no_seam(short, turn, full):
    assert seam(KNOWN, short, turn, full) is Fork.TEMPLATE


@pytest.mark.parametrize(
    ("before", "now", "holds"),
    [
        (ids(50, 51, REPLY), FULL, True),
        (ids(50, 52, REPLY), FULL, False),
        (ids(50, REPLY), FULL, False),  # one id more stands there now
        (ids(50, 51, 52, REPLY), FULL, False),
        (ids(50, 51), FULL, False),  # it had no generation prompt
    ],
)
def test_appended_means_no_id_more_and_none_less(before, now, holds):
    assert appended(KNOWN.opening, Seam(ids(REPLY, 40, 41), NEW), before, now) is holds


def test_a_template_without_generation_prompt_is_appended_to():
    assert appended(ids(), Seam(ids(40), NEW), ids(50), ids(50, 40, *NEW))


@pytest.mark.parametrize(
    ("last", "ending", "expected"),
    [
        (CLOSE, Ending(), NEW[1:].tolist()),
        (41, Ending(cut=True), NEW.tolist()),
        (CLOSE, Ending(cut=True), NEW[1:].tolist()),  # it ended at the very limit
        (41, Ending(), Fork.END_OF_TURN),
        (41, Ending(cut=True, thought=True), Fork.CUT_THOUGHT),
        (CLOSE, Ending(stop_string=True), Fork.STOP_STRING),
    ],
)
def test_what_was_sampled_decides_where_the_tail_begins(last, ending, expected):
    found = tail(NEW, last, ending)
    assert (found if isinstance(found, Fork) else found.tolist()) == expected


def test_a_tail_is_never_empty():
    assert tail(ids(CLOSE), CLOSE, Ending()) is Fork.TEMPLATE
