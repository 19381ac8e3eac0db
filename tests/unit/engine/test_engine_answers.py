"""vLLM's answers, decoded."""

import json
import math

import numpy as np
import pytest

from polar_capture.chat import ToolCall, Usage
from polar_capture.engine.answers import NotAnAnswer, decode


def answer(*, message=None, ids=(21, 22, 901), logprobs=(-0.1, -0.2, -0.3), prompt=(1, 2, 3), **choice) -> bytes:
    content = None if logprobs is None else {"content": [{"token": "t", "logprob": p, "bytes": None} for p in logprobs]}
    first = {
        "index": 0,
        "message": message or {"role": "assistant", "content": "ab"},
        "finish_reason": "stop",
        "token_ids": None if ids is None else list(ids),
        "logprobs": content,
    }
    body = {
        "model": "toy",
        "choices": [first | choice],
        "usage": {"prompt_tokens": 3, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 2}},
        "prompt_token_ids": None if prompt is None else list(prompt),
    }
    return json.dumps(body).encode()


@pytest.mark.parametrize(
    ("ids", "logprobs"), [([21, 22, 901], [-0.1, -0.2, -0.3]), ([21, 22], [-0.1, -0.2])], ids=["with eos", "without"]
)
def test_o_capture_01_ids_and_logprobs_are_what_the_engine_said(ids, logprobs):
    completion = decode(answer(ids=ids, logprobs=logprobs))
    choice = completion.choices[0]
    assert (choice.token_ids, choice.logprobs, completion.prompt_token_ids.tolist()) == (ids, logprobs, [1, 2, 3])
    assert completion.usage == Usage(3, 3, cached_tokens=2)


@pytest.mark.parametrize("missing", ["prompt", "ids"])
def test_o_capture_03_missing_ids_are_none(missing):
    completion = decode(answer(**{missing: None}))
    assert (completion.prompt_token_ids is None, completion.choices[0].token_ids is None) == (
        missing == "prompt",
        missing == "ids",
    )


@pytest.mark.parametrize("bad", [-1, 2**31, 1.5, "7", True], ids=repr)
def test_o_export_05_ids_beyond_32_bits_count_as_missing(bad):
    assert decode(answer(ids=[21, bad, 901])).choices[0].token_ids is None
    assert decode(answer(prompt=[bad])).prompt_token_ids is None


@pytest.mark.parametrize("prompt", [[], [0], [2**31 - 1, 0, 7]], ids=repr)
def test_prompt_ids_are_an_int32_array(prompt):
    ids = decode(answer(prompt=prompt)).prompt_token_ids
    assert (ids.dtype, ids.tolist()) == (np.int32, prompt)


@pytest.mark.parametrize(
    "prompt", ["[1, 2,\n3]", "[2147483648]", "[99999999999999999999]", "[1e3]", "[[1]]", "{}", "7"]
)
def test_prompt_ids_that_are_written_otherwise(prompt):
    body = answer().replace(b'"prompt_token_ids": [1, 2, 3]', b'"prompt_token_ids": ' + prompt.encode())
    ids = decode(body).prompt_token_ids
    assert (None if ids is None else ids.tolist()) == ([1, 2, 3] if "\n" in prompt else None)


def test_reasoning_and_tool_calls():
    call = {"id": "c", "type": "function", "function": {"name": "ls", "arguments": '{"b": 1,"a":"é"}'}}
    message = {"role": "assistant", "content": None, "reasoning": "hm", "tool_calls": [call]}
    got = decode(answer(message=message, finish_reason="tool_calls")).choices[0]
    assert (got.message.content, got.message.reasoning) == (None, "hm")
    assert got.message.tool_calls == [ToolCall("c", "ls", '{"b": 1,"a":"é"}')]
    assert decode(answer(message={"reasoning_content": "old"})).choices[0].message.reasoning == "old"


@pytest.mark.parametrize(
    ("said", "understood"),
    [
        ("stop", "stop"),
        ("length", "length"),
        ("abort", "abort"),
        ("repetition", "repetition"),
        (None, "abort"),
        ("error", "abort"),
        ("function_call", "tool_calls"),
    ],
)
def test_finish_reasons(said, understood):
    assert decode(answer(finish_reason=said)).choices[0].finish_reason == understood


def test_logprob_objects_are_kept_only_where_they_are_shown():
    assert decode(answer()).choices[0].logprobs_content is None
    shown = decode(answer(), show_logprobs=True).choices[0].logprobs_content
    assert json.loads(shown)[0] == {"token": "t", "logprob": -0.1, "bytes": None}
    assert decode(answer(logprobs=None), show_logprobs=True).choices[0].logprobs_content is None


@pytest.mark.parametrize("bad", [math.nan, None, -math.inf])
def test_logprobs_that_are_no_numbers_become_nan(bad):
    got = decode(answer(logprobs=(-0.1, bad, -0.3)), show_logprobs=True).choices[0]
    assert math.isnan(got.logprobs[1])
    assert got.logprobs[::2] == [-0.1, -0.3]
    assert got.logprobs_content is not None


def test_lone_surrogates_in_an_answer_are_replaced():
    raw = answer().replace(b'"ab"', b'"a\\ud83d"')
    got = decode(raw).choices[0]
    assert (got.message.content, got.token_ids) == ("a�", [21, 22, 901])


@pytest.mark.parametrize(
    "body",
    [
        b"<html>login</html>",
        b"",
        b"[]",
        b"null",
        b'{"choices": []}',
        b'{"error": "x"}',
        b'{"choices": [7]}',
        b'{"choices"',
        b"\xff",
    ],
)
def test_what_is_no_answer_is_refused_without_quoting_it(body):
    with pytest.raises(NotAnAnswer) as caught:
        decode(body)
    assert "html" not in str(caught.value)


@pytest.mark.parametrize("usage", [None, {}, {"prompt_tokens": None, "completion_tokens": None}, {"prompt_tokens": 3}])
def test_what_usage_leaves_out_is_counted_by_the_ids(usage):
    body = json.loads(answer()) | {"usage": usage}
    assert decode(json.dumps(body).encode()).usage == Usage(3, 3)


@pytest.mark.parametrize("indexes", [(1,), (0, 0), (None, None), (5, 3), (-1,)])
def test_choices_that_are_misnumbered_count_by_position(indexes):
    body = json.loads(answer())
    (only,) = body["choices"]
    body["choices"] = [only | ({} if index is None else {"index": index}) for index in indexes]
    for choice, index in zip(body["choices"], indexes, strict=True):
        if index is None:
            del choice["index"]
    assert [choice.index for choice in decode(json.dumps(body).encode()).choices] == list(range(len(indexes)))


def test_usage_is_counted_where_the_server_tells_none():
    body = json.loads(answer())
    del body["usage"]
    assert decode(json.dumps(body).encode()).usage == Usage(3, 3)
