"""generateContent requests → the internal form."""

import json
from typing import Any

import jsonschema
import pytest
from google.genai import types

from polar_capture.chat import Message, ToolChoice
from polar_capture.dialects.fidelity import Fields
from polar_capture.dialects.google import fields
from polar_capture.dialects.google.spelling import camel
from polar_capture.faults import CallError, FaultKind
from tests.unit.dialects.google.build import CLI, DIALECT, HI, LS, ask, raw

CAT = {"name": "cat", "parametersJsonSchema": {"type": "object", "properties": {"f": {"type": "string"}}}}


def test_o_req_google_01_both_schema_fields_are_read() -> None:
    tools = ask(tools=[{"functionDeclarations": [LS]}, {"functionDeclarations": [CAT]}]).chat.tools
    assert [tool.name for tool in tools] == ["ls", "cat"]
    assert tools[0].parameters["type"] == "object"
    for value, valid in (({"dir": None}, True), ({"dir": "a"}, True), ({}, False), ({"dir": 1}, False)):
        assert jsonschema.Draft202012Validator(tools[0].parameters).is_valid(value) is valid
    assert tools[1].parameters == CAT["parametersJsonSchema"]
    assert "OBJECT" not in json.dumps(tools[0].parameters)


def test_o_req_google_02_both_spellings_mean_the_same() -> None:
    camel = ask(
        contents=[{"parts": [{"text": "hi"}]}],
        systemInstruction={"parts": [{"text": "S"}]},
        generationConfig={"maxOutputTokens": 7, "stopSequences": ["Z"], "topK": 5},
    )
    snake = ask(
        contents=[{"parts": [{"text": "hi"}]}],
        system_instruction={"role": "user", "parts": [{"text": "S"}]},
        generation_config={"max_output_tokens": 7, "stop_sequences": ["Z"], "top_k": 5},
    )
    assert camel.chat == snake.chat
    assert camel.chat.messages == [Message("system", content="S"), Message("user", content="hi")]
    sampling = camel.chat.sampling
    assert (sampling.max_tokens, sampling.stop, sampling.top_k) == (7, ["Z"], 5)
    assert camel.unmapped == snake.unmapped == []


