"""Completions as Chat Completions JSON and chunks."""

import json
from typing import Any

import pytest

from polar_capture.dialects.base import ModelCard, WireRequest
from polar_capture.dialects.openai_chat import OpenAIChat
from polar_capture.faults import CallError, FaultKind
from tests.unit.dialects.openai_chat.build import (
    DIALECT,
    LS,
    answer,
    ask,
    choice,
    chunks,
    completion,
    minter,
    streamed,
)

ENTRIES = [
    {"token": token, "logprob": -0.1, "bytes": None, "top_logprobs": [{"token": t, "logprob": -1.0} for t in "ab"]}
    for token in ("O", "k", ".", "<|im_end|>")
]
LOGPROBS = json.dumps(ENTRIES).encode()
USAGE = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}


@pytest.mark.parametrize(
    ("options", "asked"), [({"include_usage": True}, True), (None, False), ({"include_usage": False}, False)]
)
def test_o_resp_chat_01_usage_chunk_only_when_asked(options: Any, asked: bool) -> None:
    got = chunks(streamed(ask(stream=True, stream_options=options), completion()))
    empty = [chunk for chunk in got if chunk["choices"] == []]
    if not asked:
        assert empty == []
        assert all(chunk.get("usage") is None for chunk in got)
        return
    assert empty == [got[-1]]
    assert USAGE.items() <= got[-1]["usage"].items()
    assert got[-2]["choices"][0]["finish_reason"] == "stop"
    assert all(chunk["usage"] is None for chunk in got[:-1])


@pytest.mark.parametrize("before", [(), ("open",), ("noop", "noop"), ("open", "open", "noop")])
def test_o_resp_chat_02_role_finish_reason_and_stable_ids(before: tuple[str, ...]) -> None:
    got = chunks(streamed(ask(stream=True), completion(), *before))
    assert got[0]["choices"][0]["delta"]["role"] == "assistant"
    assert all("role" not in chunk["choices"][0]["delta"] for chunk in got[1:])
    assert [chunk["choices"][0]["finish_reason"] for chunk in got] == [None] * (len(got) - 1) + ["stop"]
    for key, value in (("object", "chat.completion.chunk"), ("model", "m")):
        assert {chunk[key] for chunk in got} == {value}
    for key in ("id", "created"):
        assert len({chunk[key] for chunk in got}) == 1
    assert "".join(chunk["choices"][0]["delta"].get("content") or "" for chunk in got) == "Ok."


def test_o_resp_chat_03_no_empty_list_of_calls() -> None:
    given = completion(choice("Hi"))
    message = answer(ask(tools=[LS]), given)["choices"][0]
    assert "tool_calls" not in message["message"]
    assert message["message"]["content"] == "Hi"
    assert message["finish_reason"] == "stop"
    assert b"tool_calls" not in streamed(ask(tools=[LS], stream=True), given)


def test_o_resp_chat_03_a_tool_finish_without_calls_is_a_stop() -> None:
    assert (
        answer(ask(tools=[LS]), completion(choice("Hi", finish="tool_calls")))["choices"][0]["finish_reason"] == "stop"
    )


@pytest.mark.parametrize(
    ("calls", "finish", "said"),
    [
        ([("ls", "{}")], "tool_calls", "tool_calls"),
        ([("ls", "{}")], "stop", "tool_calls"),  # the engine's word for a named function
        ([("ls", "{}")], "length", "length"),
        ([], "length", "length"),
        ([], "content_filter", "content_filter"),
        ([], "repetition", "length"),
        ([], "surprise", "stop"),
    ],
)
def test_finish_reasons(calls: list[tuple[str, str]], finish: str, said: str) -> None:
    given = completion(choice("x", calls=calls, finish=finish))
    assert answer(ask(), given)["choices"][0]["finish_reason"] == said
    assert chunks(streamed(ask(stream=True), given))[-1]["choices"][0]["finish_reason"] == said


