"""The request body that vLLM gets."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polar_capture.chat import ChatRequest, MediaPart, Message, Sampling, TextPart, Tool, ToolCall, ToolChoice
from polar_capture.engine.sampling import explicit
from polar_capture.engine.wire import (
    Abilities,
    abilities,
    arguments_object,
    chat_body,
    encode,
    tokenize_body,
    with_prompt_ids,
)

NEW = abilities("0.32.0")


def sent(chat: ChatRequest, can: Abilities = NEW):
    return json.loads(chat_body(chat, model="toy", sampling=explicit(chat.sampling, {}), can=can))


def user(text="hi") -> Message:
    return Message("user", text)


def test_ids_and_logprobs_are_always_asked_for_and_nothing_streams():
    body = sent(ChatRequest(messages=[user()]))
    assert (body["return_token_ids"], body["logprobs"], body["top_logprobs"], body["stream"]) == (True, True, 0, False)
    assert body["model"] == "toy"
    for absent in ("stream_options", "tools", "tool_choice", "include_reasoning", "kv_transfer_params", "max_tokens"):
        assert absent not in body


@pytest.mark.parametrize(("asked", "top"), [(None, 0), (0, 0), (5, 5)])
def test_o_req_chat_06_the_clients_logprob_settings_change_only_the_alternatives(asked, top):
    body = sent(ChatRequest(messages=[user()], sampling=Sampling(top_logprobs=asked)))
    assert (body["logprobs"], body["top_logprobs"], body["return_token_ids"]) == (True, top, True)


def test_o_req_anthropic_07_past_reasoning_is_sent_where_the_server_reads_it():
    chat = ChatRequest(messages=[Message("assistant", "x", reasoning="I need a listing.")])
    new, unknown = sent(chat)["messages"][0], sent(chat, abilities(None))["messages"][0]
    assert new == {"role": "assistant", "content": "x", "reasoning": "I need a listing."}
    assert unknown["reasoning_content"] == unknown["reasoning"] == "I need a listing."


def test_o_req_chat_04_no_empty_tool_calls_and_no_null_content_without_calls():
    call = ToolCall("c1", "ls", "{}")
    chat = ChatRequest(messages=[Message("assistant", "x"), Message("assistant", None, tool_calls=[call])])
    plain, calling = sent(chat)["messages"]
    assert "tool_calls" not in plain
    assert calling["content"] is None
    assert calling["tool_calls"] == [{"id": "c1", "type": "function", "function": {"name": "ls", "arguments": "{}"}}]
    assert sent(ChatRequest(messages=[Message("assistant")]))["messages"][0]["content"] == ""


@pytest.mark.parametrize(
    ("arguments", "rendered"),
    [
        ("", "{}"),
        ("   ", "{}"),
        ('{"dir": ', "{}"),
        ("[1]", "{}"),
        ('"x"', "{}"),
        ("null", "{}"),
        ('{"a": "\ud83d"}', "{}"),
        ('{"b": 1,"a":"é"}', '{"b": 1,"a":"é"}'),
        (' {"a":1} ', ' {"a":1} '),
    ],
)
def test_o_req_chat_05_replayed_arguments_are_an_object_and_byte_equal_where_they_were_one(arguments, rendered):
    assert arguments_object(arguments) == rendered


def test_tools_and_tool_choice():
    tool = Tool("ls", "List.", {"type": "object"}, strict=True)
    chat = ChatRequest(messages=[user()], tools=[tool, Tool("now")], tool_choice=ToolChoice("function", "ls"))
    body = sent(chat)
    assert body["tools"] == [
        {
            "type": "function",
            "function": {"name": "ls", "description": "List.", "parameters": {"type": "object"}, "strict": True},
        },
        {"type": "function", "function": {"name": "now", "parameters": {"type": "object", "properties": {}}}},
    ]
    assert body["tool_choice"] == {"type": "function", "function": {"name": "ls"}}
    assert (
        sent(ChatRequest(messages=[user()], tools=[tool], tool_choice=ToolChoice("required")))["tool_choice"]
        == "required"
    )


def test_a_tool_choice_without_tools_is_left_out_since_vllm_refuses_it():
    body = sent(ChatRequest(messages=[user()], tool_choice=ToolChoice("auto"), parallel_tool_calls=False))
    assert "tool_choice" not in body
    assert "parallel_tool_calls" not in body


def test_media_parts_keep_their_form():
    image = MediaPart("image_url", {"url": "data:image/png;base64,AA"})
    body = sent(ChatRequest(messages=[Message("user", [TextPart("see"), image])]))
    assert body["messages"][0]["content"] == [
        {"type": "text", "text": "see"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}},
    ]


def test_o_req_chat_07_structured_output_is_sent_as_it_came():
    form = {
        "type": "json_schema",
        "json_schema": {"name": "r", "strict": True, "schema": {"additionalProperties": False}},
    }
    assert sent(ChatRequest(messages=[user()], response_format=form))["response_format"] == form


@pytest.mark.parametrize(
    ("thinking", "effort", "version", "kwargs", "word"),
    [
        (None, None, "0.32.0", None, None),
        (False, None, "0.32.0", {"enable_thinking": False}, None),
        (True, "xhigh", "0.32.0", {"enable_thinking": True, "reasoning_effort": "xhigh"}, "xhigh"),
        (True, "xhigh", "0.20.1", {"enable_thinking": True, "reasoning_effort": "high"}, "high"),
        (None, "minimal", "0.20.1", {"enable_thinking": True, "reasoning_effort": "low"}, "low"),
        (None, "none", "0.32.0", {"enable_thinking": False}, None),
        (False, "high", "0.32.0", {"enable_thinking": False, "reasoning_effort": "high"}, "high"),
        (None, "ultra", "0.32.0", {"enable_thinking": True}, None),
    ],
)
def test_thinking_and_effort_reach_the_template_in_chat_and_in_tokenize(thinking, effort, version, kwargs, word):
    chat = ChatRequest(messages=[user()], thinking=thinking, effort=effort)
    body = sent(chat, abilities(version))
    counted = json.loads(tokenize_body(chat, model="toy", can=abilities(version)))
    assert body.get("chat_template_kwargs") == counted.get("chat_template_kwargs") == kwargs
    assert body.get("reasoning_effort") == word
    assert "reasoning_effort" not in counted


def test_prefill_continues_the_last_message():
    body = sent(ChatRequest(messages=[user(), Message("assistant", "I can")], continue_final=True))
    assert (body["continue_final_message"], body["add_generation_prompt"]) == (True, False)


def test_exact_prompt_ids_are_sent_beside_the_messages():
    chat = ChatRequest(messages=[user()])
    body = json.loads(with_prompt_ids(chat_body(chat, model="toy", sampling={}, can=NEW), [1, 2, 3]))
    assert body["kv_transfer_params"] == {"prompt_token_ids": [1, 2, 3]}
    assert body["messages"]


@pytest.mark.parametrize(
    ("version", "asks"), [("0.32.0", False), ("0.33.0", True), ("1.0.0rc1", True), (None, False), ("dev", False)]
)
def test_weight_versions_are_asked_of_servers_that_know_them(version, asks):
    assert ("return_weight_versions" in sent(ChatRequest(messages=[user()]), abilities(version))) is asks


@pytest.mark.parametrize(
    ("text", "wire"), [("cut \ud83d", "cut �"), ("\ude00 tail", "� tail"), ("\ud83d\ude00", "😀"), ("a\x00b", "a\x00b")]
)
def test_lone_surrogates_never_reach_the_engine(text, wire):
    body = chat_body(
        ChatRequest(messages=[user(text)], tools=[Tool("f", text)]), model="toy", sampling={}, can=NEW
    ).decode()
    assert json.loads(body)["messages"][0]["content"] == wire
    assert json.loads(body)["tools"][0]["function"]["description"] == wire


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(), lambda x: st.lists(x) | st.dictionaries(st.text(), x)
    )
)
def test_every_json_value_is_encoded(value):
    assert json.loads(encode(value)) == value


@given(st.text(st.characters(), max_size=30))
def test_every_text_is_encoded_as_utf8(text):
    assert "\ufffd" in json.loads(encode([text]))[0] or json.loads(encode([text]))[0] == text