def test_o_req_google_03_fields_without_bearing_are_ignored() -> None:
    call = ask(
        safetySettings=[{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_NONE"}],
        labels={"a": "b"},
        systemInstruction={"parts": [{"text": "S"}, {"text": "T"}]},
        generationConfig={"candidateCount": 1, "responseModalities": ["TEXT"]},
    )
    assert call.unmapped == []
    assert call.chat.messages[0].content == "S\nT"


def test_o_req_google_03_cached_content_is_refused() -> None:
    with pytest.raises(CallError) as refused:
        ask(cachedContent="cachedContents/x")
    assert (refused.value.fault.kind, refused.value.fault.param) == (FaultKind.INVALID, "cachedContent")


@pytest.mark.parametrize(
    ("config", "choice", "offered"),
    [
        ({"mode": "ANY", "allowedFunctionNames": ["ls"]}, ToolChoice("function", "ls"), ["ls", "cat"]),
        ({"mode": "ANY", "allowedFunctionNames": ["ls", "cat"]}, ToolChoice("required"), ["ls", "cat"]),
        ({"mode": "any", "allowed_function_names": ["cat"]}, ToolChoice("function", "cat"), ["ls", "cat"]),
        ({"mode": "ANY"}, ToolChoice("required"), ["ls", "cat"]),
        ({"mode": "NONE"}, ToolChoice("none"), ["ls", "cat"]),
        ({"mode": "AUTO"}, ToolChoice("auto"), ["ls", "cat"]),
        ({"mode": "VALIDATED", "allowedFunctionNames": ["ls"]}, ToolChoice("auto"), ["ls"]),
        ({}, ToolChoice("auto"), ["ls", "cat"]),
    ],
)
def test_o_req_google_05_function_calling_modes(config: dict[str, Any], choice: ToolChoice, offered: list[str]) -> None:
    call = ask(tools=[{"functionDeclarations": [LS, CAT]}], toolConfig={"functionCallingConfig": config})
    assert call.chat.tool_choice == choice
    assert [tool.name for tool in call.chat.tools] == offered
    assert call.unmapped == []


def test_a_mode_without_functions_is_told() -> None:
    call = ask(tools=[{"googleSearch": {}}], toolConfig={"functionCallingConfig": {"mode": "ANY"}})
    assert call.chat.tool_choice is None
    assert call.unmapped == ["$.tools[0].googleSearch", "$.toolConfig.functionCallingConfig.mode"]


@pytest.mark.parametrize("hosted", ["googleSearch", "codeExecution", "urlContext", "google_search_retrieval"])
def test_hosted_tools_are_listed(hosted: str) -> None:
    call = ask(tools=[{hosted: {}, "functionDeclarations": [LS]}])
    assert len(call.unmapped) == 1
    assert call.unmapped[0].startswith("$.tools[0].")
    assert [tool.name for tool in call.chat.tools] == ["ls"]


@pytest.mark.parametrize(
    ("config", "thinking", "effort", "shown", "unmapped"),
    [
        ({}, None, None, False, []),
        ({"thinkingBudget": 0}, False, None, False, []),
        ({"thinkingBudget": -1, "includeThoughts": True}, None, None, True, []),
        ({"thinkingBudget": 8192}, True, None, False, ["$.generationConfig.thinkingConfig.thinkingBudget"]),
        ({"thinkingLevel": "HIGH", "includeThoughts": True}, None, "high", True, []),
        ({"thinking_level": "THINKING_LEVEL_UNSPECIFIED"}, None, None, False, []),
    ],
)
def test_thinking(config: Any, thinking: bool | None, effort: str | None, shown: bool, unmapped: list[str]) -> None:
    call = ask(generationConfig={"thinkingConfig": config})
    assert (call.chat.thinking, call.chat.effort, call.extra.show_thoughts) == (thinking, effort, shown)
    assert call.unmapped == unmapped


@pytest.mark.parametrize("field", ["responseSchema", "responseJsonSchema", "response_schema", "response_json_schema"])
def test_structured_output(field: str) -> None:
    schema = {
        "type": "OBJECT",
        "properties": {"b": {"type": "INTEGER"}, "a": {"type": "STRING"}},
        "propertyOrdering": ["a", "b"],
    }
    call = ask(generationConfig={"responseMimeType": "application/json", field: schema})
    form = call.chat.response_format
    assert form is not None
    assert form["type"] == "json_schema"
    assert form["json_schema"]["schema"] == {
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": {"type": "integer"}},
    }
    assert list(form["json_schema"]["schema"]["properties"]) == ["a", "b"]


@pytest.mark.parametrize(
    ("mime", "form", "unmapped"),
    [
        ("application/json", {"type": "json_object"}, []),
        ("text/plain", None, []),
        ("text/x.enum", None, ["$.generationConfig.responseMimeType"]),
    ],
)
def test_mime_types(mime: str, form: Any, unmapped: list[str]) -> None:
    call = ask(generationConfig={"responseMimeType": mime})
    assert (call.chat.response_format, call.unmapped) == (form, unmapped)


def test_the_newer_list_of_formats() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}}}
    formats = [{"text": {"mimeType": "APPLICATION_JSON", "schema": schema}}, {"image": {"aspectRatio": "1:1"}}]
    call = ask(generationConfig={"responseFormat": formats})
    assert call.chat.response_format is not None
    assert call.chat.response_format["json_schema"]["schema"] == schema
    assert call.unmapped == ["$.generationConfig.responseFormat[1].image"]


@pytest.mark.parametrize(
    ("sdk_type", "table"),
    [
        (types.GenerationConfig, fields.GENERATION_CONFIG),
        (types.Part, fields.PART),
        (types.FunctionDeclaration, fields.FUNCTION_DECLARATION),
        (types.FunctionResponse, fields.FUNCTION_RESPONSE),
    ],
)
def test_every_field_of_the_official_sdk_has_its_treatment(sdk_type: Any, table: Fields) -> None:
    assert [name for name in map(camel, sdk_type.model_fields) if name not in table] == []


