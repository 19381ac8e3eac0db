"""The fields of a Messages request beside its conversation: tools, sampling, thinking, what is dropped."""

import json
from typing import Any

import jsonschema
import pytest

from tests.unit.dialects.anthropic.build import DIALECT, LS, USER, ask, raw, said, text


def test_o_req_anthropic_11_schemas_arrive_untouched():
    schema = {
        "type": "object",
        "properties": {
            "span": {"$ref": "#/$defs/Span"},
            "n": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        },
        "required": ["span"],
        "$defs": {"Span": {"type": "object", "properties": {"kind": {"type": "string"}}}},
    }
    (tool,) = ask(tools=[{"name": "plan", "input_schema": schema}]).chat.tools
    assert tool.parameters == schema
    for number in (None, 3):
        jsonschema.validate({"span": {"kind": "w"}, "n": number}, tool.parameters)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"n": 3}, tool.parameters)


def test_o_req_anthropic_14_beta_fields_of_any_kind_are_reported_and_not_refused():
    call = ask(
        {"anthropic-beta": "some-beta-2030-01-01"},
        context_management={"edits": [{"type": "clear_thinking"}]},
        output_config={"effort": "high", "task_budget": {"type": "tokens", "total": 9}},
        thinking={"type": "adaptive", "display": "omitted"},
        metadata={"user_id": "u1"},
        service_tier="auto",
        future_field={"x": 1},
        absent=None,
        messages=[
            {"role": "user", "content": [text("hi", new_key=1), {"type": "hologram", "data": "x"}], "mood": "odd"}
        ],
    )
    assert (call.chat.effort, call.chat.thinking) == ("high", True)
    assert said(call) == [("user", "hi\n[omitted: hologram]")]
    assert sorted(call.unmapped) == [
        "$.context_management",
        "$.future_field",
        "$.messages[0].content[0].new_key",
        "$.messages[0].content[1]",
        "$.messages[0].mood",
        "$.output_config.task_budget",
        "$.service_tier",
        "$.thinking.display",
    ]


def test_o_req_anthropic_15_counting_reads_the_same_prompt_and_needs_no_limit():
    body: dict[str, Any] = {"model": "m", "system": "You are terse.", "tools": [LS], "messages": [USER]}
    counted = raw(json.dumps(body).encode(), path="/v1/messages/count_tokens")
    called = ask(**body)
    assert (counted.chat.messages, counted.chat.tools) == (called.chat.messages, called.chat.tools)
    answer = DIALECT.count(counted, 17)
    assert (answer.status, json.loads(answer.body)) == (200, {"input_tokens": 17})


@pytest.mark.parametrize(
    ("value", "thinking"),
    [
        (None, None),
        ({"type": "disabled"}, False),
        ({"type": "enabled", "budget_tokens": 1024}, True),
        ({"type": "adaptive"}, True),
        ({"type": "between_tools"}, True),
        ({"type": "telepathic"}, None),
    ],
)
def test_thinking_is_switched_as_asked(value: Any, thinking: bool | None):
    call = ask(thinking=value)
    assert call.chat.thinking is thinking
    assert ("$.thinking.budget_tokens" in call.unmapped) is (value is not None and "budget_tokens" in value)
    assert ("$.thinking.type" in call.unmapped) is (value == {"type": "telepathic"})


@pytest.mark.parametrize("place", ["output_config", "output_format"])
def test_structured_output_is_asked_of_the_engine(place: str):
    form: dict[str, Any] = {"type": "json_schema", "schema": {"type": "object"}}
    asked: dict[str, Any] = {place: {"format": form} if place == "output_config" else form}
    call = ask(**asked)
    assert call.chat.response_format == {
        "type": "json_schema",
        "json_schema": {"name": "output", "schema": {"type": "object"}, "strict": True},
    }
    assert call.unmapped == []


def test_sampling_is_read():
    call = ask(temperature=0.5, top_p=0.9, top_k=40, stop_sequences=["END", "\n\n"], max_tokens=7, stream=True)
    sampling = call.chat.sampling
    assert (sampling.temperature, sampling.top_p, sampling.top_k) == (0.5, 0.9, 40)
    assert (sampling.stop, sampling.max_tokens, call.stream) == (["END", "\n\n"], 7, True)


def test_effort_of_a_message_is_silent_only_where_it_repeats_the_requests():
    system = {"role": "system", "content": "env", "output_config": {"effort": "medium"}}
    assert ask(messages=[USER, system], output_config={"effort": "medium"}).unmapped == []
    assert ask(messages=[USER, system]).unmapped == ["$.messages[1].output_config.effort"]


def test_o_merge_07_the_billing_line_is_dropped_and_a_quotation_of_it_stays():
    billing = "x-anthropic-billing-header: cc_version=1.2.3; cch={};"
    first, second = (ask(system=[text(billing.format(h)), text("You are a coder.")]) for h in ("aaaaa", "bbbbb"))
    assert first.chat == second.chat
    assert said(first)[0] == ("system", "You are a coder.")
    assert first.dropped == [
        {"rule": "claude-code-billing-header", "path": "$.system[0]", "text": billing.format("aaaaa")}
    ]
    quoting = ask(messages=[{"role": "user", "content": billing.format("aaaaa")}])
    assert (said(quoting), quoting.dropped) == ([("user", billing.format("aaaaa"))], [])
