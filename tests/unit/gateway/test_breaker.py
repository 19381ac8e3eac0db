"""The breaker: what counts, what does not, how a session gets another chance."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polar_capture.breaker import OverflowBreaker
from polar_capture.engine.refusals import fault_of
from polar_capture.faults import FaultKind


class Clock:
    def __init__(self) -> None:
        self.time = 0.0

    def __call__(self) -> float:
        return self.time


def after(events: str, limit: int = 3) -> bool:
    """Whether a session is stopped after these events: `o` an overflow, `a` an answer."""
    breaker = OverflowBreaker(limit, Clock())
    for event in events:
        (breaker.overflowed if event == "o" else breaker.answered)("s")
    return breaker.refusal("s") is not None


@pytest.mark.parametrize(
    ("events", "stopped"),
    [
        ("", False),
        ("oo", False),
        ("ooo", True),
        ("ooaao", False),  # two answers make up for one overflow
        ("oaoaoaoao", True),  # an answered summary between does not help
        ("oaaoaaoaaoaa", False),
        ("aaaaooo", True),  # earlier answers earn nothing
    ],
)
def test_overflows_in_a_row_stop_a_session(events: str, stopped: bool) -> None:
    assert after(events) is stopped


@given(st.text("oa", max_size=60))
def test_zero_never_stops(events: str) -> None:
    assert not after(events, limit=0)


def test_sessions_do_not_share_their_overflows() -> None:
    breaker = OverflowBreaker(1)
    breaker.overflowed("s1")
    assert breaker.refusal("s1") is not None
    assert breaker.refusal("s2") is None


def test_a_stopped_session_may_try_again_after_a_minute() -> None:
    clock = Clock()
    breaker = OverflowBreaker(1, clock)
    breaker.overflowed("s")
    clock.time = 59
    assert breaker.refusal("s") is not None
    clock.time = 61
    assert breaker.refusal("s") is None
    assert breaker.refusal("s") is None


def test_its_words_are_no_overflow() -> None:
    breaker = OverflowBreaker(1)
    breaker.overflowed("s")
    fault = breaker.refusal("s")
    assert fault is not None
    assert fault.kind is FaultKind.INVALID
    body = b'{"error": {"message": "%s", "type": "BadRequestError", "code": 400}}' % fault.message.encode()
    assert fault_of(400, {}, body).kind is FaultKind.INVALID
