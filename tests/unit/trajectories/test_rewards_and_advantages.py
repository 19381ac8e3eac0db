"""Which reward counts, how it is spread over turns, and the advantages of a group."""

import math
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polar_capture.trajectories.advantages import group_advantages, share
from polar_capture.trajectories.credit import CreditOptions, RewardRow, SessionRewards, counted, spread
from tests.unit.trajectories.builders import END, build, call, opening, then


def reward(value, *, name="outcome", call_id=None, at=0.0, id="r"):
    return RewardRow(id=id, session_id="s", call_id=call_id, name=name, value=value, created_at=at)


@pytest.mark.parametrize(
    ("given", "outcome"),
    [
        ([], None),
        ([reward(1.0)], 1.0),
        ([reward(1.0, at=1), reward(0.0, at=2)], 0.0),
        ([reward(0.0, at=2), reward(1.0, at=1)], 0.0),
        ([reward(1.0, id="a"), reward(0.5, id="b")], 0.5),
        ([reward(1.0, call_id="c0")], None),
        ([reward(1.0, name="format")], None),
    ],
)
def test_the_latest_outcome_of_the_session_counts_and_none_is_not_zero(given, outcome):
    assert counted(given, CreditOptions()).outcome == outcome


def test_components_are_weighted_and_a_missing_one_leaves_no_reward():
    options = CreditOptions(components=(("outcome", 1.0), ("format", 0.25)))
    assert counted([reward(1.0), reward(2.0, name="format")], options).outcome == 1.5
    assert counted([reward(1.0)], options).outcome is None


def chain():
    first, second = opening(20), [*opening(20), 50, END, *then(60)]
    return build(
        call("c0", first, [50, END]),
        call("c1", second, [51, END]),
        call("c2", [*second, 51, END, *then(61)], [52, END]),
    )[0][0]


@pytest.mark.parametrize(
    ("credit", "rewards", "advantages"),
    [
        ("outcome", [None] * 3, [None] * 3),
        ("last-turn", [0.0, 0.5, 1.0], [0.0, 0.5, 2.0]),
        ("discounted", [0.25 + 0.25, 0.5 + 0.5, 1.0], [0.5 + 0.25, 1.0 + 0.5, 2.0]),
    ],
)
def test_credit_over_turns_follows_its_formula(credit, rewards, advantages):
    sample = chain()
    spread(sample.turn_spans, SessionRewards(1.0, {"c1": 0.5}), 2.0, CreditOptions(credit=credit, gamma=0.5))
    assert [s.reward for s in sample.turn_spans] == rewards
    assert [s.advantage for s in sample.turn_spans] == advantages


def test_a_session_without_reward_has_none_on_its_turns():
    sample = chain()
    spread(sample.turn_spans, SessionRewards(None), None, CreditOptions(credit="discounted", gamma=0.5))
    assert [s.reward for s in sample.turn_spans] == [None] * 3


@pytest.mark.parametrize("gamma", [-0.1, 1.1])
def test_a_discount_outside_0_to_1_is_refused(gamma):
    with pytest.raises(ValueError, match="discount"):
        CreditOptions(gamma=gamma)


@given(st.dictionaries(st.text(min_size=1), st.floats(-5, 5), min_size=2))
def test_the_formulas(rewards):
    values = list(rewards.values())
    mean, std = statistics.fmean(values), statistics.stdev(values)
    for method, formula in {
        "grpo": lambda r: (r - mean) / (std + 1e-4),
        "dr-grpo": lambda r: r - mean,
        "rloo": lambda r: r - (sum(values) - r) / (len(values) - 1),
    }.items():
        found, report = group_advantages("g", rewards, method)
        assert report.rewarded == len(values)
        for session, r in rewards.items():
            assert math.isclose(found[session], formula(r), abs_tol=1e-6)
    assert set(group_advantages("g", rewards, "none")[0].values()) == {None}


def test_o_export_03_a_session_without_reward_has_no_part_in_the_statistics():
    found, report = group_advantages("g", {"a": 1.0, "b": None, "c": 0.0}, "dr-grpo")
    assert found == {"a": 0.5, "b": None, "c": -0.5}
    assert (report.mean, report.rewarded, report.members, report.missing) == (0.5, 2, 3, ["b"])


def test_zero_variance_and_single_members_are_marked():
    found, report = group_advantages("g", {"a": 0.3, "b": 0.3}, "grpo")
    assert found == {"a": 0.0, "b": 0.0}
    assert report.zero_variance
    found, report = group_advantages("g", {"a": 1.0}, "grpo")
    assert found == {"a": None}
    assert report.too_few


def test_o_export_04_a_missing_member_is_named_and_shifts_no_other_group():
    _, report = group_advantages("g2", {"a": 1.0, "c": 0.0, "d": 0.0}, "grpo", {"a": 0, "c": 2, "d": 3})
    assert report.missing_indices == [1]


@pytest.mark.parametrize(
    ("sharing", "expected"), [("full", [6.0, 6.0, 6.0]), ("split", [3.0, 0.0, 3.0]), ("tokens", [4.0, 0.0, 2.0])]
)
def test_a_sessions_advantage_over_its_branches(sharing, expected):
    assert share(6.0, [20, 0, 10], sharing) == expected
    assert share(None, [20, 0, 10], sharing) == [None] * 3
