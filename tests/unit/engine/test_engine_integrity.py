"""What makes an answer not trainable, and what is only odd."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polar_capture.chat import Choice, Message, ToolCall, Usage
from polar_capture.engine.integrity import check
from polar_capture.outcomes import Reason, Warning

PROMPT = [1, 900, 10]
CALL = ToolCall("c", "ls", "{}")


def choice(content="ab", ids=(21, 22, 901), logprobs=(-0.1, -0.2, -0.3), finish="stop", calls=(), **more) -> Choice:
    return Choice(
        index=0,
        message=Message("assistant", content, tool_calls=list(calls)),
        finish_reason=finish,
        token_ids=None if ids is None else list(ids),
        logprobs=None if logprobs is None else list(logprobs),
        **more,
    )


def usage(prompt=3, sampled=3) -> Usage:
    return Usage(prompt, sampled)


def versions(*names):
    return [{"version": name, "start": i, "end": i + 1} for i, name in enumerate(names)]


@pytest.mark.parametrize(
    ("given_choice", "prompt", "counted", "reason"),
    [
        (choice(), PROMPT, usage(), None),
        (choice(ids=None), PROMPT, usage(), Reason.IDS_MISSING),
        (choice(), None, usage(), Reason.IDS_MISSING),
        (choice(), [], usage(), Reason.IDS_MISSING),
        (choice(logprobs=None), PROMPT, usage(), Reason.LOGPROBS_MISSING),
        (choice(ids=[], logprobs=None), PROMPT, usage(sampled=0), None),
        (choice(logprobs=(-0.1, -0.2)), PROMPT, usage(), Reason.LENGTH_MISMATCH),
        (choice(ids=(21, 22), logprobs=(-0.1, -0.2)), PROMPT, usage(), Reason.LENGTH_MISMATCH),
        (choice(), PROMPT[:2], usage(), Reason.LENGTH_MISMATCH),
        (choice(logprobs=(-0.1, math.nan, -0.3)), PROMPT, usage(), Reason.LOGPROB_INVALID),
        (choice(logprobs=(-0.1, 0.1, -0.3)), PROMPT, usage(), Reason.LOGPROB_INVALID),
        (choice(logprobs=(-0.1, -9999.0, -0.3)), PROMPT, usage(), Reason.LOGPROB_INVALID),
        (choice(logprobs=(-0.1, -math.inf, -0.3)), PROMPT, usage(), Reason.LOGPROB_INVALID),
        (choice(logprobs=(-0.1, 1e-7, -0.0)), PROMPT, usage(), None),
        (choice(finish="abort"), PROMPT, usage(), Reason.ABORTED),
        (choice(weight_versions=versions("v7", "v8")), PROMPT, usage(), Reason.MIXED_POLICY),
        (choice(weight_versions=versions("v7", "v7")), PROMPT, usage(), None),
    ],
)
def test_reasons(given_choice, prompt, counted, reason):
    assert check(given_choice, prompt, counted)[0] is reason


def test_o_capture_01_a_usage_that_fits_neither_side_is_a_proxys_own():
    assert check(choice(), PROMPT, usage(100, 20)) == (None, [])


def test_the_usage_of_several_choices_counts_them_together():
    assert check(choice(), PROMPT, usage(sampled=6), choices=2)[0] is None


def test_o_capture_09_only_zeros_are_suspect_and_one_zero_is_not():
    eight = choice(ids=range(8), logprobs=[0.0] * 8)
    assert check(eight, PROMPT, usage(sampled=8)) == (None, [Warning.LOGPROBS_ALL_ZERO])
    seven = choice(ids=range(7), logprobs=[0.0] * 7)
    assert check(seven, PROMPT, usage(sampled=7)) == (None, [])
    mixed = choice(ids=range(8), logprobs=[0.0] * 7 + [-0.1])
    assert check(mixed, PROMPT, usage(sampled=8)) == (None, [])


def test_o_capture_10_a_double_bos_is_told_and_kept():
    assert check(choice(), [1, 1, 900, 10], usage(4)) == (None, [Warning.DOUBLE_BOS])


CUT = [Warning.CUT_TOOL_CALL]


@pytest.mark.parametrize(
    ("given_choice", "limit", "endings", "warnings"),
    [
        # vLLM says tool_calls, not length, for a call that max_tokens cut right behind.
        (choice(None, calls=[CALL], finish="tool_calls"), 3, {902}, CUT),
        (choice(None, calls=[CALL], finish="tool_calls"), 3, (), CUT),
        (choice(None, calls=[CALL], finish="tool_calls"), 3, {901}, []),
        (choice(None, calls=[CALL], finish="tool_calls"), 4, {902}, []),
        (choice(None, calls=[CALL], finish="stop"), 3, {902}, CUT),
        (choice(None, calls=[CALL], finish="stop", stop_reason="x"), 3, {902}, []),
        (choice(None, calls=[CALL], finish="tool_calls"), None, (), []),
        # Cut inside a call, it stays raw text.
        (choice('<tool_call>\n{"name": "ls", "argu', finish="length"), 3, (), CUT),
        (choice("<tool_call>{}</tool_call> and on", finish="length"), 3, (), []),
        (choice("<tool_call>{}</tool_call><tool_call>", finish="length"), 3, (), CUT),
        (choice('[TOOL_CALLS]ls{"di', finish="length"), 3, (), CUT),
        (choice("just text", finish="length"), 3, (), []),
        (choice("I write <tool_call> in prose", finish="stop"), 9, (), []),
        (choice(None, calls=[CALL], finish="length"), 3, (), CUT),
    ],
)
def test_cut_tool_calls(given_choice, limit, endings, warnings):
    assert check(given_choice, PROMPT, usage(), limit=limit, endings=endings) == (None, warnings)


@given(st.lists(st.floats(min_value=-50, max_value=0), max_size=40), st.lists(st.integers(0, 2**31 - 1), min_size=1))
def test_sound_answers_are_trainable(logprobs, prompt):
    sound = choice(ids=range(len(logprobs)), logprobs=logprobs)
    assert check(sound, prompt, usage(len(prompt), len(logprobs)))[0] is None
