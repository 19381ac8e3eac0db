"""What the official OpenAI SDK makes of our answers: exactly what the engine gave."""

import json
from collections.abc import Callable
from typing import Any

import httpx2
import openai
import pydantic
import pytest

from polar_capture.chat import Completion
from polar_capture.dialects.base import HttpAnswer, ModelCard, WireRequest
from polar_capture.faults import CallError, Fault, FaultKind
from tests.unit.dialects.openai_chat.build import DIALECT, LS, choice, completion, minter

TEXT = "  Odd\u2028 spacing, 👩‍👩‍👧 é, NUL-free, and a tail of blanks   " * 30
THOUGHTS = "\nHm. Let me think… " * 20
ARGUMENTS = '{ "b":1.50,\n "a":"\\u0068\\/ 👍"}'
MESSAGES: Any = [{"role": "user", "content": "hi"}]


def client(serve: Callable[[WireRequest], httpx2.Response]) -> openai.OpenAI:
    def handle(request: httpx2.Request) -> httpx2.Response:
        headers = {name.lower(): value for name, value in request.headers.items()}
        return serve(WireRequest(request.method, request.url.path, headers, {}, request.content, request.url.host))

    return openai.OpenAI(api_key="k", max_retries=2, http_client=httpx2.Client(transport=httpx2.MockTransport(handle)))


def serving(given: Completion, noops: int = 0) -> openai.OpenAI:
    """A client whose every call is answered with `given`."""

    def serve(wire: WireRequest) -> httpx2.Response:
        route = DIALECT.match(wire.method, wire.path)
        assert route is not None
        call = DIALECT.parse(wire, route)
        ours = minter()
        if not call.stream:
            reply = DIALECT.reply(call, given, ours)
            return httpx2.Response(200, content=reply.json(), headers={"content-type": "application/json"})
        stream = DIALECT.stream(call, ours, "tiny")
        body = stream.open(None) + b"".join(stream.noop() for _ in range(noops))
        body += stream.finish(DIALECT.reply(call, given, ours))
        return httpx2.Response(200, content=body, headers={"content-type": stream.content_type})

    return client(serve)


def refusing(fault: Fault, seen: list[int] | None = None) -> openai.OpenAI:
    def serve(wire: WireRequest) -> httpx2.Response:
        if seen is not None:
            seen.append(1)
        answer: HttpAnswer = DIALECT.error(fault, wire)
        return httpx2.Response(answer.status, content=answer.body, headers=dict(answer.headers))

    return client(serve)


FULL = completion(choice(TEXT, THOUGHTS, [("ls", ARGUMENTS), ("ls", "{}")], finish="tool_calls"))


def test_an_answer_is_read_exactly() -> None:
    got = serving(FULL).chat.completions.create(model="m", messages=MESSAGES, tools=[LS])
    message: Any = got.choices[0].message
    assert message.content == TEXT
    assert message.reasoning_content == message.reasoning == THOUGHTS
    assert [(call.function.name, call.function.arguments) for call in message.tool_calls] == [
        ("ls", ARGUMENTS),
        ("ls", "{}"),
    ]
    assert got.choices[0].finish_reason == "tool_calls"
    assert got.usage is not None
    assert (got.usage.prompt_tokens, got.usage.total_tokens) == (100, 120)


@pytest.mark.parametrize("noops", [0, 3])
def test_the_strict_stream_accumulates_exactly(noops: int) -> None:
    helper = serving(FULL, noops).chat.completions.stream(
        model="m", messages=MESSAGES, tools=[LS], stream_options={"include_usage": True}
    )
    with helper as stream:
        kinds = [event.type for event in stream]
        got = stream.get_final_completion()
    message: Any = got.choices[0].message
    assert message.content == TEXT
    assert message.reasoning_content == message.reasoning == THOUGHTS
    assert [(call.function.name, call.function.arguments) for call in message.tool_calls] == [
        ("ls", ARGUMENTS),
        ("ls", "{}"),
    ]
    assert len({call.id for call in message.tool_calls}) == 2
    assert got.choices[0].finish_reason == "tool_calls"
    assert got.usage is not None
    assert got.usage.prompt_tokens == 100
    assert kinds.count("tool_calls.function.arguments.done") == 2
    assert kinds.count("content.done") == 1


