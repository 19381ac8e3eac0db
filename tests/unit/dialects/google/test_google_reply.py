"""Completions as generateContent JSON, events and arrays."""

import json
from typing import Any

import pytest

from polar_capture.chat import Usage
from polar_capture.dialects.base import ModelCard, WireRequest
from polar_capture.faults import CallError, FaultKind
from tests.unit.dialects.google.build import (
    DIALECT,
    STREAM,
    answer,
    ask,
    choice,
    chunks,
    completion,
    minter,
    parts_of,
    raw,
    streamed,
    streaming,
)

THOUGHTS: dict[str, Any] = {"generationConfig": {"thinkingConfig": {"includeThoughts": True}}}
ENTRIES = [
    {"token": token, "logprob": -0.5, "top_logprobs": [{"token": t, "logprob": -1.0} for t in "ab"]} for token in "Ok"
]


def test_o_req_google_06_array_or_events() -> None:
    array = streamed(streaming(alt=None), completion(choice("One. " * 60)))
    objects = json.loads(array)
    assert len(objects) > 1
    assert DIALECT.stream(streaming(alt=None), minter(), "m").content_type.startswith("application/json")
    events = streamed(streaming(), completion(choice("One. " * 60)))
    assert DIALECT.stream(streaming(), minter(), "m").content_type == "text/event-stream"
    assert parts_of(chunks(events))[:-1] == parts_of(objects)[:-1]
    assert b"[DONE]" not in events
    assert b"event:" not in events


@pytest.mark.parametrize("before", [(), ("open",), ("noop",), ("open", "noop", "open", "noop")])
@pytest.mark.parametrize("alt", [None, "sse"])
def test_waiting_changes_nothing(alt: str | None, before: tuple[str, ...]) -> None:
    body = streamed(streaming(alt), completion(choice("Hello")), *before)
    objects = json.loads(body) if alt is None else chunks(body)
    assert "".join(part["text"] for part in parts_of(objects)) == "Hello"


def test_o_resp_google_01_one_finish_and_stable_ids() -> None:
    text = "One. Two. Three. " * 40
    got = chunks(streamed(streaming(), completion(choice(text))))
    assert len(got) > 3
    assert [one["candidates"][0].get("finishReason") for one in got] == [None] * (len(got) - 1) + ["STOP"]
    usage = got[-1]["usageMetadata"]
    assert (usage["promptTokenCount"], usage["candidatesTokenCount"], usage["totalTokenCount"]) == (100, 20, 120)
    assert len({one["responseId"] for one in got}) == 1
    assert {one["modelVersion"] for one in got} == {"m"}
    assert "".join(part["text"] for part in parts_of(got)) == text


def test_o_resp_responses_05_blanks_before_a_call_are_no_part_here_either() -> None:
    given = completion(choice("\n\n", calls=[("ls", "{}")], finish="tool_calls"))
    for objects in (chunks(streamed(streaming(), given)), [answer(ask(), given)]):
        assert ["functionCall" in part for part in parts_of(objects)] == [True]


def test_o_resp_google_02_calls_are_whole_parts_with_objects() -> None:
    given = completion(choice("Go", calls=[("ls", '{"dir":"a"}'), ("ls", "")], finish="tool_calls"))
    for objects in (chunks(streamed(streaming(), given)), [answer(ask(), given)]):
        parts = parts_of(objects)
        assert parts[0]["text"] == "Go"
        calls = [part["functionCall"] for part in parts[1:]]
        assert [(one["name"], one["args"]) for one in calls] == [("ls", {"dir": "a"}), ("ls", {})]
        assert len({one["id"] for one in calls}) == 2
        assert objects[-1]["candidates"][0]["finishReason"] == "STOP"


@pytest.mark.parametrize(
    ("finish", "said"),
    [
        ("stop", "STOP"),
        ("tool_calls", "STOP"),
        ("length", "MAX_TOKENS"),
        ("content_filter", "SAFETY"),
        ("repetition", "OTHER"),
        ("surprise", "OTHER"),
    ],
)
def test_finish_reasons(finish: str, said: str) -> None:
    assert answer(ask(), completion(choice("x", finish=finish)))["candidates"][0]["finishReason"] == said


