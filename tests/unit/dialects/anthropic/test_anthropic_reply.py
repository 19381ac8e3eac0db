"""Answers in JSON and as streams: the same message in both, by a strict reader of the stream."""

import json
import re
from typing import Any

import pytest

from polar_capture.chat import Completion, Usage
from polar_capture.dialects.base import HttpAnswer, ModelCard, WireRequest
from polar_capture.faults import CallError, FaultKind
from tests.unit.dialects.anthropic.build import (
    DIALECT,
    LS,
    NOOP,
    answer,
    ask,
    completion,
    events,
    minter,
    rebuilt,
    result,
    said,
    streamed,
    used,
)

STREAM = ask(tools=[LS], stream=True)


def both(given: Completion, **body: Any) -> dict[str, Any]:
    """The answer, which must be the same in JSON, in a stream at once, and in one that was opened early."""
    call = ask(tools=[LS], **body)
    message = answer(call, given)
    for early in ((), (None, 100), (None, NOOP, 100, NOOP)):
        again = rebuilt(streamed(call, given, *early))
        assert blank(again) == blank(message)
    return message


def blank(message: dict[str, Any]) -> str:
    """The message without the call's own part of ids."""
    return re.sub(r'(msg_|toolu_)[0-9a-f]{32}|"signature": "[^"]+"', r"\1", json.dumps(message))


def blocks(message: dict[str, Any]) -> list[Any]:
    """What each block says: thought, text, or (name, input)."""
    said_by = {"thinking": lambda b: ("thinking", b["thinking"]), "text": lambda b: b["text"]}
    return [said_by.get(b["type"], lambda b: (b["name"], b["input"]))(b) for b in message["content"]]


def test_o_resp_anthropic_01_text_then_a_call_whose_arguments_come_in_one_piece():
    given = completion("Looking.", calls=[("ls", '{"dir":"src"}')], finish="tool_calls")
    message = both(given)
    assert blocks(message) == ["Looking.", ("ls", {"dir": "src"})]
    assert message["stop_reason"] == "tool_use"
    starts = [event for event in events(streamed(STREAM, given)) if event["type"] == "content_block_start"]
    assert [(e["index"], e["content_block"]["type"]) for e in starts] == [(0, "text"), (1, "tool_use")]
    assert starts[1]["content_block"]["input"] == {}


def test_o_resp_responses_05_blanks_before_a_call_are_no_block_here_either():
    assert blocks(both(completion("\n\n", calls=[("ls", "{}")], finish="tool_calls"))) == [("ls", {})]
    assert blocks(both(completion("\n\n"))) == ["\n\n"]


def test_o_resp_anthropic_02_blocks_are_sequential_and_of_one_kind_each():
    given = completion("Ok.", "Let me see.", [("ls", "{}")], finish="tool_calls")
    message = both(given, thinking={"type": "enabled", "budget_tokens": 1024})
    assert blocks(message) == [("thinking", "Let me see."), "Ok.", ("ls", {})]
    assert len(message["content"][0]["signature"]) > 40


@pytest.mark.parametrize("early", [(), (100,), (None, 100)], ids=["at once", "sized", "pinged"])
def test_o_resp_anthropic_03_the_first_event_of_a_message_tells_the_real_prompt_size(early: tuple[int | None, ...]):
    told = [event for event in events(streamed(STREAM, completion(), *early)) if event["type"] != "ping"]
    usage = told[0]["message"]["usage"]
    assert told[0]["type"] == "message_start"
    assert (usage["input_tokens"], usage["output_tokens"]) == (100, 0)
    assert told[-2]["usage"]["output_tokens"] == 20


def test_cached_tokens_are_not_counted_twice():
    usage = both(completion(usage=Usage(100, 20, cached_tokens=60, reasoning_tokens=5)))["usage"]
    assert usage == {
        "input_tokens": 40,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 60,
        "output_tokens": 20,
        "output_tokens_details": {"thinking_tokens": 5},
    }


@pytest.mark.parametrize(
    ("stop", "want"),
    [
        ("END", ("stop_sequence", "END")),
        (None, ("end_turn", None)),
        (901, ("end_turn", None)),
        ("</ours>", ("end_turn", None)),
    ],
    ids=["hit", "none", "token id", "not the client's"],
)
def test_o_resp_anthropic_04_only_the_clients_stop_strings_are_reported(stop: Any, want: tuple[str, str | None]):
    message = both(completion("abc", stop=stop), stop_sequences=["END"])
    assert (message["stop_reason"], message["stop_sequence"]) == want
    start, *_, delta, _ = events(streamed(ask(stop_sequences=["END"]), completion("abc", stop=stop)))
    assert start["message"]["stop_sequence"] is None
    assert delta["delta"]["stop_sequence"] == want[1]


