"""Chat Completions requests → the internal form."""

from typing import Any

import pytest
from openai.types.chat import (
    ChatCompletionAssistantMessageParam,
    ChatCompletionToolMessageParam,
    ChatCompletionUserMessageParam,
)
from openai.types.chat.completion_create_params import CompletionCreateParamsBase

from polar_capture.chat import Tool, ToolChoice
from polar_capture.dialects.fidelity import Fields
from polar_capture.dialects.openai_chat import fields
from polar_capture.faults import CallError, FaultKind
from tests.unit.dialects.openai_chat.build import LS, USER, ask, raw


@pytest.mark.parametrize(("options", "wanted"), [({"include_usage": True}, True), ({}, False), (None, False)])
def test_o_req_chat_02_stream_options_shape_the_answer_only(options: Any, wanted: bool) -> None:
    call = ask(stream=True, stream_options=options)
    assert call.stream
    assert call.extra.include_usage is wanted
    assert call.unmapped == []


@pytest.mark.parametrize(
    ("limits", "effective"),
    [
        ({"max_completion_tokens": 50, "max_tokens": 900}, 50),
        ({"max_tokens": 900}, 900),
        ({"max_completion_tokens": None, "max_tokens": 7}, 7),
        ({"max_tokens": 50.0}, 50),
        ({}, None),
    ],
)
def test_o_req_chat_03_the_newer_limit_wins(limits: dict[str, Any], effective: int | None) -> None:
    assert ask(**limits).chat.sampling.max_tokens == effective


@pytest.mark.parametrize(
    ("asked", "top"),
    [
        ({"logprobs": False, "top_logprobs": None}, None),
        ({}, None),
        ({"logprobs": True}, 0),
        ({"logprobs": True, "top_logprobs": None}, 0),
        ({"logprobs": True, "top_logprobs": 5}, 5),
    ],
)
def test_o_req_chat_06_logprob_settings_concern_the_view_only(asked: dict[str, Any], top: int | None) -> None:
    assert ask(**asked).chat.sampling.top_logprobs == top


def test_o_req_chat_07_response_format_is_kept_whole() -> None:
    schema = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}
    form = {
        "type": "json_schema",
        "json_schema": {"name": "r", "strict": True, "schema": {**schema, "additionalProperties": False}},
    }
    assert ask(response_format=form).chat.response_format == form
    assert ask(response_format={"type": "json_object"}).chat.response_format == {"type": "json_object"}
    assert ask(response_format={"type": "text"}).chat.response_format is None


def test_an_unknown_response_format_is_listed() -> None:
    call = ask(response_format={"type": "grammar", "grammar": "x"})
    assert call.chat.response_format is None
    assert call.unmapped == ["$.response_format"]


def test_tools_and_their_strictness() -> None:
    tools = [
        {"type": "function", "function": {"name": "a", "description": "d", "parameters": {"x": 1}, "strict": True}},
        {"type": "function", "function": {"name": "b"}},
    ]
    assert ask(tools=tools).chat.tools == [Tool("a", "d", {"x": 1}, True), Tool("b")]
    assert ask(tools=[]).chat.tools == []


def test_hosted_tools_are_listed_and_not_offered() -> None:
    call = ask(tools=[LS, {"type": "web_search"}], tool_choice="required")
    assert [tool.name for tool in call.chat.tools] == ["ls"]
    assert call.unmapped == ["$.tools[1]"]
    assert ask(tools=[{"type": "web_search"}], tool_choice="required").unmapped == ["$.tools[0]", "$.tool_choice"]


@pytest.mark.parametrize(
    ("choice", "read", "offered"),
    [
        ("auto", ToolChoice("auto"), "ls cat rm"),
        ("none", ToolChoice("none"), "ls cat rm"),
        ("required", ToolChoice("required"), "ls cat rm"),
        ({"type": "function", "function": {"name": "cat"}}, ToolChoice("function", "cat"), "ls cat rm"),
        (("auto", "ls", "cat"), ToolChoice("auto"), "ls cat"),
        (("required", "ls", "cat"), ToolChoice("required"), "ls cat"),
        (("required", "ls"), ToolChoice("function", "ls"), "ls cat rm"),
        (("auto", "ls"), ToolChoice("auto"), "ls"),
    ],
)
def test_tool_choice(choice: Any, read: ToolChoice, offered: str) -> None:
    tools = [{"type": "function", "function": {"name": name}} for name in ("ls", "cat", "rm")]
    if isinstance(choice, tuple):
        named = [{"type": "function", "function": {"name": name}} for name in choice[1:]]
        choice = {"type": "allowed_tools", "allowed_tools": {"mode": choice[0], "tools": named}}
    chat = ask(tools=tools, tool_choice=choice).chat
    assert chat.tool_choice == read
    assert [tool.name for tool in chat.tools] == offered.split()


@pytest.mark.parametrize("choice", ["auto", "none"])
def test_a_harmless_choice_without_tools_is_nothing(choice: str) -> None:
    assert ask(tool_choice=choice).chat.tool_choice is None


