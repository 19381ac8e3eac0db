"""The faults reported in the field for merging, each as a session of few tokens."""

import pytest

from tests.unit.trajectories.builders import build, call, ids, mask, opening, probabilities, then, trained

FIRST = opening(20)


def test_o_merge_01_the_newline_of_the_template_is_context_and_not_sampled():
    turn = [50, 51, 901]
    (sample,), report = build(
        call("c0", FIRST, turn, logprobs=[-0.1, -0.2, -0.3]),
        call("c1", FIRST + turn + then(60), [52, 901], logprobs=[-0.1, -0.2]),
    )
    assert ids(sample) == FIRST + turn + then(60) + [52, 901]
    assert mask(sample) == [0] * 8 + [1] * 3 + [0] * 9 + [1] * 2
    assert probabilities(sample) == [-0.1, -0.2, -0.3, -0.1, -0.2]
    assert sample.verdict == "exact"
    assert sample.prompt_len == 8
    assert report.delivered_fraction == 1.0


def test_o_merge_02_same_text_in_other_ids_is_not_joined():
    samples, report = build(
        call("c0", FIRST, [71, 72, 901]), call("c1", [*FIRST, 73, 74, 901, *then(61, role=10)], [54, 901])
    )
    assert [ids(s) for s in samples] == [
        [*FIRST, 71, 72, 901],
        [*FIRST, 73, 74, 901, *then(61, role=10), 54, 901],
    ]
    assert [trained(s) for s in samples] == [[71, 72, 901], [54, 901]]
    (broken,) = samples[1].breaks
    assert (broken.call_id, broken.break_, broken.at, broken.tokens) == ("c1", "retokenised", 8, 3)
    assert [s.verdict for s in samples] == ["exact", "split"]
    assert report.breaks == {"retokenised": 1}


@pytest.mark.parametrize("order", [[0, 1, 2, 3], [3, 1, 2, 0], [2, 3, 0, 1]])
def test_o_merge_04_agents_that_take_turns_are_two_chains(order):
    one, two = opening(20), opening(21)
    rows = [
        call("c0", one, [50, 901]),
        call("c1", two, [51, 901]),
        call("c2", [*one, 50, 901, *then(22, role=10)], [52, 901]),
        call("c3", [*two, 51, 901, *then(23, role=10)], [53, 901]),
    ]
    samples, _ = build(*[rows[i] for i in order])
    assert [ids(s) for s in samples] == [
        [*one, 50, 901, *then(22, role=10), 52, 901],
        [*two, 51, 901, *then(23, role=10), 53, 901],
    ]
    assert [s.loss_mask.sum() for s in samples] == [4, 4]
    assert [s.verdict for s in samples] == ["exact", "exact"]


def compaction():
    turn = [50, 51, 901]
    return [
        call("c0", FIRST, turn),
        call("c1", FIRST + turn + then(60), [52, 901]),
        call("c2", opening(20, 29), [80, 81, 901]),
        call("c3", [900, 10, 80, 81, 901, 198, 900, 11, 198], [55, 901]),
    ]


def test_o_merge_05_nothing_is_joined_across_a_compaction_and_nothing_lost():
    samples, report = build(*compaction())
    assert [trained(s) for s in samples] == [[50, 51, 901, 52, 901], [80, 81, 901], [55, 901]]
    assert [s.branch for s in samples] == [0, 1, 2]
    assert {s.session_id for s in samples} == {"s"}
    assert [s.verdict for s in samples] == ["exact"] * 3
    assert report.breaks == {"new_conversation": 1, "compaction": 1}
    assert report.trained_tokens == report.sampled_tokens == 10


def test_o_merge_06_a_template_that_drops_reasoning_breaks_the_chain():
    samples, _ = build(
        call("c0", FIRST, [30, 33, 34, 31, 50, 901]),
        call("c1", [*FIRST, 50, 901, *then(27, role=10)], [30, 35, 31, 51, 901]),
    )
    assert [ids(s) for s in samples] == [
        [*FIRST, 30, 33, 34, 31, 50, 901],
        [*FIRST, 50, 901, *then(27, role=10), 30, 35, 31, 51, 901],
    ]
    assert [s.loss_mask.sum() for s in samples] == [6, 5]
    assert [(b.break_, b.at) for b in samples[1].breaks] == [("thinking_dropped", 8)]
    assert samples[1].verdict == "split"


def test_o_merge_08_helpers_are_no_part_of_the_trajectory():
    turn = [50, 51, 901]
    (sample,), report = build(
        call("c0", opening(90), [91, 901], kind="side", trainable=False, reason="side", agent="aux:quota"),
        call("c1", FIRST, turn),
        call("c2", opening(92), [93, 901], kind="side", agent="aux:title"),
        call("c3", FIRST + turn + then(60), [52, 901]),
    )
    assert [span.call_id for span in sample.turn_spans] == ["c1", "c3"]
    assert report.reasons == {"side": 2}
    assert report.delivered_fraction == 1.0


