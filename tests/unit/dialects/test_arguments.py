"""Tool arguments as objects: what was sampled goes out as it is or wrapped, and comes back as it was."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polar_capture.dialects.arguments import DEEPEST_ARGUMENTS, argument_string, object_json, wrapped
from polar_capture.dialects.json_body import DEEPEST, decode_object


def deep(levels: int) -> str:
    return '{"a":' * levels + "1" + "}" * levels


@pytest.mark.parametrize("said", ["", " \n", "null", "{}"])
def test_no_arguments_are_an_empty_object(said: str):
    assert object_json(said) == b"{}"


@pytest.mark.parametrize("said", ['{ "b": 1.50,\n "a": 12345678901234567890123}', '{"a":"\\u0068\\/👍"}', deep(150)])
def test_an_object_stays_as_it_was_sampled(said: str):
    assert object_json(said) == said.encode()


@pytest.mark.parametrize(
    "said",
    ['{"a": ', "[1]", '"x"', "3", '{"a":1}}', '{"a":"\\ud800"}', '{"\\udfff":1}', "{" * 2000, deep(DEEPEST), "nul"],
)
def test_what_is_no_object_is_wrapped_and_comes_back_as_it_was(said: str):
    assert object_json(said) is None
    sent = json.loads(msgspec.json.encode(wrapped(said)))
    assert sent == {"raw_arguments": said}
    assert argument_string(sent) == said


def test_a_lone_surrogate_itself_is_shown_as_a_question_mark():
    assert object_json('{"a":"\ud800"}') is None
    assert wrapped('{"a":"\ud800"}') == {"raw_arguments": '{"a":"?"}'}


def test_the_deepest_arguments_can_come_back_inside_a_request():
    deepest = max(levels for levels in range(1, DEEPEST) if object_json(deep(levels)))
    assert deepest == DEEPEST_ARGUMENTS
    inside = '{"request":{"contents":[{"parts":[{"functionCall":{"args":' + deep(deepest) + "}}]}]}}"
    assert decode_object(inside.encode())


@given(st.dictionaries(st.text(max_size=5), st.integers() | st.text(max_size=5), max_size=3))
def test_any_object_comes_back_as_compact_json(value: dict[str, object]):
    assert json.loads(argument_string(value)) == value


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=30))
def test_any_string_comes_back(said: str):
    sent = object_json(said)
    back = argument_string(json.loads(sent) if sent is not None else wrapped(said))
    assert back == said if sent is None else json.loads(back) == json.loads(sent)
