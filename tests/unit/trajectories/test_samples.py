"""Invariants of both builders, for any session."""

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polar_capture.outcomes import Reason
from polar_capture.trajectories.eligibility import reasons
from polar_capture.trajectories.links import link_session
from polar_capture.trajectories.options import BuildOptions
from polar_capture.trajectories.samples import sample_id
from tests.unit.trajectories.builders import END, build, call, opening, then

LOST = [None, Reason.SIDE, Reason.ABORTED, Reason.MIXED_POLICY, Reason.UNDELIVERED, Reason.LATE_CALL, Reason.REDACTED]


@st.composite
def sessions(draw):
    """Sessions that grow, fork, retry, edit and lose calls."""
    rows, wholes = [], []
    for i in range(draw(st.integers(1, 9))):
        if not i:
            prompt = opening(20)
        else:
            base_prompt, base_completion = wholes[draw(st.integers(0, i - 1))]
            way = draw(st.sampled_from(["continue", "continue", "continue", "retry", "edit", "new"]))
            prompt = {
                "continue": base_prompt + base_completion + then(60 + draw(st.integers(0, 1))),
                "retry": base_prompt,
                "edit": [*base_prompt[:2], 77, *base_prompt[3:], *base_completion, *then(60)],
                "new": opening(20 + i),
            }[way]
        completion = draw(st.lists(st.integers(50, 52), max_size=3))
        completion = [*completion, END] if completion else completion
        reason = draw(st.sampled_from(LOST)) if draw(st.integers(0, 4)) == 0 else None
        rows.append(
            call(
                f"c{i}",
                prompt,
                completion,
                agent=draw(st.sampled_from(["main", "main", "sub:a"])),
                attempt=draw(st.sampled_from([0, 0, 0, 1])),
                delivered=draw(st.sampled_from([True, None, False])),
                finish_reason=draw(st.sampled_from(["stop", "length"])),
                policy_version=draw(st.sampled_from([None, 1, 2, 3])),
                trainable=reason is None,
                reason=reason,
                kind="side" if reason is Reason.SIDE else "turn",
            )
        )
        wholes.append((prompt, completion))
    return rows


@settings(max_examples=300, deadline=None)
@given(
    sessions(), st.sampled_from(["prefix_merging", "per_request"]), st.booleans(), st.sampled_from([None, None, 0, 2])
)
def test_each_sampled_token_trains_once_or_has_a_reason_and_spans_are_the_stored_calls(rows, strategy, stitch, oldest):
    samples, report = build(*rows, strategy=strategy, stitch=stitch, oldest_policy=oldest)
    known = {row.id: row for row in rows}
    times = {row.id: 0 for row in rows}
    for sample in samples:
        assert len(sample.input_ids) == len(sample.loss_mask) == len(sample.logprobs)
        covered = np.zeros(len(sample.input_ids), np.uint8)
        for span in sample.turn_spans:
            row = known[span.call_id]
            assert sample.input_ids[span.start : span.end].tolist() == row.completion_ids.tolist()
            assert (sample.loss_mask[span.start : span.end] == int(span.trained)).all()
            if span.trained:
                covered[span.start : span.end] = 1
                times[span.call_id] += 1
                assert sample.logprobs[span.start : span.end].tolist() == row.logprobs.tolist()
            if sample.verdict != "repaired":  # the context is the prompt it was sampled from
                assert sample.input_ids[: span.start].tolist() == row.prompt_ids.tolist()
        assert (covered == sample.loss_mask).all()
        assert (np.isnan(sample.logprobs) == (sample.loss_mask == 0)).all()
        assert (sample.verdict == "not_trainable") == (not sample.loss_mask.any())
    assert max(times.values()) <= 1
    tree = link_session(rows)
    why = reasons(tree, BuildOptions(oldest_policy=oldest))
    for sample in samples:
        for span in sample.turn_spans:
            assert span.reason == why.get(span.call_id)
            assert span.trained <= (span.reason is None)
    for link in tree.links.values():
        excused = any(why.get(above.row.id) is Reason.REDACTED for above in tree.path(link))
        assert bool(times[link.row.id]) == (
            bool(len(link.row.completion_ids)) and link.row.id not in why and not excused
        )
    assert report.trained_tokens == sum(int(s.loss_mask.sum()) for s in samples)
    assert sum(report.verdicts.values()) == len(samples) == report.samples


@settings(max_examples=100, deadline=None)
@given(sessions(), st.randoms(use_true_random=False))
def test_the_order_of_reading_changes_nothing_and_building_again_gives_the_same_rows(rows, shuffle: random.Random):
    def shape(samples):
        return [(s.id, s.verdict, s.input_ids.tolist(), s.loss_mask.tolist(), s.breaks) for s in samples]

    expected = shape(build(*rows)[0])
    shuffled = list(rows)
    shuffle.shuffle(shuffled)
    assert shape(build(*shuffled)[0]) == expected


def test_ids_are_those_of_strategy_and_last_call():
    first = build(call("c0", opening(20), [50, END]))[0][0]
    grown = build(call("c0", opening(20), [50, END]), call("c1", [*opening(20), 50, END, *then(60)], [51, END]))[0][0]
    assert first.id == sample_id("prefix_merging", "c0")
    assert grown.id == sample_id("prefix_merging", "c1") != sample_id("per_request", "c1")


def test_per_request_makes_one_sample_a_call():
    samples, _ = build(
        call("c0", opening(20), [50, END]),
        call("c1", [*opening(20), 50, END, *then(60)], [51, END], finish_reason="length"),
        strategy="per_request",
    )
    assert [(s.prompt_len, len(s.input_ids), s.finish_reason) for s in samples] == [(8, 10, None), (19, 21, "length")]
    assert [s.verdict for s in samples] == ["exact", "exact"]


def test_what_follows_a_redacted_call_is_left_out_with_it():
    samples, report = build(
        call("c0", opening(20), [50, END], trainable=False, reason="redacted"),
        call("c1", [*opening(20), 50, END, *then(60)], [51, END]),
    )
    assert samples == []
    assert report.reasons == {"redacted": 1}


@pytest.mark.parametrize("reason", ["logprobs_missing", "ids_missing", "redacted"])
def test_a_reason_that_means_missing_data_can_not_be_admitted(reason):
    with pytest.raises(ValueError, match=f"can't admit {reason}"):
        BuildOptions(admit=frozenset({Reason(reason)}))


def test_helpers_train_when_admitted():
    (sample,), _ = build(call("c0", opening(20), [50, END], kind="side"), admit=frozenset({Reason.SIDE}))
    assert sample.verdict == "exact"
