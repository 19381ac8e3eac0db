"""Every harness, in every dialect it speaks: thought, words, tools that really run, a second turn, the last words."""

import pytest

from polar_capture.harnesses import presets
from tests.harness.scenarios import ALL, PROOF, TwoTurns, all_chained, two_turns

SIDE_CALLS = {"gemini-cli": {"aux:router"}, "opencode": {"aux:title"}}
"""Helpers that a harness calls besides the task."""

FORKS_ON_RESUME = {
    "qwen-code": "a resumed process builds its first message anew (facts §5)",
    "gemini-cli": "a resumed process builds its first message anew (facts §5)",
}
OTHER_WAYS = [
    (preset.name, dialect) for preset in presets.PRESETS for dialect in preset.ways if dialect != preset.dialect
]


def check_first(harness: str, found: TwoTurns) -> None:
    ran = found.first
    assert ran.status == 0, ran.output
    assert ran.proof == PROOF, ran.output
    turns = ran.turns
    assert len(turns) == (1 if harness == "aider" else 3)
    assert [call["status"] for call in ran.calls] == ["ok"] * len(ran.calls)
    assert {call["agent"] for call in ran.sides} <= SIDE_CALLS.get(harness, set())
    assert {call["agent"] for call in turns} == {"main"}
    assert {call["user_turn"] is not None for call in turns} == {True}
    assert len({call["user_turn"] for call in turns}) == 1
    assert all(call["trainable"] for call in turns), [call["reason"] for call in turns]
    assert not any(call["trainable"] for call in ran.sides)
    assert [call["parent_call_id"] for call in turns] == [None, *(call["id"] for call in turns[:-1])]
    assert all_chained(turns)
    for turn in turns:
        assert len(turn["completion_ids"]) == len(turn["logprobs"]) > 0
    assert ran.session["harness"] == harness
    assert ran.session["harness_version"] == presets.get(harness).package.version or ran.session["harness_version"]
    assert ran.session["status"] == "completed"


@pytest.mark.parametrize("harness", ALL)
def test_a_task_and_a_second_user_turn(harness: str) -> None:
    found = two_turns(harness)
    check_first(harness, found)
    if found.second is None:
        return
    assert found.second.status == 0, found.second.output
    earlier, now = found.first.turns, found.second.turns
    assert not any(call["trainable"] for call in found.second.sides)
    assert len(now) == len(earlier) + 1
    assert now[-1]["agent"] == "main"
    assert now[-1]["user_turn"] != earlier[-1]["user_turn"]
    assert all_chained(now[-2:]) is (harness not in FORKS_ON_RESUME)


@pytest.mark.slow
@pytest.mark.parametrize(("harness", "dialect"), OTHER_WAYS)
def test_its_other_dialects(harness: str, dialect: str) -> None:
    found = two_turns(harness, dialect, resume=False)
    check_first(harness, found)
    assert {call["dialect"] for call in found.first.turns} == {dialect}
