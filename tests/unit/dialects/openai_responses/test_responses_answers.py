"""What a client is answered, as JSON and as a stream. Names hold the field reports' ids (o-resp-responses-NN)."""

import json
from itertools import pairwise
from typing import Any

import pytest

from polar_capture.chat import Usage
from polar_capture.faults import CallError, FaultKind
from polar_capture.lineage.minting import Minter
from tests.unit.dialects.openai_responses.build import (
    DIALECT,
    EXEC,
    LS,
    answer,
    ask,
    completion,
    events,
    minter,
    streamed,
    user,
)

PATCH = {"type": "custom", "name": "apply_patch", "format": {"type": "grammar", "syntax": "lark", "definition": "x"}}
DOCS = {"type": "namespace", "name": "mcp__docs", "tools": [{**EXEC, "name": "search"}]}


def types(found: list[dict[str, Any]]) -> list[str]:
    """Event types, a run of equal ones once."""
    kinds = [event["type"].removeprefix("response.") for event in found]
    return [kind for kind, before in zip(kinds, [None, *kinds], strict=False) if kind != before]


def item_of(calls: list[tuple[str, str]], tools: list[dict[str, Any]]) -> dict[str, Any]:
    """The one output item of an answer with this call: the same as JSON, announced and done."""
    call, given = ask(tools=tools), completion(None, calls=calls, finish="tool_calls")
    (item,) = answer(call, given)["output"]
    stream = streamed(ask(tools=tools), given)
    done = next(e["item"] for e in stream if e["type"] == "response.output_item.done")
    begun = next(e["item"] for e in stream if e["type"] == "response.output_item.added")
    same = ("type", "name", "namespace")
    assert [item.get(k) for k in same] == [begun.get(k) for k in same] == [done.get(k) for k in same]
    assert begun["call_id"] == done["call_id"]
    return item


def test_o_resp_responses_01_events_in_order() -> None:
    found = streamed(ask(stream=True), completion("Ok."), "open")
    assert types(found) == [
        "created",
        "in_progress",
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "completed",
    ]
    assert [event["sequence_number"] for event in found] == list(range(len(found)))
    for event in (found[0], found[1], found[-1]):
        assert event["response"]["id"] == found[0]["response"]["id"]
        assert event["response"]["object"] == "response"
    assert [event["response"]["status"] for event in (found[0], found[1], found[-1])] == [
        "in_progress",
        "in_progress",
        "completed",
    ]
    assert found[0]["response"]["usage"] is None


def test_all_events_of_a_turn_with_thought_text_and_calls() -> None:
    given = completion("Look.", "hm", [("ls", "{}"), ("apply_patch", '{"input":"x"}')], "tool_calls")
    found = streamed(ask(stream=True, tools=[LS, PATCH]), given)
    assert types(found)[2:] == [
        "output_item.added",
        "reasoning_summary_part.added",
        "reasoning_summary_text.delta",
        "reasoning_summary_text.done",
        "reasoning_summary_part.done",
        "output_item.done",
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "output_item.added",
        "function_call_arguments.delta",
        "function_call_arguments.done",
        "output_item.done",
        "output_item.added",
        "custom_tool_call_input.delta",
        "custom_tool_call_input.done",
        "output_item.done",
        "completed",
    ]


def test_o_resp_responses_02_one_item_one_id() -> None:
    given = completion("Ok.", "hm", [("ls", '{"dir":"a"}'), ("ls", "{}")], "tool_calls")
    found = streamed(ask(stream=True, tools=[LS]), given, "open", "noop")
    output = found[-1]["response"]["output"]
    for index, item in enumerate(output):
        group = [event for event in found if event.get("output_index") == index]
        assert {event.get("item_id") or event["item"]["id"] for event in group} == {item["id"]}
        assert {event["item"].get("call_id") for event in group if "item" in event} == {item.get("call_id")}
    identifiers = [item["id"] for item in output] + [item["call_id"] for item in output if "call_id" in item]
    assert len(set(identifiers)) == len(identifiers) == 6


@pytest.mark.parametrize(
    ("usage", "expected"),
    [(Usage(9, 4), (9, 4, 13, 0, 0)), (Usage(), (3, 2, 5, 0, 0)), (Usage(9, 4, 5, 2), (9, 4, 13, 5, 2))],
)
def test_o_resp_responses_03_usage_is_whole(usage: Usage, expected: tuple[int, ...]) -> None:
    given = completion(usage=usage)
    for response in (answer(ask(), given), streamed(ask(stream=True), given)[-1]["response"]):
        used = response["usage"]
        assert expected == (
            used["input_tokens"],
            used["output_tokens"],
            used["total_tokens"],
            used["input_tokens_details"]["cached_tokens"],
            used["output_tokens_details"]["reasoning_tokens"],
        )


