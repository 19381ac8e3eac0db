"""generateContent requests → the internal form."""

import base64
import json
from typing import Any

import jsonschema
import pytest

from polar_capture.chat import MediaPart, Message, TextPart, ToolChoice
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


def test_o_req_google_04_every_response_of_a_content_counts() -> None:
    contents = [
        HI,
        {
            "role": "model",
            "parts": [
                {"text": "ok"},
                {"functionCall": {"name": "ls", "args": {"dir": "a"}}},
                {"functionCall": {"name": "cat", "args": {"f": "b"}}},
            ],
        },
        {
            "role": "user",
            "parts": [
                {"functionResponse": {"name": "ls", "response": {"output": "A"}}},
                {"functionResponse": {"name": "cat", "response": {"output": "B"}}},
                {"text": "continue"},
            ],
        },
    ]
    messages = ask(contents=contents).chat.messages
    assert [m.role for m in messages] == ["user", "assistant", "tool", "tool", "user"]
    assert messages[1].content == "ok"
    first, second = messages[1].tool_calls
    assert (messages[2].tool_call_id, messages[2].content) == (first.id, "A")
    assert (messages[3].tool_call_id, messages[3].content) == (second.id, "B")
    assert first.id != second.id
    assert messages[4].content == "continue"


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


def turn(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"role": "model", "parts": list(parts)}


def call_part(name: str, call_id: str | None = None, **args: Any) -> dict[str, Any]:
    return {"functionCall": {"name": name, "args": args} | ({"id": call_id} if call_id else {})}


def result(name: str, said: Any, call_id: str | None = None) -> dict[str, Any]:
    response = said if isinstance(said, dict) else {"output": said}
    return {"functionResponse": {"name": name, "response": response} | ({"id": call_id} if call_id else {})}


@pytest.mark.parametrize("with_ids", [True, False])
def test_parallel_calls_of_one_name_are_matched_in_order(with_ids: bool) -> None:
    ids = ["i1", "i2"] if with_ids else [None, None]
    results = [result("ls", said, call_id) for said, call_id in zip("AB", ids, strict=True)]
    if with_ids:
        results.reverse()
    contents = [HI, turn(call_part("ls", ids[0], d=1), call_part("ls", ids[1], d=2)), {"parts": results}]
    messages = ask(contents=contents).chat.messages
    said = {m.tool_call_id: m.content for m in messages if m.role == "tool"}
    assert [said[call.id] for call in messages[1].tool_calls] == ["A", "B"]


def test_results_in_several_contents_and_the_function_role() -> None:
    contents = [
        HI,
        turn(call_part("ls"), call_part("cat")),
        {"role": "function", "parts": [result("cat", "B")]},
        {"role": "tool", "parts": [result("ls", "A")]},
    ]
    messages = ask(contents=contents).chat.messages
    ls, cat = messages[1].tool_calls
    assert [(m.tool_call_id, m.content) for m in messages[2:]] == [(cat.id, "B"), (ls.id, "A")]


def test_a_result_of_nothing_stays() -> None:
    assert ask(contents=[HI, {"parts": [result("ls", "A", "gone")]}]).chat.messages[1].tool_call_id == "gone"


@pytest.mark.parametrize(
    ("response", "said"),
    [
        ({"output": "A"}, "A"),
        ({"result": "A"}, "A"),
        ({"name": "ls", "content": "A"}, "A"),
        ({"error": "E"}, '{"error":"E"}'),
        ({"output": {"a": 1}}, '{"output":{"a":1}}'),
        ({"output": "A", "code": 1}, '{"output":"A","code":1}'),
        ({}, "{}"),
    ],
)
def test_the_one_text_of_a_result_is_unwrapped(response: dict[str, Any], said: str) -> None:
    assert (
        ask(contents=[HI, turn(call_part("ls")), {"parts": [result("ls", response)]}]).chat.messages[2].content == said
    )


def test_a_result_may_hold_an_image() -> None:
    part = result("ls", "see")
    part["functionResponse"]["parts"] = [{"inlineData": {"mimeType": "image/png", "data": "AA=="}}]
    content = ask(contents=[HI, turn(call_part("ls")), {"parts": [part]}]).chat.messages[2].content
    assert content == [TextPart("see"), MediaPart("image_url", {"url": "data:image/png;base64,AA=="})]


def test_a_turn_echoed_in_many_pieces_is_one_message() -> None:
    contents = [
        HI,
        turn({"text": "hm", "thought": True}),
        turn({"text": "m.", "thought": True}, {"text": "Hel"}),
        turn({"text": "lo "}),
        turn(call_part("ls", "call_1", dir="a") | {"thoughtSignature": "ab-_"}),
    ]
    (_, message) = ask(contents=contents).chat.messages
    assert (message.reasoning, message.content) == ("hmm.", "Hello ")
    assert message.tool_calls[0].arguments == '{"dir":"a"}'
    assert message.echo == ["ab+/", "call_1"]


def test_an_empty_turn_is_none() -> None:
    assert [m.role for m in ask(contents=[HI, {"role": "model", "parts": []}, HI]).chat.messages] == ["user", "user"]


def test_user_parts_keep_their_order() -> None:
    contents = [HI, turn(call_part("ls")), {"parts": [{"text": "first"}, result("ls", "A"), {"text": "last"}]}]
    assert [m.content for m in ask(contents=contents).chat.messages[2:]] == ["first", "A", "last"]


@pytest.mark.parametrize(
    ("mime", "data", "part"),
    [
        ("image/png", "-_8=", MediaPart("image_url", {"url": "data:image/png;base64,+/8="})),
        ("video/mp4", "AA==", MediaPart("video_url", {"url": "data:video/mp4;base64,AA=="})),
        ("audio/mpeg", "AA==", MediaPart("input_audio", {"data": "AA==", "format": "mp3"})),
    ],
)
def test_inline_media(mime: str, data: str, part: MediaPart) -> None:
    contents = [{"parts": [{"inlineData": {"mimeType": mime, "data": data}}]}]
    assert ask(contents=contents).chat.messages[0].content == [part]


def test_inline_text_is_text() -> None:
    data = base64.b64encode("é".encode()).decode()
    contents = [{"parts": [{"inline_data": {"mime_type": "text/plain; charset=utf-8", "data": data}}]}]
    assert ask(contents=contents).chat.messages[0].content == "é"


@pytest.mark.parametrize(
    ("part", "said", "path"),
    [
        ({"fileData": {"fileUri": "gs://x", "mimeType": "image/png"}}, "[fileData omitted]", "fileData"),
        ({"inlineData": {"mimeType": "application/pdf", "data": "AA"}}, "[inlineData omitted]", "inlineData"),
        ({"executableCode": {"code": "1"}}, "[executableCode omitted]", "executableCode"),
        ({"brandNew": {}}, "[brandNew omitted]", "brandNew"),
    ],
)
def test_parts_without_a_form_are_named(part: dict[str, Any], said: str, path: str) -> None:
    call = ask(contents=[{"parts": [part, {"text": "x"}]}])
    assert call.chat.messages[0].content == f"{said}\nx"
    assert call.unmapped == [f"$.contents[0].parts[0].{path}"]


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
        ({"contents": [{"role": "model", "parts": [{"functionCall": {}}]}]}, "contents[0].parts[0].functionCall.name"),
        (
            {"contents": [turn(call_part("x") | {"functionCall": {"name": "x", "args": "y"}})]},
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
