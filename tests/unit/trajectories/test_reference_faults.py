"""What the reference corrupts silently (cases A to G of the survey), each with the outcome it should have."""

import numpy as np
import pytest

from tests.unit.trajectories.builders import (
    ASSISTANT,
    END,
    NEWLINE,
    build,
    call,
    ids,
    mask,
    opening,
    said,
    then,
    trained,
)

FIRST = opening(20)


def test_case_a_text_and_tool_call_replayed_as_two_turns_never_holds_the_tool_call_twice():
    text, tool = [50, 51], [70, 71, END]
    split_turn = [*text, END, NEWLINE, 900, ASSISTANT, NEWLINE, *tool]
    samples, _ = build(call("c0", FIRST, text + tool), call("c1", FIRST + split_turn + then(60), [52, END]))
    assert [trained(s) for s in samples] == [text + tool, [52, END]]
    assert [ids(s).count(70) for s in samples] == [1, 1]
    assert samples[1].verdict == "split"
    assert [(b.break_, b.at) for b in samples[1].breaks] == [("retokenised", len(FIRST) + 2)]


def test_case_a_the_same_turn_replayed_as_one_is_exact():
    turn = [50, 51, 70, 71, END]
    (sample,), _ = build(call("c0", FIRST, turn), call("c1", FIRST + turn + then(60), [52, END]))
    assert sample.verdict == "exact"
    assert ids(sample).count(70) == 1


def test_case_b_thinking_dropped_at_a_new_user_turn_starts_a_sample_with_the_context_that_was_sampled_in():
    think = [30, 33, 31]
    two = [*FIRST, *think, 50, END, *then(60)]
    three = [*FIRST, 50, END, *then(60), 51, END, *then(21, role=10)]
    samples, _ = build(
        call("c0", FIRST, [*think, 50, END]),
        call("c1", two, [30, 35, 31, 51, END]),
        call("c2", three, [30, 36, 31, 52, END]),
    )
    assert [ids(s) for s in samples] == [[*two, 30, 35, 31, 51, END], [*three, 30, 36, 31, 52, END]]
    assert [(b.break_, b.at) for b in samples[1].breaks] == [("thinking_dropped", 8)]


@pytest.mark.parametrize("first_delivered", [False, None])
def test_case_c_of_a_retry_the_delivered_attempt_trains_with_all_that_follows(first_delivered):
    samples, report = build(
        call("c0", FIRST, [40, END], delivered=first_delivered),
        call("c1", FIRST, [50, END], delivered=True, attempt=1),
        call("c2", [*FIRST, 50, END, *then(60)], [51, END], delivered=True),
        call("c3", [*FIRST, 50, END, *then(60), 51, END, *then(61)], [52, END], delivered=True),
    )
    (sample,) = samples
    assert trained(sample) == [50, END, 51, END, 52, END]
    assert report.breaks == {"retry": 1}
    assert report.reasons == {"superseded_retry": 1}
    assert report.delivered_fraction == 1.0


def test_case_c_the_attempt_that_was_continued_counts_even_when_it_came_first():
    samples, report = build(
        call("c0", FIRST, [40, END], delivered=None),
        call("c1", FIRST, [50, END], delivered=None, attempt=1),
        call("c2", [*FIRST, 40, END, *then(60)], [51, END]),
    )
    assert [trained(s) for s in samples] == [[40, END, 51, END]]
    assert report.reasons == {"superseded_retry": 1}


def test_case_c_two_delivered_samples_of_one_prompt_are_two_branches():
    samples, report = build(call("c0", FIRST, [40, END], delivered=True), call("c1", FIRST, [50, END], delivered=True))
    assert [trained(s) for s in samples] == [[40, END], [50, END]]
    assert report.reasons == {}


def test_case_c_equal_attempts_at_temperature_0_train_once():
    (sample,), report = build(
        call("c0", FIRST, [50, END], delivered=False),
        call("c1", FIRST, [50, END], delivered=True, attempt=1),
        call("c2", [*FIRST, 50, END, *then(60)], [51, END], delivered=True),
    )
    assert [s.call_id for s in sample.turn_spans] == ["c1", "c2"]
    assert report.reasons == {"superseded_retry": 1}


EMPTY_THINK = [30, 198, 31, 198]


def thinking_off(turns):
    """Qwen3 with thinking off: the generation prompt ends with an empty think block that the replay does not have."""
    rows, history = [], opening(20)
    for i in range(turns):
        turn = [50 + i, END]
        rows.append(call(f"c{i}", history + EMPTY_THINK, turn))
        history = history + turn + then(60 + i)
    return rows


def test_case_d_the_empty_think_block_splits_by_default_and_says_so():
    samples, report = build(*thinking_off(3))
    assert [trained(s) for s in samples] == [[50, END], [51, END], [52, END]]
    assert [s.verdict for s in samples] == ["exact", "split", "split"]
    assert report.breaks == {"thinking_dropped": 2}
    for sample, row in zip(samples, thinking_off(3), strict=True):
        assert ids(sample) == [*row.prompt_ids.tolist(), *row.completion_ids.tolist()]


def test_case_d_it_is_stitched_on_request_where_the_same_block_is_lost_every_time():
    (sample,), _ = build(*thinking_off(3), stitch=True)
    assert sample.verdict == "repaired"
    assert trained(sample) == [50, END, 51, END, 52, END]
    blocks = opening(20) + EMPTY_THINK + [50, END] + then(60) + EMPTY_THINK + [51, END] + then(61)
    assert ids(sample) == blocks + EMPTY_THINK + [52, END]
    assert mask(sample).count(1) == 6