def test_an_aborted_generation_is_no_answer() -> None:
    with pytest.raises(CallError) as refused:
        answer(ask(), completion(choice("par", finish="abort")))
    assert refused.value.fault.kind is FaultKind.OVERLOADED


def test_the_whole_answer() -> None:
    ours = minter()
    body = json.loads(
        DIALECT.reply(ask(), completion(choice("Hi", "hm", [("ls", '{"a": 1}'), ("ls", "")])), ours).json()
    )
    message = body["choices"][0]["message"]
    ids = [call["id"] for call in message["tool_calls"]]
    assert body["object"] == "chat.completion"
    assert body["id"].startswith("chatcmpl-")
    assert [body["id"], *ids] == ours.minted
    assert len(set(ids)) == 2
    assert all(call_id.startswith("call_") and len(call_id) <= 64 for call_id in ids)
    assert body["created"] > 1_700_000_000
    assert message["reasoning_content"] == message["reasoning"] == "hm"
    assert message["refusal"] is None
    assert message["annotations"] == []
    assert [call["function"] for call in message["tool_calls"]] == [
        {"name": "ls", "arguments": '{"a": 1}'},
        {"name": "ls", "arguments": ""},
    ]
    assert body["usage"] == {
        **USAGE,
        "prompt_tokens_details": {"cached_tokens": 60, "audio_tokens": 0},
        "completion_tokens_details": {
            "reasoning_tokens": 5,
            "audio_tokens": 0,
            "accepted_prediction_tokens": 0,
            "rejected_prediction_tokens": 0,
        },
    }


@pytest.mark.parametrize(("content", "calls", "said"), [(None, [], ""), (None, [("ls", "{}")], None), ("", [], "")])
def test_content_is_null_only_beside_calls(content: str | None, calls: list[tuple[str, str]], said: str | None) -> None:
    assert answer(ask(), completion(choice(content, calls=calls)))["choices"][0]["message"]["content"] == said


@pytest.mark.parametrize("asked", [{}, {"logprobs": True}, {"logprobs": True, "top_logprobs": 1}])
def test_o_req_chat_06_logprobs_shown_as_asked_and_ids_never(asked: dict[str, Any]) -> None:
    given = completion(choice("Ok.", logprobs_content=LOGPROBS))
    shown = answer(ask(**asked), given)["choices"][0]["logprobs"]
    got = chunks(streamed(ask(stream=True, **asked), given))
    in_chunks = [chunk["choices"][0]["logprobs"] for chunk in got]
    if not asked:
        assert shown is None
        assert in_chunks == [None] * len(got)
    else:
        top = asked.get("top_logprobs", 0)
        assert [entry["token"] for entry in shown["content"]] == ["O", "k", ".", "<|im_end|>"]
        assert [len(entry["top_logprobs"]) for entry in shown["content"]] == [top] * 4
        assert [entry for one in in_chunks if one for entry in one["content"]] == shown["content"]


@pytest.mark.parametrize("stream", [True, False])
def test_o_capture_02_token_ids_are_never_shown(stream: bool) -> None:
    given = completion(choice(None, "hm", [("ls", '{"dir":"a"}')], logprobs_content=LOGPROBS))
    body = streamed(ask(stream=True, logprobs=True), given) if stream else json.dumps(answer(ask(), given)).encode()
    assert b"token_ids" not in body
    assert b"prompt_token_ids" not in body


def test_streamed_logprobs_lie_beside_their_text() -> None:
    tokens = [f"w{k} " for k in range(40)]
    entries = json.dumps([{"token": t, "logprob": -0.5, "bytes": None, "top_logprobs": []} for t in [*tokens, "<end>"]])
    given = completion(choice("".join(tokens), logprobs_content=entries.encode()))
    for chunk in chunks(streamed(ask(stream=True, logprobs=True), given)):
        one = chunk["choices"][0]
        if one["logprobs"]:
            spelled = "".join(entry["token"] for entry in one["logprobs"]["content"])
            assert spelled.removesuffix("<end>") == one["delta"]["content"]