def test_all_sampling_fields() -> None:
    sampling = ask(
        generationConfig={
            "temperature": 0,
            "topP": 0.5,
            "topK": 64.0,
            "candidateCount": 2,
            "maxOutputTokens": 9,
            "stopSequences": ["a", ""],
            "seed": 7,
            "presencePenalty": 1,
            "frequencyPenalty": -1,
            "responseLogprobs": True,
            "logprobs": 3,
        }
    ).chat.sampling
    assert (sampling.temperature, sampling.top_p, sampling.top_k, sampling.n) == (0.0, 0.5, 64, 2)
    assert (sampling.max_tokens, sampling.stop, sampling.seed) == (9, ["a"], 7)
    assert (sampling.presence_penalty, sampling.frequency_penalty, sampling.top_logprobs) == (1.0, -1.0, 3)
    assert ask(generationConfig={"responseLogprobs": True}).chat.sampling.top_logprobs == 0


def test_what_was_not_carried_over_is_listed() -> None:
    call = ask(
        brandNew=1,
        generationConfig={"speechConfig": {}, "responseModalities": ["AUDIO"]},
        toolConfig={"retrievalConfig": {}},
        tools=[{"functionDeclarations": [LS | {"behavior": "NON_BLOCKING"}]}],
    )
    assert call.unmapped == [
        "$.brandNew",
        "$.tools[0].functionDeclarations[0].behavior",
        "$.toolConfig.retrievalConfig",
        "$.generationConfig.speechConfig",
        "$.generationConfig.responseModalities",
    ]


@pytest.mark.parametrize(
    ("path", "operation", "model"),
    [
        ("/v1beta/models/gemini-x:generateContent", "generate", "gemini-x"),
        ("/v1/models/gemini-x:streamGenerateContent", "generate", "gemini-x"),
        ("/models/gemini-x:countTokens", "count_tokens", "gemini-x"),
        ("/v1beta/models/gemini-x%3AgenerateContent", "generate", "gemini-x"),
        ("/v1beta/tunedModels/t-1:generateContent", "generate", "t-1"),
        ("/v1beta1/projects/p/locations/l/publishers/google/models/g:generateContent", "generate", "g"),
        ("/v1beta1/publishers/google/models/g:generateContent", "generate", "g"),
        ("/v1internal:generateContent", "generate", None),
    ],
)
def test_paths(path: str, operation: str, model: str | None) -> None:
    route = DIALECT.match("POST", path)
    assert route is not None
    assert (route.operation, route.params.get("model")) == (operation, model)


@pytest.mark.parametrize("path", ["/v1/models/m", "/v1beta/models/m:embedContent", "/v1/messages", "/v1internal:x"])
def test_paths_of_others(path: str) -> None:
    assert DIALECT.match("POST", path) is None


def test_code_assist_wraps_the_request() -> None:
    inner = {"contents": [HI], "session_id": "s-1", "generationConfig": {"maxOutputTokens": 7}}
    body = {"model": "gemini-x", "project": "p", "user_prompt_id": "u-1", "request": inner}
    call = raw(json.dumps(body).encode(), "/v1internal:streamGenerateContent", "sse")
    assert call.stream
    assert (call.model_requested, call.hints.session, call.hints.user_turn) == ("gemini-x", "s-1", "u-1")
    assert call.chat.sampling.max_tokens == 7
    assert call.extra.wrapped
    assert call.unmapped == []


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1beta/models/m:countTokens", {"contents": [HI]}),
        ("/v1beta/models/m:countTokens", {"generateContentRequest": {"model": "models/m", "contents": [HI]}}),
        ("/v1internal:countTokens", {"request": {"model": "models/m", "contents": [HI]}}),
    ],
)
def test_count_tokens_in_every_wrapping(path: str, body: dict[str, Any]) -> None:
    call = raw(json.dumps(body).encode(), path)
    assert call.chat.messages == [Message("user", content="hi")]
    assert call.model_requested == "m"
    assert not call.stream
    assert json.loads(DIALECT.count(call, 31).body)["totalTokens"] == 31