def test_case_d_one_join_is_proved_only_by_the_request_that_asked_for_no_thinking():
    rows = thinking_off(2)
    assert len(build(*rows, stitch=True)[0]) == 2
    off = said(("user", "hi"), answer={"content": "a"}, chat_template_kwargs={"enable_thinking": False})
    after = said(("user", "hi"), ("assistant", "a"), ("tool", "r"))
    assert len(build(*rows, stitch=True, conversations={"c0": off, "c1": after})[0]) == 1


def test_case_d_blocks_that_differ_are_not_stitched():
    rows = thinking_off(3)
    rows[1].prompt_ids[-2] = 32
    assert [s.verdict for s in build(*rows, stitch=True)[0]] == ["exact", "split", "split"]


def test_case_e_arguments_written_anew_break_the_chain_and_are_named():
    sampled, replayed = [70, 81, 82, 71, END], [70, 83, 71, END]
    call_as = {"role": "assistant", "content": None}
    before = {**call_as, "tool_calls": [{"function": {"name": "f", "arguments": '{"b": 1,"a":"é"}'}}]}
    after = {**call_as, "tool_calls": [{"function": {"name": "f", "arguments": '{"a": "é", "b": 1}'}}]}
    samples, _ = build(
        call("c0", FIRST, sampled),
        call("c1", FIRST + replayed + then(60), [52, END]),
        conversations={"c0": said(("user", "x"), answer=before), "c1": said(("user", "x"), after, ("tool", "r"))},
    )
    assert [trained(s) for s in samples] == [sampled, [52, END]]
    assert [(b.break_, b.at) for b in samples[1].breaks] == [("arguments_reserialised", 9)]


def test_case_f_every_choice_of_an_answer_is_a_branch():
    samples, _ = build(
        call("a", FIRST, [40, END], seq=0, choice_index=0),
        call("b", FIRST, [50, END], seq=0, choice_index=1),
        call("c", [*FIRST, 50, END, *then(60)], [51, END], seq=1),
    )
    assert [trained(s) for s in samples] == [[40, END], [50, END, 51, END]]
    assert all(not s.breaks for s in samples)


def test_case_f_an_empty_reply_in_mid_chain_loses_nothing_behind_it():
    samples, report = build(
        call("c0", FIRST, [50, END]),
        call("c1", [*FIRST, 50, END, *then(60)], []),
        call("c2", [*FIRST, 50, END, *then(60), END, *then(61)], [52, END]),
    )
    assert [trained(s) for s in samples] == [[50, END, 52, END]]
    assert (report.empty_calls, report.breaks) == (1, {"empty_turn": 1})


def test_case_f_a_truncated_turn_that_was_thrown_away_is_named():
    samples, _ = build(
        call("c0", FIRST, [50, 51, 52], finish_reason="length"),
        call("c1", [*opening(20)[:-3], 900, 10, 21, END, NEWLINE, 900, ASSISTANT, NEWLINE], [53, END]),
    )
    assert [b.break_ for b in samples[1].breaks] == ["truncated_turn"]
    assert [trained(s) for s in samples] == [[50, 51, 52], [53, END]]


def test_case_f_a_truncated_turn_that_the_template_closed_goes_on_exactly():
    cut = [50, 51, 52]
    (sample,), _ = build(
        call("c0", FIRST, cut, finish_reason="length"), call("c1", FIRST + cut + [END] + then(60), [53, END])
    )
    assert sample.verdict == "exact"
    assert trained(sample) == [*cut, 53, END]
    (sample,), report = build(
        call("c0", FIRST, cut, finish_reason="length"),
        call("c1", FIRST + cut + [END] + then(60), [53, END]),
        truncated="mask",
    )
    assert trained(sample) == [53, END]
    assert report.masked == {"truncated": 1}


@pytest.mark.parametrize("value", [-9999.0, float("nan"), 0.5, float("-inf")])
def test_case_g_a_logprob_that_is_none_is_not_trained_on(value):
    (sample,), report = build(call("c0", FIRST, [50, END], logprobs=[-0.5, value]))
    assert sample.verdict == "not_trainable"
    assert sample.loss_mask.sum() == 0
    assert np.isnan(sample.logprobs).all()
    assert report.reasons == {"logprob_invalid": 1}


def test_a_logprob_that_rounding_puts_above_zero_trains_as_the_capture_says():
    (sample,), report = build(call("c0", [1, 2], [3, 901], logprobs=[5e-7, -0.1]))
    assert (sample.verdict, sample.loss_mask.tolist(), report.reasons) == ("exact", [0, 0, 1, 1], {})


def test_the_span_of_a_side_call_that_a_turn_continues_says_why_it_does_not_train():
    (sample,), _ = build(
        call("c0", FIRST, [50, END], kind="side", trainable=False, reason="side"),
        call("c1", [*FIRST, 50, END, *then(60)], [51, END]),
    )
    assert [(span.trained, span.reason) for span in sample.turn_spans] == [(False, "side"), (True, None)]


@pytest.mark.parametrize(("logprobs", "reason"), [("none", "logprobs_missing"), ([-0.5], "length_mismatch")])
def test_case_g_logprobs_that_do_not_fit_are_not_trained_on(logprobs, reason):
    row = call("c0", FIRST, [50, END], logprobs=[-0.5] if logprobs != "none" else [-0.5, -0.5])
    if logprobs == "none":
        row.logprobs = None
    (sample,), report = build(row)
    assert sample.verdict == "not_trainable"
    assert report.reasons == {reason: 1}