def test_choices_and_logprobs_accumulate() -> None:
    entries = [{"token": t, "logprob": -0.25, "bytes": None, "top_logprobs": []} for t in ("O", "k")]
    given = completion(*(choice("Ok", index=k, logprobs_content=json.dumps(entries).encode()) for k in range(2)))
    with serving(given).chat.completions.stream(model="m", messages=MESSAGES, n=2, logprobs=True) as stream:
        got = stream.get_final_completion()
    assert [one.message.content for one in got.choices] == ["Ok", "Ok"]
    for one in got.choices:
        assert one.logprobs is not None
        assert one.logprobs.content is not None
        assert [(entry.token, entry.logprob) for entry in one.logprobs.content] == [("O", -0.25), ("k", -0.25)]


def test_structured_output_is_parsed() -> None:
    class Verdict(pydantic.BaseModel):
        ok: bool

    api = serving(completion(choice('{"ok": true}')))
    assert api.chat.completions.parse(model="m", messages=MESSAGES, response_format=Verdict).choices[
        0
    ].message.parsed == Verdict(ok=True)
    with api.chat.completions.stream(model="m", messages=MESSAGES, response_format=Verdict) as stream:
        assert stream.get_final_completion().choices[0].message.parsed == Verdict(ok=True)


def test_what_the_sdk_echoes_finds_the_turn() -> None:
    message = serving(FULL).chat.completions.create(model="m", messages=MESSAGES, tools=[LS]).choices[0].message
    body = json.dumps({"messages": [*MESSAGES, message.model_dump(exclude_unset=True)]}).encode()
    route = DIALECT.match("POST", "/v1/chat/completions")
    assert route is not None
    echoed = DIALECT.parse(WireRequest("POST", "/v1/chat/completions", body=body), route).chat.messages[1]
    sampled = FULL.choices[0].message
    assert (echoed.content, echoed.reasoning) == (sampled.content, sampled.reasoning)
    assert [call.arguments for call in echoed.tool_calls] == [call.arguments for call in sampled.tool_calls]
    assert echoed.echo == [call.id for call in message.tool_calls or []]


def test_models_are_listed_and_retrieved() -> None:
    def serve(wire: WireRequest) -> httpx2.Response:
        route = DIALECT.match(wire.method, wire.path)
        assert route is not None
        answer = DIALECT.models([ModelCard("tiny", 4096)], wire, route)
        return httpx2.Response(answer.status, content=answer.body, headers=dict(answer.headers))

    api = client(serve)
    assert [model.id for model in api.models.list()] == ["tiny"]
    assert api.models.retrieve("gpt-x").id == "gpt-x"


@pytest.mark.parametrize(
    ("kind", "error", "attempts"),
    [
        (FaultKind.INVALID, openai.BadRequestError, 1),
        (FaultKind.AUTHENTICATION, openai.AuthenticationError, 1),
        (FaultKind.NOT_FOUND, openai.NotFoundError, 1),
        (FaultKind.CONTEXT_OVERFLOW, openai.BadRequestError, 1),
        (FaultKind.RATE_LIMITED, openai.RateLimitError, 3),
        (FaultKind.UNAVAILABLE, openai.InternalServerError, 3),
    ],
)
def test_o_errors_04_the_sdk_repeats_only_what_can_help(kind: FaultKind, error: type[Exception], attempts: int) -> None:
    seen: list[int] = []
    with pytest.raises(error, match="nope"):
        refusing(Fault(kind, "nope", retry_after="0.01"), seen).chat.completions.create(model="m", messages=MESSAGES)
    assert len(seen) == attempts


def test_an_error_in_mid_stream_raises() -> None:
    def serve(wire: WireRequest) -> httpx2.Response:
        route = DIALECT.match(wire.method, wire.path)
        assert route is not None
        stream = DIALECT.stream(DIALECT.parse(wire, route), minter(), "tiny")
        body = stream.open(None) + stream.noop() + stream.fail(Fault(FaultKind.UPSTREAM, "engine gone"))
        return httpx2.Response(200, content=body, headers={"content-type": "text/event-stream"})

    with pytest.raises(openai.APIError, match="engine gone"):
        list(client(serve).chat.completions.create(model="m", messages=MESSAGES, stream=True))


def test_a_refused_request_is_told_with_its_field() -> None:
    def serve(wire: WireRequest) -> httpx2.Response:
        route = DIALECT.match(wire.method, wire.path)
        assert route is not None
        try:
            DIALECT.parse(wire, route)
        except CallError as refused:
            answer = DIALECT.error(refused.fault, wire)
            return httpx2.Response(answer.status, content=answer.body, headers=dict(answer.headers))
        raise AssertionError("a temperature of words was taken")

    with pytest.raises(openai.BadRequestError) as told:
        client(serve).chat.completions.create(model="m", messages=MESSAGES, temperature="warm")  # type: ignore[call-overload]
    assert told.value.param == "temperature"