def test_an_aborted_generation_is_no_answer() -> None:
    with pytest.raises(CallError) as refused:
        answer(ask(), completion(choice("par", finish="abort")))
    assert refused.value.fault.kind is FaultKind.OVERLOADED


def test_a_blocked_prompt_is_told_as_such() -> None:
    given = completion(choice(None, finish="content_filter"))
    for got in (answer(ask(), given), *chunks(streamed(streaming(), given))):
        assert got["promptFeedback"] == {"blockReason": "OTHER"}
        assert "candidates" not in got


@pytest.mark.parametrize("arguments", ['{"a": ', "[1]", '"x"', "3"])
def test_arguments_that_are_no_object_run_nothing(arguments: str) -> None:
    part = answer(ask(), completion(choice(None, calls=[("ls", arguments)])))["candidates"][0]["content"]["parts"][0]
    assert part["functionCall"]["args"] == {"raw_arguments": arguments}
    echoed = ask(contents=[{"role": "user", "parts": [{"text": "x"}]}, {"role": "model", "parts": [part]}])
    assert echoed.chat.messages[1].tool_calls[0].arguments == arguments


def test_arguments_keep_digits_and_order_on_one_line() -> None:
    arguments = '{ "b": 1.50,\n "a": 12345678901234567890123,\r\n "\\u0068": "\\/" }'
    body = streamed(streaming(), completion(choice(None, calls=[("ls", arguments)])))
    assert b'"args":{"b":1.50,"a":12345678901234567890123,"\\u0068":"\\/"}' in body
    assert len(chunks(body)) == 1


@pytest.mark.parametrize("asked", [True, False])
def test_thoughts_are_shown_when_asked_for(asked: bool) -> None:
    given = completion(choice("x", "well " * 50), usage=Usage(100, 20, 60, 5))
    call = ask(**(THOUGHTS if asked else {}))
    parts = answer(call, given)["candidates"][0]["content"]["parts"]
    assert [part.get("thought", False) for part in parts] == ([True, False] if asked else [False])
    usage = answer(call, given)["usageMetadata"]
    assert (usage["thoughtsTokenCount"], usage["candidatesTokenCount"], usage["totalTokenCount"]) == (5, 15, 120)
    assert usage["cachedContentTokenCount"] == 60
    streamed_parts = parts_of(chunks(streamed(streaming(**(THOUGHTS if asked else {})), given)))
    assert "".join(p["text"] for p in streamed_parts if p.get("thought")) == ("well " * 50 if asked else "")


@pytest.mark.parametrize(
    ("content", "calls", "signed"),
    [("x", [("ls", "{}"), ("ls", "{}")], 1), ("x", [], 0), (None, [], 0), (None, [("ls", "{}")], 0)],
)
def test_one_signature_a_turn_where_clients_keep_it(
    content: str | None, calls: list[tuple[str, str]], signed: int
) -> None:
    ours = minter()
    body = json.loads(DIALECT.reply(ask(), completion(choice(content, calls=calls)), ours).json())
    parts = body["candidates"][0]["content"]["parts"]
    assert [k for k, part in enumerate(parts) if "thoughtSignature" in part] == [signed]
    echoed = ask(contents=[{"parts": [{"text": "x"}]}, body["candidates"][0]["content"]]).chat.messages[1].echo
    assert set(echoed) == set(ours.minted) - {body["responseId"]}


def test_an_empty_answer_has_an_empty_part() -> None:
    content = answer(ask(), completion(choice(None, "thought only", finish="length")))["candidates"][0]["content"]
    assert [part["text"] for part in content["parts"]] == [""]


def test_the_signature_of_a_streamed_text_is_on_its_last_piece() -> None:
    parts = parts_of(chunks(streamed(streaming(), completion(choice("word " * 100)))))
    assert ["thoughtSignature" in part for part in parts] == [False] * (len(parts) - 1) + [True]