@pytest.mark.parametrize(
    ("finish", "reason"),
    [("length", "max_output_tokens"), ("content_filter", "content_filter"), ("repetition", "max_output_tokens")],
)
def test_o_resp_responses_04_a_cut_answer_is_incomplete(finish: str, reason: str) -> None:
    given = completion("Half an ans", finish=finish)
    found = streamed(ask(stream=True), given)
    assert found[-1]["type"] == "response.incomplete"
    assert "response.completed" not in [event["type"] for event in found]
    for response in (answer(ask(), given), found[-1]["response"]):
        assert response["status"] == "incomplete"
        assert response["incomplete_details"] == {"reason": reason}
        assert response["output"][0]["content"][0]["text"] == "Half an ans"
        assert response["output"][0]["status"] == "incomplete"


def test_o_resp_responses_05_blanks_before_a_call_are_no_message() -> None:
    item = item_of([("ls", '{"dir":"a"}')], [LS])
    assert (item["type"], item["name"], item["arguments"], item["status"]) == (
        "function_call",
        "ls",
        '{"dir":"a"}',
        "completed",
    )
    given = completion("\n\n", calls=[("ls", '{"dir":"a"}')], finish="tool_calls")
    assert [item["type"] for item in answer(ask(tools=[LS]), given)["output"]] == ["function_call"]


@pytest.mark.parametrize(
    ("content", "reasoning", "expected"),
    [
        ("", None, ["message"]),
        (None, None, ["message"]),
        ("\n\n", "hm", ["reasoning"]),
        ("x", "hm", ["reasoning", "message"]),
    ],
)
def test_an_answer_has_at_least_one_item(content: str | None, reasoning: str | None, expected: list[str]) -> None:
    assert [item["type"] for item in answer(ask(), completion(content, reasoning))["output"]] == expected


def test_o_req_responses_03_a_custom_tools_call_comes_back_as_raw_text() -> None:
    text = '*** Begin Patch\n+a"b\n*** End Patch'
    calls = [("apply_patch", json.dumps({"input": text}))]
    item = item_of(calls, [EXEC, PATCH])
    assert (item["type"], item["name"], item["input"]) == ("custom_tool_call", "apply_patch", text)
    found = streamed(ask(tools=[EXEC, PATCH]), completion(None, calls=calls))
    deltas = [event["delta"] for event in found if event["type"] == "response.custom_tool_call_input.delta"]
    done = next(event for event in found if event["type"] == "response.custom_tool_call_input.done")
    assert "".join(deltas) == text == done["input"]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ('{"input": "a\\nb"}', "a\nb"),
        ('{"code": "x"}', "x"),
        ('"bare"', "bare"),
        ("not json {", "not json {"),
        ('{"a": 1, "b": 2}', '{"a": 1, "b": 2}'),
        ('{"input": 5}', '{"input": 5}'),
        ("", ""),
    ],
)
def test_custom_input_of_a_model_that_misses_the_form(arguments: str, text: str) -> None:
    assert item_of([("apply_patch", arguments)], [PATCH])["input"] == text


@pytest.mark.parametrize("called", ["mcp__docs__search", "search", "mcp__docs.search"])
def test_o_req_responses_04_a_call_names_its_group(called: str) -> None:
    item = item_of([(called, '{"q":"x"}')], [EXEC, DOCS])
    assert (item["type"], item["name"], item["namespace"]) == ("function_call", "search", "mcp__docs")
    assert item["arguments"] == '{"q":"x"}'


def test_a_custom_tool_of_a_group_names_it_too() -> None:
    group = {"type": "namespace", "name": "functions", "tools": [{"type": "custom", "name": "exec"}]}
    call = ask(input=[{"type": "additional_tools", "role": "developer", "tools": [group]}, user("go")])
    (item,) = answer(call, completion(None, calls=[("functions__exec", '{"input":"1"}')]))["output"]
    assert (item["type"], item["name"], item["namespace"], item["input"]) == (
        "custom_tool_call",
        "exec",
        "functions",
        "1",
    )


@pytest.mark.parametrize(
    ("tool", "arguments", "expected"),
    [
        (
            "local_shell",
            {"command": ["ls"], "timeout_ms": 3},
            {
                "action": {
                    "type": "exec",
                    "command": ["ls"],
                    "env": {},
                    "timeout_ms": 3,
                    "user": None,
                    "working_directory": None,
                }
            },
        ),
        (
            "shell",
            {"commands": ["ls"]},
            {"action": {"commands": ["ls"], "timeout_ms": None, "max_output_length": None}},
        ),
        (
            "apply_patch",
            {"type": "update_file", "path": "a", "diff": "@@"},
            {"operation": {"type": "update_file", "path": "a", "diff": "@@"}},
        ),
        ("tool_search", {"query": "x"}, {"arguments": {"query": "x"}, "execution": "client"}),
    ],
)
def test_special_tools_are_called_by_their_own_items(tool: str, arguments: Any, expected: dict[str, Any]) -> None:
    item = item_of([(tool, json.dumps(arguments))], [{"type": tool, "execution": "client"}])
    assert item["type"] == f"{tool}_call"
    assert expected.items() <= item.items()


