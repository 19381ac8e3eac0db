"""Messages of Chat Completions → messages of the internal form."""

from typing import Any

import pytest

from polar_capture.chat import MediaPart, Message, TextPart
from tests.unit.dialects.openai_chat.build import LS, USER, ask

IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA==", "detail": "low"}}


def test_o_req_chat_01_late_instructions_stay_in_place_as_system() -> None:
    messages = [
        {"role": "system", "content": "Be terse."},
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": "b"},
        {"role": "developer", "content": "Answer BLUE."},
        {"role": "user", "content": "c"},
    ]
    read = ask(messages=messages).chat.messages
    assert [(m.role, m.content) for m in read] == [
        ("system", "Be terse."),
        ("user", "a"),
        ("assistant", "b"),
        ("system", "Answer BLUE."),
        ("user", "c"),
    ]


def test_o_req_chat_04_empty_tool_calls_and_null_content() -> None:
    messages = [
        USER,
        {"role": "assistant", "content": "x", "tool_calls": []},
        USER,
        {"role": "assistant", "content": None, "tool_calls": [call("c1", "ls", "{}")]},
        {"role": "tool", "tool_call_id": "c1", "content": "y"},
    ]
    read = ask(messages=messages, tools=[LS]).chat.messages
    assert read[1] == Message("assistant", content="x")
    assert read[3].content is None
    assert [c.id for c in read[3].tool_calls] == ["c1"]
    assert read[4] == Message("tool", content="y", tool_call_id="c1")


@pytest.mark.parametrize("empty", ["", None])
def test_o_req_chat_05_empty_arguments_are_an_empty_object(empty: str | None) -> None:
    messages = [USER, {"role": "assistant", "content": None, "tool_calls": [call("c1", "now", empty)]}]
    assert ask(messages=messages).chat.messages[1].tool_calls[0].arguments == "{}"


@pytest.mark.parametrize("role", ["system", "user", "assistant"])
def test_o_capture_11_text_has_one_form(role: str) -> None:
    plain = ask(messages=[USER, {"role": role, "content": "a\nb"}])
    parts = ask(messages=[USER, {"role": role, "content": [{"type": "text", "text": t} for t in "ab"]}])
    assert plain.chat.messages == parts.chat.messages


def test_o_capture_11_an_image_changes_its_own_message_only() -> None:
    with_image = ask(messages=[USER, {"role": "user", "content": [{"type": "text", "text": "see"}, IMAGE]}])
    assert with_image.chat.messages[0].content == "hi"
    assert with_image.chat.messages[1].content == [TextPart("see"), MediaPart("image_url", IMAGE["image_url"])]


@pytest.mark.parametrize("kind", ["input_audio", "video_url", "audio_url"])
def test_media_pass_as_they_came(kind: str) -> None:
    content = [{"type": kind, kind: {"data": "AA==", "format": "wav"}}]
    assert ask(messages=[{"role": "user", "content": content}]).chat.messages[0].content == [
        MediaPart(kind, {"data": "AA==", "format": "wav"})
    ]


def test_a_tool_result_may_hold_an_image() -> None:
    messages = [USER, {"role": "tool", "tool_call_id": "c", "content": [IMAGE]}]
    assert ask(messages=messages).chat.messages[1].content == [MediaPart("image_url", IMAGE["image_url"])]


def test_an_unknown_part_is_said_to_be_left_out() -> None:
    content = [
        {"type": "file", "file": {"filename": "a.pdf", "file_data": "AA"}},
        {"type": "text", "text": "sum it up"},
    ]
    call = ask(messages=[{"role": "user", "content": content}])
    assert call.chat.messages[0].content == "[file omitted: a.pdf]\nsum it up"
    assert call.unmapped == ["$.messages[0].content[0]"]
    content[0]["file"]["file_data"] = "data:application/pdf;base64,AA=="
    assert (
        ask(messages=[{"role": "user", "content": content}])
        .chat.messages[0]
        .content.startswith("[file omitted: a.pdf, application/pdf]")
    )


@pytest.mark.parametrize("names", [["reasoning_content"], ["reasoning"], ["reasoning_content", "reasoning"]])
def test_reasoning_comes_back_under_either_name(names: list[str]) -> None:
    thoughts = dict.fromkeys(names, "\nwell ")
    assert (
        ask(messages=[USER, {"role": "assistant", "content": "x", **thoughts}]).chat.messages[1].reasoning == "\nwell "
    )


def test_reasoning_details_stand_in_for_missing_reasoning() -> None:
    details = [{"type": "reasoning.text", "text": "we"}, {"type": "reasoning.text", "text": "ll"}, {"type": "x"}]
    message = {"role": "assistant", "content": "x", "reasoning_details": details}
    call = ask(messages=[USER, message])
    assert call.chat.messages[1].reasoning == "well"
    assert call.unmapped == []


def test_ids_of_ours_are_echoed() -> None:
    message = {"role": "assistant", "id": "msg_1", "content": None, "tool_calls": [call("c1", "ls"), call("c2", "ls")]}
    assert ask(messages=[USER, message]).chat.messages[1].echo == ["msg_1", "c1", "c2"]


@pytest.mark.parametrize("arguments", ['{"b":  1,\n"a":"\\u0068\\/"}', "not json", "[1]", '"x"'])
def test_arguments_are_kept_byte_by_byte(arguments: str) -> None:
    message = {"role": "assistant", "content": None, "tool_calls": [call("c1", "ls", arguments)]}
    assert ask(messages=[USER, message]).chat.messages[1].tool_calls[0].arguments == arguments


def test_refusals_are_text() -> None:
    said = ask(messages=[USER, {"role": "assistant", "content": None, "refusal": "no"}])
    parts = ask(messages=[USER, {"role": "assistant", "content": [{"type": "refusal", "refusal": "no"}]}])
    assert said.chat.messages[1].content == parts.chat.messages[1].content == "no"


@pytest.mark.parametrize("last", [{"prefix": True}, {"partial": True}])
def test_prefill_by_message(last: dict[str, Any]) -> None:
    assert ask(messages=[USER, {"role": "assistant", "content": "So", **last}]).chat.continue_final
    assert not ask(messages=[USER, {"role": "assistant", "content": "So", **last}, USER]).chat.continue_final


def test_prefill_by_request() -> None:
    assert ask(messages=[USER, {"role": "assistant", "content": "So"}], continue_final_message=True).chat.continue_final
    assert not ask(continue_final_message=True).chat.continue_final


def call(call_id: str, name: str, arguments: str | None = "{}") -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}