def test_every_candidate_is_told() -> None:
    given = completion(choice("a", index=0), choice("b", index=1, finish="length"))
    call = ask(generationConfig={"candidateCount": 2})
    assert [one["index"] for one in answer(call, given)["candidates"]] == [0, 1]
    got = chunks(streamed(streaming(generationConfig={"candidateCount": 2}), given))
    finishes = {c["index"]: c["finishReason"] for one in got for c in one["candidates"] if "finishReason" in c}
    assert finishes == {0: "STOP", 1: "MAX_TOKENS"}
    assert ["usageMetadata" in one for one in got] == [False] * (len(got) - 1) + [True]


@pytest.mark.parametrize("top", [None, 0, 1])
def test_logprobs_as_asked(top: int | None) -> None:
    config: dict[str, Any] = {} if top is None else {"responseLogprobs": True, "logprobs": top}
    given = completion(choice("Ok", logprobs_content=json.dumps(ENTRIES).encode()))
    one = answer(ask(generationConfig=config), given)["candidates"][0]
    if top is None:
        assert "logprobsResult" not in one
        assert "avgLogprobs" not in one
        return
    assert one["avgLogprobs"] == -0.5
    chosen = one["logprobsResult"]["chosenCandidates"]
    assert [(c["token"], c["logProbability"], c["tokenId"]) for c in chosen] == [("O", -0.5, 41), ("k", -0.5, 42)]
    assert [len(c["candidates"]) for c in one["logprobsResult"].get("topCandidates", [])] == ([1, 1] if top else [])


def test_o_capture_02_token_ids_are_never_shown() -> None:
    given = completion(choice("Ok", "hm", [("ls", "{}")], logprobs_content=json.dumps(ENTRIES).encode()))
    for body in (streamed(streaming(), given), json.dumps(answer(ask(), given)).encode()):
        assert b"token_ids" not in body
        assert b"tokenId" not in body


def test_code_assist_wraps_the_answer() -> None:
    body = json.dumps({"model": "g", "request": {"contents": [{"parts": [{"text": "x"}]}]}}).encode()
    whole = answer(raw(body, "/v1internal:generateContent"), completion())
    assert whole["response"]["candidates"][0]["content"]["parts"][0]["text"] == "Ok."
    for one in chunks(streamed(raw(body, "/v1internal:streamGenerateContent", "sse"), completion())):
        assert one["response"]["modelVersion"] == "g"
    count = raw(body, "/v1internal:countTokens")
    assert json.loads(DIALECT.count(count, 7).body) == {"totalTokens": 7}


@pytest.mark.parametrize(("step", "key"), [("loadCodeAssist", "currentTier"), ("onboardUser", "done")])
def test_code_assist_lets_everyone_in(step: str, key: str) -> None:
    path = f"/v1internal:{step}"
    route = DIALECT.match("POST", path)
    assert route is not None
    steps = DIALECT.local(WireRequest("POST", path, body=b"{}"), route)
    with pytest.raises(StopIteration) as done:
        next(steps)
    assert key in json.loads(done.value.value.body)


def test_models() -> None:
    cards = [ModelCard("tiny", 4096)]
    listed = DIALECT.match("GET", "/v1beta/models")
    one = DIALECT.match("GET", "/v1/models/gemini-x")
    assert listed is not None
    assert one is not None
    models = json.loads(DIALECT.models(cards, WireRequest("GET", ""), listed).body)["models"]
    assert [(m["name"], m["inputTokenLimit"]) for m in models] == [("models/tiny", 4096)]
    got = json.loads(DIALECT.models(cards, WireRequest("GET", ""), one).body)
    assert (got["name"], got["inputTokenLimit"]) == ("models/gemini-x", 4096)


def test_composing_twice_gives_the_same_ids() -> None:
    call, ours = streaming(), minter()
    first = DIALECT.reply(call, completion(), ours).json()
    assert DIALECT.reply(call, completion(), ours).json() == first
    assert STREAM not in first.decode()