def test_custom_tools_become_functions_of_one_text() -> None:
    grammar = {"type": "grammar", "grammar": {"syntax": "lark", "definition": "start: /x/"}}
    tool = {"type": "custom", "custom": {"name": "patch", "description": "d", "format": grammar}}
    echo = {"id": "c1", "type": "custom", "custom": {"name": "patch", "input": 'a "b"\n'}}
    call = ask(tools=[tool], messages=[USER, {"role": "assistant", "content": None, "tool_calls": [echo]}])
    assert call.chat.tools[0].parameters["required"] == ["input"]
    assert call.chat.messages[1].tool_calls[0].arguments == '{"input":"a \\"b\\"\\n"}'
    assert call.extra.custom_tools == {"patch"}
    assert call.unmapped == ["$.tools[0].custom.format"]


def test_legacy_functions() -> None:
    messages = [
        USER,
        {"role": "assistant", "content": None, "function_call": {"name": "ls", "arguments": '{"a":1}'}},
        {"role": "function", "name": "ls", "content": "out"},
        {"role": "assistant", "content": None, "function_call": {"name": "ls", "arguments": "{}"}},
        {"role": "function", "name": "ls", "content": "again"},
    ]
    call = ask(messages=messages, functions=[{"name": "ls", "parameters": {"x": 1}}], function_call={"name": "ls"})
    first, answered, second, again = call.chat.messages[1:]
    assert answered.role == "tool"
    assert answered.tool_call_id == first.tool_calls[0].id != second.tool_calls[0].id == again.tool_call_id
    assert call.chat.tools == [Tool("ls", None, {"x": 1})]
    assert call.chat.tool_choice == ToolChoice("function", "ls")
    assert call.chat.parallel_tool_calls is False
    assert call.extra.legacy_functions
    assert call.unmapped == []


def test_all_sampling_fields() -> None:
    sampling = ask(
        temperature=0,
        top_p=0.5,
        top_k=-1,
        min_p=0.1,
        presence_penalty=1,
        frequency_penalty=-1.5,
        repetition_penalty=1.1,
        seed=7,
        stop=["a", ""],
        n=3,
        logit_bias={"42": -100},
    ).chat.sampling
    assert (sampling.temperature, sampling.top_p, sampling.top_k, sampling.min_p) == (0.0, 0.5, -1, 0.1)
    assert (sampling.presence_penalty, sampling.frequency_penalty, sampling.repetition_penalty) == (1.0, -1.5, 1.1)
    assert (sampling.seed, sampling.stop, sampling.n, sampling.logit_bias) == (7, ["a"], 3, {"42": -100.0})
    assert ask(stop="END").chat.sampling.stop == ["END"]


@pytest.mark.parametrize(
    ("asked", "thinking", "effort"),
    [
        ({}, None, None),
        ({"reasoning_effort": "high"}, None, "high"),
        ({"reasoning_effort": "none"}, False, "none"),
        ({"reasoning_effort": "none", "enable_thinking": True}, True, "none"),
        ({"enable_thinking": False}, False, None),
        ({"chat_template_kwargs": {"enable_thinking": False}}, False, None),
        ({"chat_template_kwargs": {"thinking": True}}, True, None),
        ({"thinking": {"type": "enabled"}, "reasoning_effort": "high"}, True, "high"),
        ({"thinking": {"type": "disabled"}}, False, None),
        ({"thinking": {"type": "adaptive"}}, None, None),
        ({"thinking_budget": 0}, False, None),
        ({"reasoning": {"effort": "low"}}, None, "low"),
        ({"reasoning": {"enabled": True}}, True, None),
    ],
)
def test_thinking_switches(asked: dict[str, Any], thinking: bool | None, effort: str | None) -> None:
    call = ask(**asked)
    assert (call.chat.thinking, call.chat.effort, call.unmapped) == (thinking, effort, [])


@pytest.mark.parametrize("asked", [{"include_reasoning": False}, {"reasoning": {"exclude": True}}])
def test_reasoning_may_be_hidden(asked: dict[str, Any]) -> None:
    assert ask(**asked).extra.show_reasoning is False


@pytest.mark.parametrize(
    ("asked", "paths"),
    [
        ({"verbosity": "low", "web_search_options": {}}, ["$.verbosity", "$.web_search_options"]),
        ({"modalities": ["text"]}, []),
        ({"modalities": ["text", "audio"]}, ["$.modalities"]),
        ({"brand-new": 1, "newer": None}, ["$['brand-new']"]),
        ({"thinking": {"type": "enabled", "budget_tokens": 9}}, ["$.thinking.budget_tokens"]),
        ({"thinking_budget": 4096}, ["$.thinking_budget"]),
        ({"reasoning": {"max_tokens": 9}}, ["$.reasoning.max_tokens"]),
        ({"chat_template_kwargs": {"other": 1}}, ["$.chat_template_kwargs.other"]),
        ({"store": True, "user": "u", "metadata": {"a": "b"}, "service_tier": "flex", "prediction": {}}, []),
    ],
)
def test_what_was_not_carried_over_is_listed(asked: dict[str, Any], paths: list[str]) -> None:
    assert ask(**asked).unmapped == paths


