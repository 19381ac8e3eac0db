"""The canonical message list: prefix-safe, strict templates welcome."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polar_capture.chat import MediaPart, Message, TextPart, ToolCall
from polar_capture.chat_normal import normalise

IMAGE = MediaPart("image_url", {"url": "data:image/png;base64,AA=="})


def roles(messages: list[Message]) -> list[str]:
    return [message.role for message in messages]


def test_leading_systems_become_one():
    out = normalise([Message("system", "A"), Message("system", "B"), Message("user", "hi")])
    assert [(m.role, m.content) for m in out] == [("system", "A\n\nB"), ("user", "hi")]


def test_o_req_anthropic_02_a_late_system_message_stays_in_place_as_a_wrapped_user_message():
    out = normalise([Message("system", "S"), Message("user", "hi"), Message("system", "Agent kinds: none.")])
    assert roles(out) == ["system", "user"]
    assert out[1].content == "hi\n\n<system>\nAgent kinds: none.\n</system>"


def test_o_req_anthropic_09_neighbours_of_one_role_merge_in_order():
    out = normalise(
        [
            Message("user", "A"),
            Message("user", "B"),
            Message("assistant", "C"),
            Message("assistant", "D"),
            Message("user", "E"),
        ]
    )
    assert roles(out) == ["user", "assistant", "user"]
    assert [m.content for m in out] == ["A\n\nB", "C\n\nD", "E"]


def test_tool_results_never_merge():
    calls = [ToolCall("1", "f", "{}"), ToolCall("2", "f", "{}")]
    out = normalise(
        [
            Message("user", "go"),
            Message("assistant", tool_calls=calls),
            Message("tool", "a", tool_call_id="1"),
            Message("tool", "b", tool_call_id="2"),
            Message("user", "and"),
        ]
    )
    assert roles(out) == ["user", "assistant", "tool", "tool", "user"]


def test_o_req_anthropic_03_nothing_stands_between_calls_and_their_results():
    calls = [ToolCall("1", "f", "{}"), ToolCall("2", "f", "{}")]
    history = [Message("user", "go"), Message("assistant", tool_calls=calls)]
    results = [Message("tool", "a", tool_call_id="1"), Message("tool", "b", tool_call_id="2")]
    for told in (
        [Message("user", "wait"), *results, Message("user", "and")],
        [results[0], Message("user", "wait"), results[1], Message("user", "and")],
        [*results, Message("user", "wait"), Message("user", "and")],
    ):
        out = normalise([*history, *told])
        assert [(m.role, m.content) for m in out[2:]] == [("tool", "a"), ("tool", "b"), ("user", "wait\n\nand")]
    out = normalise([*history, Message("system", "S"), *results])
    assert roles(out) == ["user", "assistant", "tool", "tool", "user"]


def test_a_result_behind_the_next_turn_moves_nothing():
    call = Message("assistant", tool_calls=[ToolCall("1", "f", "{}")])
    late = [Message("user", "wait"), Message("assistant", "ok"), Message("tool", "a", tool_call_id="1")]
    assert normalise([Message("user", "go"), call, *late])[2:4] == normalise(late)[:2]
    split = [call, Message("assistant", "said"), Message("user", "wait"), Message("tool", "a", tool_call_id="1")]
    assert roles(normalise([Message("user", "go"), *split])) == ["user", "assistant", "tool", "user"]


def test_o_capture_11_text_has_one_form_whatever_the_client_sent():
    assert normalise([Message("user", [TextPart("hi")])]) == normalise([Message("user", "hi")])
    history = [Message("user", "one"), Message("assistant", "two")]
    with_image = normalise([*history, Message("user", [TextPart("see"), IMAGE])])
    assert with_image[:2] == normalise(history)
    assert with_image[2].content == [TextPart("see"), IMAGE]


@pytest.mark.parametrize("first", ["text", [TextPart("text"), IMAGE]])
def test_media_survives_a_merge(first):
    out = normalise([Message("user", first), Message("user", [IMAGE, TextPart("end")])])
    assert len(out) == 1
    assert isinstance(out[0].content, list)
    assert out[0].content[-2:] == [IMAGE, TextPart("end")]


_texts = st.text(max_size=4)
_messages = st.lists(
    st.one_of(
        st.builds(Message, st.sampled_from(["system", "user"]), _texts),
        st.builds(Message, st.just("assistant"), _texts, reasoning=st.none() | _texts),
    ),
    max_size=8,
)


@given(_messages, _messages)
def test_what_stands_before_an_assistant_message_never_changes(history, more):
    turn = Message("assistant", "sampled")
    before = normalise([*history, Message("user", "q")])
    after = normalise([*history, Message("user", "q"), turn, Message("user", "next"), *more])
    assert after[: len(before)] == before


@given(_messages)
def test_strict_templates_accept_it_and_the_input_stays(messages):
    copies = [Message(m.role, m.content, m.reasoning) for m in messages]
    out = normalise(messages)
    assert messages == copies
    assert all(a != b for a, b in zip(roles(out), roles(out)[1:], strict=False))
    assert "system" not in roles(out)[1:]