def test_every_choice_is_told() -> None:
    given = completion(choice("a", index=0), choice("b", calls=[("ls", "{}")], index=1, finish="tool_calls"))
    assert [one["message"]["content"] for one in answer(ask(n=2), given)["choices"]] == ["a", "b"]
    got = chunks(streamed(ask(n=2, stream=True), given))
    assert [chunk["choices"][0]["index"] for chunk in got[:2]] == [0, 1]
    finishes = {
        c["choices"][0]["index"]: c["choices"][0]["finish_reason"] for c in got if c["choices"][0]["finish_reason"]
    }
    assert finishes == {0: "stop", 1: "tool_calls"}


def test_legacy_functions_are_answered_in_the_old_shape() -> None:
    functions = [{"name": "ls"}]
    given = completion(choice(None, calls=[("ls", '{"a":1}')], finish="tool_calls"))
    one = answer(ask(functions=functions), given)["choices"][0]
    assert one["message"]["function_call"] == {"name": "ls", "arguments": '{"a":1}'}
    assert "tool_calls" not in one["message"]
    assert one["finish_reason"] == "function_call"
    got = chunks(streamed(ask(functions=functions, stream=True), given))
    parts = [c["choices"][0]["delta"]["function_call"] for c in got if "function_call" in c["choices"][0]["delta"]]
    assert parts[0]["name"] == "ls"
    assert "".join(part["arguments"] for part in parts) == '{"a":1}'


@pytest.mark.parametrize(
    ("arguments", "given"), [('{"input":"a\\nb"}', "a\nb"), ('{"input": 1}', '{"input": 1}'), ("x", "x")]
)
def test_custom_tools_are_answered_as_custom_calls(arguments: str, given: str) -> None:
    call = ask(tools=[{"type": "custom", "custom": {"name": "patch"}}])
    tool_call = answer(call, completion(choice(None, calls=[("patch", arguments)])))["choices"][0]["message"][
        "tool_calls"
    ][0]
    assert tool_call["type"] == "custom"
    assert tool_call["custom"] == {"name": "patch", "input": given}


def test_hidden_reasoning_is_not_shown() -> None:
    given = completion(choice("x", "secret"))
    assert "secret" not in json.dumps(answer(ask(include_reasoning=False), given))
    assert b"secret" not in streamed(ask(include_reasoning=False, stream=True), given)


def test_long_text_is_cut_into_many_deltas_but_not_thousands() -> None:
    text = "é\u2028\U0001f600\0" * 50_000
    got = chunks(streamed(ask(stream=True), completion(choice(text))))
    assert 100 < len(got) < 200
    assert "".join(chunk["choices"][0]["delta"].get("content") or "" for chunk in got) == text


def test_composing_twice_gives_the_same_ids() -> None:
    call, ours = ask(), minter()
    assert DIALECT.reply(call, completion(), ours).headers() == DIALECT.reply(call, completion(), ours).headers()
    assert DIALECT.reply(call, completion(), minter()).headers() != DIALECT.reply(call, completion(), ours).headers()


@pytest.mark.parametrize("path", ["/v1/models", "/models", "/api/v1/models"])
def test_model_list(path: str) -> None:
    route = OpenAIChat().match("GET", path)
    assert route is not None
    body = json.loads(DIALECT.models([ModelCard("tiny", 4096, 5)], WireRequest("GET", path), route).body)
    assert body["object"] == "list"
    assert body["data"] == [
        {"id": "tiny", "object": "model", "created": 5, "owned_by": "polar-capture"}
        | {"context_length": 4096, "max_model_len": 4096}
    ]


def test_any_model_is_served_by_the_one() -> None:
    route = DIALECT.match("GET", "/v1/models/org/gpt:free")
    assert route is not None
    body = json.loads(DIALECT.models([ModelCard("tiny", 4096)], WireRequest("GET", ""), route).body)
    assert (body["id"], body["context_length"]) == ("org/gpt:free", 4096)