@pytest.mark.parametrize(
    ("sdk_type", "table"),
    [
        (CompletionCreateParamsBase, fields.REQUEST),
        (ChatCompletionAssistantMessageParam, fields.MESSAGE),
        (ChatCompletionToolMessageParam, fields.MESSAGE),
        (ChatCompletionUserMessageParam, fields.MESSAGE),
    ],
)
def test_every_field_of_the_official_sdk_has_its_treatment(sdk_type: Any, table: Fields) -> None:
    assert [name for name in sdk_type.__annotations__ if name not in table] == []


def test_azure_names_the_model_in_the_path() -> None:
    call = raw(b'{"messages":[{"role":"user","content":"x"}]}', path="/openai/deployments/gpt-x/chat/completions")
    assert call.model_requested == call.chat.model == "gpt-x"


@pytest.mark.parametrize(
    ("asked", "param"),
    [
        ({"messages": None}, "messages"),
        ({"messages": []}, "messages"),
        ({"messages": "hi"}, "messages"),
        ({"messages": ["hi"]}, "messages[0]"),
        ({"messages": [{"content": "x"}]}, "messages[0].role"),
        ({"messages": [{"role": "robot", "content": "x"}]}, "messages[0].role"),
        ({"messages": [{"role": "user", "content": 1}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": [{"type": "text"}]}]}, "messages[0].content[0].text"),
        ({"messages": [{"role": "tool", "content": "x"}]}, "messages[0].tool_call_id"),
        ({"messages": [{"role": "assistant", "tool_calls": [{}]}]}, "messages[0].tool_calls[0].id"),
        ({"messages": [{"role": "assistant", "tool_calls": {}}]}, "messages[0].tool_calls"),
        ({"model": 1}, "model"),
        ({"temperature": "warm"}, "temperature"),
        ({"temperature": True}, "temperature"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_completion_tokens": 1.5}, "max_completion_tokens"),
        ({"seed": 1 << 70}, "seed"),
        ({"n": 0}, "n"),
        ({"n": 129}, "n"),
        ({"stop": [1]}, "stop[0]"),
        ({"stop": 1}, "stop"),
        ({"stream": "yes"}, "stream"),
        ({"logprobs": 1}, "logprobs"),
        ({"top_logprobs": 5}, "top_logprobs"),
        ({"logprobs": True, "top_logprobs": 21}, "top_logprobs"),
        ({"logit_bias": {"a": "b"}}, "logit_bias['a']"),
        ({"tools": [{"type": "function"}]}, "tools[0].function"),
        ({"tools": [{"type": "function", "function": {}}]}, "tools[0].function.name"),
        (
            {"tools": [{"type": "function", "function": {"name": "x", "parameters": "y"}}]},
            "tools[0].function.parameters",
        ),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"tool_choice": "maybe"}, "tool_choice"),
        ({"tool_choice": {"type": "function", "function": {"name": "x"}}}, "tool_choice"),
        (
            {"tools": [LS], "tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": []}},
            "tool_choice.allowed_tools.tools",
        ),
        ({"response_format": {"type": "json_schema"}}, "response_format.json_schema"),
        ({"reasoning_effort": 1}, "reasoning_effort"),
        ({"parallel_tool_calls": 1}, "parallel_tool_calls"),
        ({"stream_options": []}, "stream_options"),
    ],
)
def test_wrong_requests_name_the_field(asked: dict[str, Any], param: str) -> None:
    with pytest.raises(CallError) as refused:
        ask(**asked)
    assert refused.value.fault.kind is FaultKind.INVALID
    assert refused.value.fault.param == param
    assert refused.value.fault.message


def test_qwen_names_session_and_sub_agent_by_its_cache_key() -> None:
    agent = {"user-agent": "QwenCode/0.24.4 (linux; x64)", "x-stainless-retry-count": "2"}
    main = ask(agent, prompt_cache_key="qwen-code:11-22").hints
    assert (main.session, main.agent, main.attempt) == ("11-22", "main", 2)
    assert (main.harness, main.harness_version) == ("qwen-code", "0.24.4")
    sub = ask(agent, prompt_cache_key="qwen-code:11-22:general-purpose-call_9").hints
    assert (sub.session, sub.agent) == ("11-22", "sub:general-purpose-call_9")


def test_a_plain_cache_key_is_a_session() -> None:
    assert ask(prompt_cache_key="0b5e").hints.session == "0b5e"
    assert ask({"x-session-id": "s"}, prompt_cache_key="0b5e").hints.session == "s"


def test_opencode_titles_are_side_calls() -> None:
    headers = {"user-agent": "opencode/1.18.33 ai-sdk", "x-session-id": "ses_1"}
    titled = [{"role": "system", "content": "You are a title generator."}, USER]
    assert (ask(headers, messages=titled).hints.kind, ask(headers, messages=titled).hints.agent) == (
        "side",
        "aux:title",
    )
    assert ask(headers, messages=titled, tools=[LS]).hints.kind is None
    assert ask(headers).hints.kind is None