def test_o_resp_anthropic_05_a_call_that_the_limit_cut_in_half_is_no_call():
    message = both(completion("", calls=[("ls", '{"dir":"sr')], finish="length"))
    assert (blocks(message), message["stop_reason"]) == (['ls {"dir":"sr'], "max_tokens")


def test_a_whole_call_before_the_limit_stays_a_call():
    message = both(completion(None, calls=[("ls", '{"dir":"a"}'), ("ls", "{")], finish="length"))
    assert (blocks(message), message["stop_reason"]) == ([("ls", {"dir": "a"}), "ls {"], "max_tokens")


@pytest.mark.parametrize("finish", ["stop", "tool_calls"])
def test_o_resp_anthropic_06_a_call_always_ends_in_tool_use(finish: str):
    forced = {"tool_choice": {"type": "tool", "name": "ls"}}
    message = both(completion("", calls=[("ls", '{"dir":"."}')], finish=finish), **forced)
    assert (blocks(message), message["stop_reason"]) == ([("ls", {"dir": "."})], "tool_use")


@pytest.mark.parametrize("arguments", ["", "{}", " ", "null"])
def test_o_resp_anthropic_07_no_arguments_are_an_empty_object(arguments: str):
    given = completion(None, calls=[("ls", arguments)], finish="tool_calls")
    assert blocks(both(given)) == [("ls", {})]
    inputs = [event["delta"] for event in events(streamed(STREAM, given)) if event["type"] == "content_block_delta"]
    # Qwen Code takes an empty argument buffer for a cut call.
    assert inputs == [{"type": "input_json_delta", "partial_json": "{}"}]


@pytest.mark.parametrize("broken", ['{"dir": oops', '["a"]', '"a"', "1", '{"a":"\\ud800"}', "{" * 2000, '{"a":1}}'])
def test_o_resp_anthropic_08_a_broken_call_says_what_was_sampled_and_comes_back_as_it_was(broken: str):
    given = completion("Two calls.", calls=[("ls", '{"dir": "a"}'), ("ls", broken)], finish="tool_calls")
    message = both(given)
    assert blocks(message) == ["Two calls.", ("ls", {"dir": "a"}), ("ls", {"raw_arguments": broken})]
    assert message["stop_reason"] == "tool_use"
    ids = [block["id"] for block in message["content"][1:]]
    replay = ask(messages=used(*(result("x", i) for i in ids), before=message["content"]))
    assert replay.chat.messages[1].tool_calls[1].arguments == broken


def test_o_resp_anthropic_09_calls_of_one_answer_have_ids_of_their_own_and_pair_with_their_results():
    message = both(completion(None, calls=[("ls", '{"dir":"a"}'), ("ls", '{"dir":"b"}')], finish="tool_calls"))
    first, second = (block["id"] for block in message["content"])
    assert first != second
    assert all(re.fullmatch(r"toolu_[A-Za-z0-9_-]+", i) for i in (first, second))
    replay = ask(messages=used(result("B", second), result("A", first), before=message["content"]))
    assistant, *tools = replay.chat.messages[1:]
    directories = {call.id: json.loads(call.arguments)["dir"] for call in assistant.tool_calls}
    assert {directories[str(tool.tool_call_id)]: tool.content for tool in tools} == {"a": "A", "b": "B"}


def test_o_resp_anthropic_10_the_answer_names_the_model_that_was_asked_for():
    message = both(completion(), model="claude-sonnet-4-5-20250929")
    assert message["model"] == "claude-sonnet-4-5-20250929"
    early = DIALECT.stream(ask(model="claude-x"), minter(), "local/model-7b").open(5)
    assert events(early)[0]["message"]["model"] == "claude-x"


@pytest.mark.parametrize("content", ["", None])
def test_o_resp_anthropic_11_no_answer_at_all_is_a_valid_message_that_can_be_replayed(content: str | None):
    message = both(completion(content))
    assert (message["content"], message["stop_reason"]) == ([], "end_turn")
    echoes: list[Any] = [[], ""]
    for echo in echoes:
        turns = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": echo}]
        assert said(ask(messages=[*turns, {"role": "user", "content": "go on"}]))[-1] == ("user", "go on")


def test_o_resp_anthropic_12_pieces_never_cut_a_character():
    words, path = "a😀b漢字👩‍👩‍👧‍👦é\u2028 " * 300, "цвет/😀" * 400
    given = completion(words, words, [("ls", json.dumps({"dir": path}, ensure_ascii=False))], finish="tool_calls")
    data = streamed(STREAM, given)
    assert blocks(rebuilt(data)) == [("thinking", words), words, ("ls", {"dir": path})]
    pieces = [event["delta"].get("text", "") for event in events(data) if event["type"] == "content_block_delta"]
    assert not any(re.search("[\ud800-\udfff\ufffd]", piece) for piece in pieces)
    assert len(pieces) > 20


