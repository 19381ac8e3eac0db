"""Limits of a session: when they are reached, and the answer in the engine's place."""

import msgspec
import pytest

from polar_capture.chat import ChatRequest
from polar_capture.outcomes import Reason
from polar_capture.session_limits import Budget, LimitEngine, Limits, of_metadata


@pytest.mark.parametrize(
    ("limits", "turns", "tokens", "now", "reached"),
    [
        (Limits(), 1000, 10**9, 1e9, None),
        (Limits(turns=3), 2, 0, 0.0, None),
        (Limits(turns=3), 3, 0, 0.0, "3 turns"),
        (Limits(tokens=10), 1, 9, 0.0, None),
        (Limits(tokens=10), 1, 10, 0.0, "10 sampled tokens"),
        (Limits(seconds=5), 0, 0, 104.9, None),
        (Limits(seconds=5), 0, 0, 105.0, "5 seconds"),
        (Limits(turns=1, tokens=1), 1, 1, 0.0, "1 turns"),
    ],
)
def test_a_limit_is_reached_when_no_turn_is_left(limits, turns, tokens, now, reached):
    assert Budget(limits, started_at=100.0, turns=turns, tokens=tokens).reached(now) == reached


def test_each_turn_is_spent():
    budget = Budget(Limits(turns=2))
    budget.spend(5)
    budget.spend(0)
    assert (budget.turns, budget.tokens) == (2, 5)


@pytest.mark.parametrize("value", [{"turns": "3"}, {"steps": 3}, 3])
def test_metadata_that_holds_no_limits_is_refused(value):
    with pytest.raises(msgspec.ValidationError):
        of_metadata({"limits": value})


def test_metadata_without_limits_has_none():
    assert of_metadata(None) == of_metadata({}) == of_metadata({"limits": None}) == Limits()


async def test_the_answer_ends_a_turn_and_holds_nothing_to_train_on():
    answer = await LimitEngine(object(), "3 turns").generate(ChatRequest(model="m"))
    (choice,) = answer.completion.choices
    assert choice.finish_reason == "stop"
    assert "3 turns" in choice.message.content
    assert (choice.token_ids, choice.message.tool_calls) == (None, [])
    assert answer.check(choice) == (Reason.LIMIT_REACHED, [])
