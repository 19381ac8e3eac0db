"""Invariants of the Google dialect: exact round trips, and nothing but CallError escapes."""

import json
from typing import Any

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from polar_capture.dialects.google import fields
from polar_capture.faults import CallError, FaultKind
from tests.unit.dialects.google.build import (
    DIALECT,
    HI,
    STREAM,
    answer,
    ask,
    choice,
    chunks,
    completion,
    parts_of,
    raw,
    streamed,
    streaming,
)
from tests.unit.dialects.mutation import mutated

THOUGHTS: dict[str, Any] = {"generationConfig": {"thinkingConfig": {"includeThoughts": True}}}
TEXTS = st.text(max_size=300)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
OBJECTS = st.dictionaries(TEXTS, JSON, max_size=3)
CALLS = st.lists(st.tuples(st.just("ls"), OBJECTS.map(lambda o: json.dumps(o, indent=1)) | TEXTS), max_size=3)


def value(arguments: str) -> Any:
    try:
        return msgspec.json.decode(arguments)
    except msgspec.DecodeError:
        return arguments


@given(TEXTS, st.none() | TEXTS.filter(bool), CALLS)
def test_what_is_said_is_read_back(content: str, reasoning: str | None, calls: list[tuple[str, str]]) -> None:
    given_ = completion(choice(content, reasoning, calls))
    whole = [answer(ask(**THOUGHTS), given_)]
    events = chunks(streamed(streaming(**THOUGHTS), given_))
    array = json.loads(streamed(streaming(alt=None, **THOUGHTS), given_))
    for objects in (whole, events, array):
        contents = [HI, *({"role": "model", "parts": [part]} for part in parts_of(objects))]
        (_, echoed) = ask(contents=contents).chat.messages
        assert (echoed.content or "", echoed.reasoning) == (content, reasoning)
        assert [call.name for call in echoed.tool_calls] == [name for name, _ in calls]
        for call, (_, arguments) in zip(echoed.tool_calls, calls, strict=True):
            blank = arguments.strip() in ("", "null")
            assert value(call.arguments) == ({} if blank else value(arguments))
        assert len(echoed.echo) == 1 + len(calls)


@given(OBJECTS)
def test_arguments_arrive_as_the_object_that_was_sampled(sampled: dict[str, Any]) -> None:
    given_ = completion(choice(None, calls=[("ls", json.dumps(sampled, indent=2))]))
    (part,) = parts_of(chunks(streamed(streaming(), given_)))
    assert part["functionCall"]["args"] == sampled
    assert list(part["functionCall"]["args"]) == list(sampled)


FIELDS = st.sampled_from([*fields.REQUEST, "system_instruction", "generation_config", "request", "odd"])
OF_CONTENTS = ["role", "parts", "user", "model", "args", "mimeType", "data", "image/png", "text/plain"]
OF_TOOLS = ["functionDeclarations", "type", "OBJECT", "properties", "items", "enum", "nullable", "anyOf"]
OF_CONFIGS = ["functionCallingConfig", "mode", "ANY", "allowedFunctionNames", "includeThoughts", "thinkingBudget"]
OF_TABLES = [*fields.PART, *fields.FUNCTION_DECLARATION, *fields.FUNCTION_RESPONSE, *fields.GENERATION_CONFIG]
WORDS = st.sampled_from([*OF_TABLES, *OF_CONTENTS, *OF_TOOLS, *OF_CONFIGS])
NUMBERS = st.integers(-3, 2**64) | st.floats(allow_nan=False, allow_infinity=False)
SHAPES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 2**64)
    | st.floats(allow_nan=False, allow_infinity=False)
    | WORDS
    | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WORDS | st.text(max_size=5), inner, max_size=5),
    max_leaves=25,
)
PATHS = st.sampled_from(
    [STREAM, "/v1/models/m:generateContent", "/v1internal:generateContent", "/v1/models/m:countTokens"]
)


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.dictionaries(FIELDS, SHAPES, max_size=6), PATHS, st.booleans())
def test_any_request_is_understood_or_refused(body: dict[str, Any], path: str, with_contents: bool) -> None:
    if with_contents:
        body = {**body, "contents": [HI, *(c for c in [body.get("contents")] if isinstance(c, dict))]}
        body = {"request": body} if path.startswith("/v1internal") else body
    understood_or_refused(body, path)


SOUND: dict[str, Any] = {
    "systemInstruction": {"parts": [{"text": "S"}]},
    "contents": [
        {"role": "user", "parts": [{"text": "hi"}, {"inlineData": {"mimeType": "image/png", "data": "AA=="}}]},
        {
            "role": "model",
            "parts": [
                {"text": "hm", "thought": True},
                {"text": "ok", "thoughtSignature": "AA=="},
                {"functionCall": {"id": "c1", "name": "ls", "args": {"dir": "a"}}},
            ],
        },
        {"parts": [{"functionResponse": {"id": "c1", "name": "ls", "response": {"output": "A"}, "parts": []}}]},
    ],
    "tools": [
        {
            "functionDeclarations": [
                {
                    "name": "ls",
                    "description": "d",
                    "parameters": {
                        "type": "OBJECT",
                        "properties": {"dir": {"type": "STRING", "nullable": True, "minLength": "1"}},
                        "required": ["dir"],
                        "propertyOrdering": ["dir"],
                        "anyOf": [{"type": "OBJECT"}],
                    },
                }
            ]
        },
        {"googleSearch": {}},
    ],
    "toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["ls"]}},
    "generationConfig": {
        "temperature": 1,
        "topK": 64,
        "candidateCount": 1,
        "maxOutputTokens": 9,
        "stopSequences": ["Z"],
        "responseLogprobs": True,
        "logprobs": 1,
        "responseMimeType": "application/json",
        "responseSchema": {"type": "OBJECT", "properties": {"a": {"type": "STRING"}}},
        "thinkingConfig": {"includeThoughts": True, "thinkingBudget": 0, "thinkingLevel": "LOW"},
    },
    "safetySettings": [],
}


@settings(deadline=None)
@given(mutated(SOUND), st.sampled_from([STREAM, "/v1/models/m:generateContent"]))
def test_a_broken_request_is_understood_or_refused(body: dict[str, Any], path: str) -> None:
    understood_or_refused(body, path)


def understood_or_refused(body: dict[str, Any], path: str) -> None:
    fault = None
    try:
        call = raw(json.dumps(body).encode(), path)
    except CallError as refused:
        fault = refused.fault
    if fault is not None:
        assert fault.kind is FaultKind.INVALID
        assert json.loads(DIALECT.error(fault).body)["error"]["message"]
        return
    msgspec.json.encode(call.chat)
    assert answer(call, completion())
    assert streamed(call, completion())