def test_gemini_clis_helpers_are_side_calls() -> None:
    asked = {"responseMimeType": "application/json", "responseJsonSchema": {"type": "OBJECT"}}
    router = ask("/v1beta/models/gemini-3.5-flash-lite:generateContent", headers=CLI, generationConfig=asked).hints
    assert (router.kind, router.agent, router.harness, router.harness_version) == (
        "side",
        "aux:router",
        "gemini-cli",
        "0.61.0",
    )
    assert ask(headers=CLI, generationConfig=asked).hints.agent == "aux:json"
    assert ask(headers=CLI, tools=[{"functionDeclarations": [LS]}], generationConfig=asked).hints.kind is None
    assert ask(generationConfig=asked).hints.kind is None


def test_opencode_names_its_session() -> None:
    assert ask(headers={"x-session-id": "ses_1"}).hints.session == "ses_1"


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"contents": []}, "contents"),
        ({"contents": None}, "contents"),
        ({"contents": 1}, "contents"),
        ({"contents": [1]}, "contents[0]"),
        ({"contents": [{"role": "robot", "parts": []}]}, "contents[0].role"),
        ({"contents": [{"parts": 1}]}, "contents[0].parts"),
        ({"contents": [{"parts": [{"text": 1}]}]}, "contents[0].parts[0].text"),
        ({"contents": [{"parts": [{"text": "x", "functionCall": {}}]}]}, "contents[0].parts[0]"),
        ({"contents": [{"role": "model", "parts": [{"functionCall": {}}]}]}, "contents[0].parts[0].functionCall.name"),
        (
            {"contents": [{"role": "model", "parts": [{"functionCall": {"name": "x", "args": "y"}}]}]},
            "contents[0].parts[0].functionCall.args",
        ),
        (
            {"contents": [{"parts": [{"inlineData": {"mimeType": "text/plain", "data": "*"}}]}]},
            "contents[0].parts[0].inlineData.data",
        ),
        ({"systemInstruction": 1}, "systemInstruction"),
        ({"tools": [1]}, "tools[0]"),
        ({"tools": [{"functionDeclarations": [{}]}]}, "tools[0].functionDeclarations[0].name"),
        (
            {"tools": [{"functionDeclarations": [{"name": "x", "parameters": 1}]}]},
            "tools[0].functionDeclarations[0].parameters",
        ),
        ({"toolConfig": {"functionCallingConfig": {"mode": "MAYBE"}}}, "toolConfig.functionCallingConfig.mode"),
        (
            {"toolConfig": {"functionCallingConfig": {"allowedFunctionNames": ["x"]}}},
            "toolConfig.functionCallingConfig.allowedFunctionNames",
        ),
        ({"generationConfig": []}, "generationConfig"),
        ({"generationConfig": {"temperature": "warm"}}, "generationConfig.temperature"),
        ({"generationConfig": {"maxOutputTokens": 0}}, "generationConfig.maxOutputTokens"),
        ({"generationConfig": {"candidateCount": 0}}, "generationConfig.candidateCount"),
        ({"generationConfig": {"logprobs": 3}}, "generationConfig.logprobs"),
        ({"generationConfig": {"stopSequences": [1]}}, "generationConfig.stopSequences[0]"),
        ({"generationConfig": {"responseSchema": "x"}}, "generationConfig.responseSchema"),
        (
            {"generationConfig": {"thinkingConfig": {"thinkingBudget": "x"}}},
            "generationConfig.thinkingConfig.thinkingBudget",
        ),
    ],
)
def test_wrong_requests_name_the_field(body: dict[str, Any], param: str) -> None:
    with pytest.raises(CallError) as refused:
        ask(**body)
    assert refused.value.fault.kind is FaultKind.INVALID
    assert refused.value.fault.param == param


def test_code_assist_without_a_request_is_refused() -> None:
    with pytest.raises(CallError, match="request is not specified"):
        raw(b'{"model": "m"}', "/v1internal:generateContent")