def test_o_merge_09_two_equal_first_calls_are_no_chain():
    samples, _ = build(call("c0", FIRST, [50, 901]), call("c1", FIRST, [51, 901]))
    assert [ids(s) for s in samples] == [[*FIRST, 50, 901], [*FIRST, 51, 901]]


def edited():
    turn = [50, 51, 901]
    return [
        call("c0", FIRST, turn),
        call("c1", FIRST + turn + then(60), [52, 901]),
        call("c2", FIRST + turn + then(99) + [52, 901] + then(22, role=10), [56, 901]),
    ]


def test_o_merge_10_an_edited_history_is_a_branch():
    samples, _ = build(*edited())
    turn = [50, 51, 901]
    assert [ids(s) for s in samples] == [
        FIRST + turn + then(60) + [52, 901],
        FIRST + turn + then(99) + [52, 901] + then(22, role=10) + [56, 901],
    ]
    assert [trained(s) for s in samples] == [[*turn, 52, 901], [56, 901]]
    assert [(b.break_, b.at, b.tokens) for b in samples[1].breaks] == [("history_edited", 14, 8)]


def test_o_capture_03_nothing_is_joined_across_a_call_without_ids():
    samples, report = build(
        call("c0", FIRST, [50, 901]),
        call("c1", None, None, trainable=False, reason="ids_missing", completion_tokens=3),
        call("c2", [*FIRST, 50, 901, *then(60)], [52, 901]),
    )
    assert [ids(s) for s in samples] == [[*FIRST, 50, 901], [*FIRST, 50, 901, *then(60), 52, 901]]
    assert [trained(s) for s in samples] == [[50, 901], [52, 901]]
    assert [s.verdict for s in samples] == ["exact", "split"]
    assert report.breaks == {"capture_gap": 1}
    assert report.reasons == {"ids_missing": 1}
    assert report.delivered_fraction == 4 / 7


def test_o_capture_06_a_lost_call_is_named_and_nothing_is_joined_across_it():
    samples, report = build(call("c0", FIRST, [50, 901]), call("c2", [*FIRST, 50, 901, *then(60)], [52, 901]))
    assert report.missing_seqs == [1]
    assert [s.verdict for s in samples] == ["exact", "split"]
    assert report.breaks == {"capture_gap": 1}


def test_o_capture_07_aborted_generations_stay_out():
    samples, report = build(
        call("c0", FIRST, [21], finish_reason="abort"),
        call("c1", None, None, status="error", trainable=False, reason="upstream_error"),
    )
    assert samples == []
    assert report.reasons == {"aborted": 1, "upstream_error": 1}
    (sample,), report = build(call("c0", FIRST, [21], finish_reason="abort"), admit=frozenset({"aborted"}))
    assert trained(sample) == [21]


def test_o_capture_08_mixed_weights_stay_out_unless_admitted_and_spans_keep_their_version():
    rows = [
        call("c0", FIRST, [50, 901], policy_version=7),
        call(
            "c1",
            [*FIRST, 50, 901, *then(60)],
            [51, 901],
            policy_version=7,
            weight_versions=[{"version": "v7", "start": 0, "end": 1}, {"version": "v8", "start": 1, "end": 2}],
        ),
        call("c2", [*FIRST, 50, 901, *then(60), 51, 901, *then(61)], [52, 901], policy_version=8),
    ]
    (sample,), report = build(*rows)
    assert [(s.call_id, s.policy_version, s.trained) for s in sample.turn_spans] == [
        ("c0", 7, True),
        ("c1", 7, False),
        ("c2", 8, True),
    ]
    assert sample.policy_versions == (7, 8)
    assert report.reasons == {"mixed_policy": 1}
    (sample,), _ = build(*rows, admit=frozenset({"mixed_policy"}))
    assert trained(sample) == [50, 901, 51, 901, 52, 901]


def test_o_capture_09_logprobs_of_zero_are_kept_counted_and_masked_when_asked():
    suspect = call("c0", FIRST, list(range(21, 29)), logprobs=[0.0] * 8, warnings=["logprobs_all_zero"])
    (sample,), report = build(suspect)
    assert probabilities(sample) == [0.0] * 8
    assert report.suspect_calls == 1
    (sample,), report = build(suspect, suspect="mask")
    assert sample.verdict == "not_trainable"
    assert report.masked == {"suspect": 1}


def test_o_export_02_an_empty_call_makes_no_row_and_is_counted():
    (sample,), report = build(call("c0", [1, 2], []), call("c1", [1, 2, 3], [21]))
    assert trained(sample) == [21]
    assert sample.verdict == "exact"
    assert report.empty_calls == 1
    assert report.breaks == {"empty_turn": 1}


def test_o_export_07_every_sampled_token_trains_exactly_once():
    for rows in (compaction(), edited()):
        samples, report = build(*rows)
        seen = [
            (span.call_id, i)
            for s in samples
            for span in s.turn_spans
            for i in range(span.end - span.start)
            if s.loss_mask[span.start + i]
        ]
        assert sorted(seen) == sorted((row.id, i) for row in rows for i in range(len(row.completion_ids)))
        assert len(seen) == report.trained_tokens == sum(len(row.completion_ids) for row in rows)