@pytest.mark.parametrize("arguments", ["{}", "no json", "[1]", '{"command": "ls"}'])
def test_arguments_that_fit_no_special_item_come_as_a_function_call(arguments: str) -> None:
    item = item_of([("local_shell", arguments)], [{"type": "local_shell"}])
    assert (item["type"], item["name"], item["arguments"]) == ("function_call", "local_shell", arguments)


def test_an_unknown_tool_comes_as_it_was_called() -> None:
    item = item_of([("made_up", "{}")], [EXEC])
    assert (item["type"], item["name"], "namespace" in item) == ("function_call", "made_up", False)


def test_encrypted_content_only_where_asked_for() -> None:
    given = completion("Ok.", "hm")
    plain = answer(ask(), given)["output"][0]
    sealed = answer(ask(include=["reasoning.encrypted_content"]), given)["output"][0]
    assert "encrypted_content" not in plain
    assert plain["summary"] == [{"type": "summary_text", "text": "hm"}]
    assert len(sealed["encrypted_content"]) > 90


def test_all_ids_are_minted_and_the_same_early_and_late() -> None:
    call, ours = ask(stream=True, include=["reasoning.encrypted_content"], tools=[LS]), minter()
    stream = DIALECT.stream(call, ours, "tiny")
    early = events(stream.open(None))
    reply = DIALECT.reply(call, completion("Ok.", "hm", [("ls", "{}")]), ours)
    late = events(stream.finish(reply))
    response = late[-1]["response"]
    assert early[0]["response"]["id"] == response["id"]
    shown = [response["id"]]
    for item in response["output"]:
        shown += [item[key] for key in ("id", "call_id", "encrypted_content") if key in item]
    assert set(shown) <= set(ours.minted)
    assert stream.open(100) == b""


def test_composing_again_gives_the_same_answer() -> None:
    given = completion("Ok.", "hm", [("ls", "{}"), ("ls", "{}")])
    first, again = (answer(ask(tools=[LS]), given, Minter("01990000-0000-7000-8000-000000000001")) for _ in range(2))
    assert first == again
    assert first["created_at"] == 0x019900000000 // 1000


def test_noops_are_typed_and_numbered() -> None:
    found = streamed(ask(stream=True), completion("Ok."), "noop", "noop", "noop")
    assert types(found)[:2] == ["created", "in_progress"]
    assert [event["type"] for event in found[:4]] == ["response.created"] + ["response.in_progress"] * 3
    assert all(after["sequence_number"] == before["sequence_number"] + 1 for before, after in pairwise(found))


def test_the_response_echoes_what_was_asked() -> None:
    given = {
        "instructions": "Be brief.",
        "metadata": {"run": "7"},
        "store": False,
        "service_tier": "flex",
        "user": "u",
        "safety_identifier": "s",
        "prompt_cache_key": "k",
        "truncation": "auto",
        "temperature": 0.2,
        "top_p": 0.5,
        "max_output_tokens": 77,
        "parallel_tool_calls": False,
        "tool_choice": "required",
        "top_logprobs": 2,
    }
    said = answer(ask(**given, tools=[EXEC], reasoning={"effort": "low"}, text={"verbosity": "low"}), completion())
    assert given.items() <= said.items()
    assert said["reasoning"] == {"effort": "low", "summary": None}
    assert said["text"] == {"format": {"type": "text"}, "verbosity": "low"}
    assert said["tools"] == [{**EXEC, "description": None, "strict": True}]
    assert said["model"] == "m"


def test_logprobs_of_the_text_alone() -> None:
    tokens = ["hm", "</think>", "\n\n", "Gr", "ü", "n", "<|im_end|>"]
    raw = json.dumps(
        [
            {"token": t, "bytes": list(t.encode()), "logprob": -0.5, "top_logprobs": [{"token": "x", "logprob": -9}]}
            for t in tokens
        ]
    ).encode()
    given = completion("Grün", "hm", logprobs_content=raw)
    asked = {"include": ["message.output_text.logprobs"], "top_logprobs": 1}
    part = answer(ask(**asked), given)["output"][1]["content"][0]
    assert [entry["token"] for entry in part["logprobs"]] == ["Gr", "ü", "n"]
    assert part["logprobs"][1]["bytes"] == list("ü".encode())
    assert part["logprobs"][0]["top_logprobs"] == [{"token": "x", "bytes": [120], "logprob": -9}]
    assert answer(ask(), given)["output"][1]["content"][0]["logprobs"] == []
    found = streamed(ask(stream=True, **asked), given)
    done = next(event for event in found if event["type"] == "response.output_text.done")
    assert [entry["token"] for entry in done["logprobs"]] == ["Gr", "ü", "n"]


def test_an_aborted_generation_is_no_answer() -> None:
    with pytest.raises(CallError) as refused:
        answer(ask(), completion("Half", finish="abort"))
    assert refused.value.fault.kind is FaultKind.OVERLOADED


def test_token_counts() -> None:
    said = DIALECT.count(ask(path="/v1/responses/input_tokens"), 42)
    assert json.loads(said.body) == {"object": "response.input_tokens", "input_tokens": 42}
