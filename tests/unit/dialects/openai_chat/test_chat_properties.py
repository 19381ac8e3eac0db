"""Invariants of the Chat Completions dialect: exact round trips, and nothing but CallError escapes."""

import json
from typing import Any

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from polar_capture.dialects.openai_chat import fields
from polar_capture.faults import CallError, FaultKind
from tests.unit.dialects.mutation import mutated
from tests.unit.dialects.openai_chat.build import (
    DIALECT,
    LS,
    USER,
    answer,
    ask,
    choice,
    chunks,
    completion,
    raw,
    streamed,
)

TEXTS = st.text(max_size=200)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
ARGUMENTS = TEXTS | st.dictionaries(TEXTS, JSON, max_size=3).map(json.dumps)
CALLS = st.lists(st.tuples(st.just("ls"), ARGUMENTS), max_size=3)


@given(TEXTS, st.none() | TEXTS, CALLS)
def test_both_forms_say_what_was_sampled(content: str, reasoning: str | None, calls: list[tuple[str, str]]) -> None:
    given_ = completion(choice(content, reasoning, calls))
    message = answer(ask(), given_)["choices"][0]["message"]
    assert message["content"] == content
    assert message.get("reasoning_content") == reasoning
    assert [(c["function"]["name"], c["function"]["arguments"]) for c in message.get("tool_calls", [])] == calls
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks(streamed(ask(stream=True), given_))]
    assert "".join(delta.get("content") or "" for delta in deltas) == content
    assert "".join(delta.get("reasoning") or "" for delta in deltas) == (reasoning or "")
    said = [""] * len(calls)
    for delta in deltas:
        for part in delta.get("tool_calls", []):
            said[part["index"]] += part["function"]["arguments"]
    assert said == [arguments for _, arguments in calls]


@given(TEXTS, st.none() | TEXTS.filter(bool), CALLS)
def test_what_is_echoed_is_read_back(content: str, reasoning: str | None, calls: list[tuple[str, str]]) -> None:
    message = answer(ask(), completion(choice(content, reasoning, calls)))["choices"][0]["message"]
    echoed = ask(messages=[USER, message], tools=[LS]).chat.messages[1]
    assert (echoed.content, echoed.reasoning) == (content, reasoning)
    assert [call.arguments for call in echoed.tool_calls] == [arguments or "{}" for _, arguments in calls]
    assert echoed.echo == [call["id"] for call in message.get("tool_calls", [])]


FIELDS = st.sampled_from([*fields.REQUEST, "odd"])
VALUES = ["type", "text", "function", "arguments", "user", "assistant", "tool", "system", "image_url", "custom"]
MORE_VALUES = ["allowed_tools", "mode", "required", "json_schema", "schema", "enabled", "effort", "input", "none"]
WORDS = st.sampled_from([*fields.MESSAGE, *VALUES, *MORE_VALUES])
NUMBERS = st.integers(-3, 2**64) | st.floats(allow_nan=False, allow_infinity=False)
SHAPES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 2**64)
    | st.floats(allow_nan=False, allow_infinity=False)
    | WORDS
    | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WORDS | st.text(max_size=5), inner, max_size=5),
    max_leaves=20,
)


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.dictionaries(FIELDS, SHAPES, max_size=6), st.booleans())
def test_any_request_is_understood_or_refused(body: dict[str, Any], with_messages: bool) -> None:
    if with_messages:
        body = {**body, "messages": [USER, *(m for m in [body.get("messages")] if isinstance(m, dict))]}
    understood_or_refused(body)


SOUND: dict[str, Any] = {
    "model": "m",
    "messages": [
        {"role": "developer", "content": "S"},
        {"role": "user", "content": [{"type": "text", "text": "hi"}, {"type": "image_url", "image_url": {"url": "x"}}]},
        {
            "role": "assistant",
            "content": "ok",
            "reasoning_content": "hm",
            "reasoning_details": [{"text": "hm"}],
            "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "ls", "arguments": "{}"}},
                {"id": "c2", "type": "custom", "custom": {"name": "patch", "input": "x"}},
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "A"}]},
        {"role": "assistant", "content": None, "function_call": {"name": "ls", "arguments": "{}"}},
        {"role": "function", "name": "ls", "content": "A"},
    ],
    "tools": [
        {"type": "function", "function": {"name": "ls", "description": "d", "parameters": {"type": "object"}}},
        {"type": "custom", "custom": {"name": "patch", "format": {"type": "grammar", "grammar": {}}}},
        {"type": "web_search"},
    ],
    "tool_choice": {
        "type": "allowed_tools",
        "allowed_tools": {"mode": "auto", "tools": [{"type": "function", "function": {"name": "ls"}}]},
    },
    "response_format": {"type": "json_schema", "json_schema": {"name": "r", "schema": {"type": "object"}}},
    "logprobs": True,
    "top_logprobs": 2,
    "stop": ["a"],
    "logit_bias": {"1": 2},
    "max_tokens": 9,
    "n": 1,
    "reasoning": {"effort": "low", "enabled": True, "exclude": False, "max_tokens": 7},
    "thinking": {"type": "enabled", "budget_tokens": 7},
    "chat_template_kwargs": {"enable_thinking": True, "x": 1},
    "stream_options": {"include_usage": True},
    "modalities": ["text"],
}


@settings(deadline=None)
@given(mutated(SOUND))
def test_a_broken_request_is_understood_or_refused(body: dict[str, Any]) -> None:
    understood_or_refused(body)


def understood_or_refused(body: dict[str, Any]) -> None:
    fault = None
    try:
        call = raw(json.dumps(body).encode())
    except CallError as refused:
        fault = refused.fault
    if fault is not None:
        assert fault.kind is FaultKind.INVALID
        assert json.loads(DIALECT.error(fault).body)["error"]["message"]
        return
    msgspec.json.encode(call.chat)
    assert answer(call, completion())["object"] == "chat.completion"
    assert streamed(call, completion()).endswith(b"data: [DONE]\n\n")
