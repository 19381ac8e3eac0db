"""What the official SDKs ask besides an answer, and what only some answers have."""

from typing import Any

import anthropic
import openai
import pytest
from google.genai import types
from pydantic import BaseModel

from tests.sdk import anthropic_client, openai_client
from tests.sdk.google_client import sdk_client
from tests.sdk.scenarios import ARGUMENTS, PARAMETERS, SCENARIOS, TEXT, THOUGHTS
from tests.sdk.stage import Stage


class Answer(BaseModel):
    ok: bool
    count: int


PARSED = Answer(ok=True, count=3)
HI: Any = [{"role": "user", "content": "hi"}]


def prompt(name: str) -> Any:
    return [{"role": "user", "content": SCENARIOS[name].asked.prompt}]


def test_sizes_are_counted_and_leave_no_row(stage: Stage) -> None:
    client = anthropic_client.sync_client(stage, "counted")
    counted = client.messages.count_tokens(model="claude-9", messages=HI).input_tokens
    told = sdk_client(stage, "counted").models.count_tokens(model="gemini-9", contents="hi").total_tokens
    assert counted == told == client.messages.create(model="claude-9", max_tokens=9, messages=HI).usage.input_tokens
    assert len(stage.calls("counted")) == 1


def test_models_are_listed_in_every_dialect(stage: Stage) -> None:
    assert [model.id for model in anthropic_client.sync_client(stage, "lists").models.list()] == ["toy"]
    assert [model.name for model in sdk_client(stage, "lists").models.list()] == ["models/toy"]
    assert sdk_client(stage, "lists").models.get(model="gemini-9").name == "models/gemini-9"
    assert anthropic_client.sync_client(stage, "lists").models.retrieve("claude-9").id == "claude-9"


def test_structured_answers_are_parsed(stage: Stage) -> None:
    openai_sdk = openai_client.sync_client(stage, "parses")
    chat = openai_sdk.chat.completions.parse(model="m", messages=prompt("structured"), response_format=Answer)
    assert chat.choices[0].message.parsed == PARSED
    text = SCENARIOS["structured"].asked.prompt
    assert openai_sdk.responses.parse(model="m", input=text, text_format=Answer).output_parsed == PARSED
    messages = anthropic_client.sync_client(stage, "parses").messages
    assert (
        messages.parse(model="m", max_tokens=99, messages=prompt("structured"), output_format=Answer).parsed_output
        == PARSED
    )
    config = types.GenerateContentConfig(response_mime_type="application/json", response_schema=Answer)
    google = sdk_client(stage, "parses").models.generate_content(model="m", contents=text, config=config)
    assert google.parsed == PARSED


def test_several_choices_and_their_logprobs(stage: Stage) -> None:
    client = openai_client.sync_client(stage, "choices")
    answer = client.chat.completions.create(
        model="m", messages=prompt("text"), n=3, temperature=1, logprobs=True, top_logprobs=2
    )
    assert [choice.index for choice in answer.choices] == [0, 1, 2]
    for choice in answer.choices:
        assert choice.logprobs is not None
        tokens = choice.logprobs.content or []
        assert "".join(token.token for token in tokens) == "Hello there.<|end|>", "every sampled token, the end too"
        assert {len(token.top_logprobs) for token in tokens} == {2}
    rows = stage.calls("choices", 3)
    assert [row["choice_index"] for row in rows] == [0, 1, 2]
    assert {row["seq"] for row in rows} == {0}


def test_functions_of_before_tools(stage: Stage) -> None:
    client = openai_client.sync_client(stage, "legacy")
    functions: Any = [{"name": "ls", "parameters": PARAMETERS}]
    message = client.chat.completions.create(model="m", messages=prompt("tool"), functions=functions).choices[0].message
    assert message.tool_calls is None
    assert message.function_call is not None
    assert (message.function_call.name, message.function_call.arguments) == ("ls", ARGUMENTS)


def test_a_turn_echoed_by_the_sdk_is_the_turn_that_was_sampled(stage: Stage) -> None:
    client = anthropic_client.sync_client(stage, "echoed")
    tools: Any = [{"name": "ls", "input_schema": PARAMETERS}]
    thinking: Any = {"type": "adaptive"}
    first = client.messages.create(model="m", max_tokens=4096, messages=prompt("tool"), tools=tools, thinking=thinking)
    (use,) = [block for block in first.content if block.type == "tool_use"]
    result: Any = {"type": "tool_result", "tool_use_id": use.id, "content": "a.txt"}
    history: Any = [*prompt("tool"), {"role": "assistant", "content": first.content}]
    history.append({"role": "user", "content": [result]})
    client.messages.create(model="m", max_tokens=99, messages=history, tools=tools, thinking=thinking)
    assistant = stage.double.chats[-1].body["messages"][1]
    assert (assistant["content"], assistant["reasoning"]) == (TEXT, THOUGHTS)
    assert assistant["tool_calls"][0]["function"]["arguments"] == ARGUMENTS
    older, newer = stage.calls("echoed", 2)
    assert (newer["parent_call_id"], newer["continuation"]) == (older["id"], "exact")


@pytest.mark.parametrize("api", ["chat", "responses", "messages", "google"])
def test_an_unknown_field_never_fails_and_is_listed(stage: Stage, api: str) -> None:
    session, extra = f"unknown-{api}", {"brand_new": {"on": True}}
    if api == "chat":
        openai_client.sync_client(stage, session).chat.completions.create(model="m", messages=HI, extra_body=extra)
    elif api == "responses":
        openai_client.sync_client(stage, session).responses.create(model="m", input="hi", extra_body=extra)
    elif api == "messages":
        anthropic_client.sync_client(stage, session).messages.create(
            model="m", max_tokens=9, messages=HI, extra_body=extra, extra_headers={"anthropic-beta": "brand-new"}
        )
    else:
        config = types.GenerateContentConfig(http_options=types.HttpOptions(extra_body=extra))
        sdk_client(stage, session).models.generate_content(model="m", contents="hi", config=config)
    (row,) = stage.calls(session)
    assert row["unmapped"] == ["$.brandNew" if api == "google" else "$.brand_new"]
    assert "unmapped_fields" in row["warnings"]


def test_a_wrong_request_is_refused_and_leaves_no_row(stage: Stage) -> None:
    with pytest.raises(openai.BadRequestError) as refused:
        openai_client.sync_client(stage, "wrong").chat.completions.create(model="m", messages=[])
    assert refused.value.type == "invalid_request_error"
    with pytest.raises(anthropic.BadRequestError):
        anthropic_client.sync_client(stage, "wrong").messages.create(model="m", max_tokens=0, messages=HI)
    responses = openai_client.sync_client(stage, "wrong").responses
    first = responses.create(model="m", input="hi")
    with pytest.raises(openai.BadRequestError, match="background"):
        responses.retrieve(first.id, stream=True)
    assert len(stage.calls("wrong")) == 1