def test_odd_arguments_are_delivered_as_they_were_sampled():
    sampled = '{ "b":1.50,\n "a":"\\u0068\\/", "n": 123456789012345678901234567890, "b": 2}'
    given = completion(None, calls=[("ls", sampled)], finish="tool_calls")
    data = streamed(STREAM, given)
    (delta,) = [event["delta"] for event in events(data) if event["type"] == "content_block_delta"]
    assert delta["partial_json"] == sampled
    assert sampled.encode() in DIALECT.reply(STREAM, given, minter()).json()


@pytest.mark.parametrize(
    ("finish", "reason"),
    [("length", "max_tokens"), ("repetition", "max_tokens"), ("content_filter", "refusal"), ("tool_calls", "end_turn")],
)
def test_stop_reasons(finish: str, reason: str):
    assert both(completion("abc", finish=finish))["stop_reason"] == reason


@pytest.mark.parametrize("finish", ["abort", "error", "", "unheard-of"])
def test_an_aborted_generation_is_never_a_normal_end(finish: str):
    with pytest.raises(CallError) as caught:
        DIALECT.reply(STREAM, completion("half an ans", finish=finish), minter())
    assert caught.value.fault.kind is FaultKind.UPSTREAM


def test_a_completion_without_choices_is_a_fault():
    with pytest.raises(CallError):
        DIALECT.reply(STREAM, Completion([], Usage()), minter())


def test_all_ids_are_minted_once_and_shared_by_stream_and_reply():
    ids = minter()
    stream = DIALECT.stream(STREAM, ids, "m")
    data = stream.open(None) + stream.open(7) + stream.open(7)
    reply = DIALECT.reply(STREAM, completion("Ok.", "Hm.", [("ls", "{}"), ("ls", "{}")]), ids)
    message = rebuilt(data + stream.finish(reply))
    shown = [message["id"], reply.headers()["request-id"], message["content"][0]["signature"]]
    shown += [block["id"] for block in message["content"][2:]]
    assert sorted(shown) == sorted(ids.minted)
    assert stream.headers() == reply.headers()  # type: ignore[attr-defined]
    assert json.loads(reply.json())["id"] == message["id"]


def test_before_the_size_is_known_only_a_ping_is_sent():
    stream = DIALECT.stream(STREAM, minter(), "m")
    assert [event["type"] for event in events(stream.open(None) + stream.open(None) + stream.noop())] == ["ping"] * 2


def test_qwen_code_gets_a_sign_of_life_that_its_sdk_hands_on_and_no_block():
    qwen = ask({"user-agent": "QwenCode/0.24.4 (linux; x64)"}, tools=[LS], stream=True)
    stream = DIALECT.stream(qwen, minter(), "m")
    assert [event["type"] for event in events(stream.noop())] == ["ping"]
    stream.open(100)
    ping, beat = events(stream.noop())
    assert (ping["type"], beat["type"], beat["delta"]["stop_reason"]) == ("ping", "message_delta", None)
    assert beat["usage"] == {**beat["usage"], "input_tokens": 100, "output_tokens": 0}
    given = completion("Ok.", "Hm.", [("ls", "{}")], finish="tool_calls")
    plain = rebuilt(streamed(STREAM, given))
    assert blank(rebuilt(streamed(qwen, given, None, NOOP, 100, NOOP, NOOP))) == blank(plain)


def listing(path: str, *cards: ModelCard) -> HttpAnswer:
    route = DIALECT.match("GET", path)
    assert route is not None
    return DIALECT.models(list(cards), WireRequest("GET", path), route)


def test_o_req_anthropic_16_routes_and_models():
    for path in ("/v1/messages", "/v1/messages/", "/messages", "/anthropic/v1/messages"):
        assert DIALECT.match("POST", path) is not None
    for path in ("/v1/messages/count_tokens", "/v1/messages/count_tokens/"):
        route = DIALECT.match("POST", path)
        assert route is not None
        assert route.name == "count_tokens"
    listed = json.loads(listing("/v1/models", ModelCard("m", 4096), ModelCard("n")).body)
    assert [model["id"] for model in listed["data"]] == ["m", "n"]
    assert (listed["first_id"], listed["last_id"], listed["has_more"]) == ("m", "n", False)
    assert json.loads(listing("/v1/models").body)["data"] == []
    for name in ("m", "claude-x", "org/model"):
        model = json.loads(listing(f"/v1/models/{name}", ModelCard("m", 4096)).body)
        assert (model["id"], model["type"], model["max_input_tokens"]) == (name, "model", 4096)


@pytest.mark.parametrize("path", ["/v1/messages/unknown", "/v1/chat/completions", "/v1/responses", "/", "/v1/complete"])
def test_other_paths_are_not_ours(path: str):
    assert DIALECT.match("POST", path) is None
    assert DIALECT.allowed(path) == []
