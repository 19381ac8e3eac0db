"""What the official Google SDK makes of our answers: exactly what the engine gave."""

import json
from collections.abc import Callable
from typing import Any

import httpx2
import pydantic
import pytest
from google import genai
from google.genai import errors, types

from polar_capture.chat import Completion, Usage
from polar_capture.dialects.base import ModelCard, Operation, WireRequest
from polar_capture.faults import Fault, FaultKind
from tests.unit.dialects.google.build import DIALECT, choice, completion, minter

TEXT = "  Odd\u2028 spacing, 👩‍👩‍👧 é and a tail of blanks   " * 30
THOUGHTS = "\nHm. Let me think… " * 20
ARGUMENTS = '{ "dir":"\\u0068\\/ 👍",\n "deep":{"n":[1.5,null,true]}}'
LS = types.FunctionDeclaration(name="ls", parameters_json_schema={"type": "object", "properties": {}})
CONFIG = types.GenerateContentConfig(
    tools=[types.Tool(function_declarations=[LS])],
    thinking_config=types.ThinkingConfig(include_thoughts=True),
    system_instruction="S",
    automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
)
FULL = completion(choice(TEXT, THOUGHTS, [("ls", ARGUMENTS), ("ls", "{}")], finish="tool_calls"), usage=Usage(100, 20))

Serve = Callable[[WireRequest], httpx2.Response]


def client(serve: Serve) -> genai.Client:
    def handle(request: httpx2.Request) -> httpx2.Response:
        headers = {name.lower(): value for name, value in request.headers.items()}
        query = dict(request.url.params)
        return serve(WireRequest(request.method, request.url.path, headers, query, request.content, request.url.host))

    transport = httpx2.MockTransport(handle)
    options = types.HttpOptions(
        httpx_client=httpx2.Client(transport=transport), httpx_async_client=httpx2.AsyncClient(transport=transport)
    )
    return genai.Client(api_key="k", http_options=options)


def serving(given: Completion, noops: int = 0, seen: list[dict[str, Any]] | None = None) -> genai.Client:
    """A client whose every call is answered with `given`; `seen` collects the bodies."""

    def serve(wire: WireRequest) -> httpx2.Response:
        route = DIALECT.match(wire.method, wire.path)
        assert route is not None
        if route.operation in (Operation.LIST_MODELS, Operation.GET_MODEL):
            answer = DIALECT.models([ModelCard("tiny", 4096)], wire, route)
            return httpx2.Response(200, content=answer.body, headers=dict(answer.headers))
        if seen is not None:
            seen.append(json.loads(wire.body))
        call = DIALECT.parse(wire, route)
        if route.operation is Operation.COUNT_TOKENS:
            return httpx2.Response(200, content=DIALECT.count(call, 31).body)
        ours = minter()
        if not call.stream:
            return httpx2.Response(200, content=DIALECT.reply(call, given, ours).json())
        stream = DIALECT.stream(call, ours, "tiny")
        body = stream.open(None) + b"".join(stream.noop() for _ in range(noops))
        body += stream.finish(DIALECT.reply(call, given, ours))
        return httpx2.Response(200, content=body, headers={"content-type": stream.content_type})

    return client(serve)


def told(parts: list[types.Part]) -> tuple[str, str, list[tuple[str | None, Any]]]:
    """(thoughts, text, calls) of parts."""
    thoughts = "".join(part.text or "" for part in parts if part.thought)
    text = "".join(part.text or "" for part in parts if not part.thought)
    calls = [(part.function_call.name, part.function_call.args) for part in parts if part.function_call]
    return thoughts, text, calls


EXACT = (THOUGHTS, TEXT, [("ls", json.loads(ARGUMENTS)), ("ls", {})])


def parts_of(response: types.GenerateContentResponse) -> list[types.Part]:
    assert response.candidates
    assert response.candidates[0].content
    return response.candidates[0].content.parts or []


def test_an_answer_is_read_exactly() -> None:
    got = serving(FULL).models.generate_content(model="m", contents="hi", config=CONFIG)
    assert told(parts_of(got)) == EXACT
    assert got.candidates
    assert got.candidates[0].finish_reason is types.FinishReason.STOP
    assert got.usage_metadata
    assert got.usage_metadata.total_token_count == 120
    assert got.function_calls
    assert all(call.id for call in got.function_calls)


@pytest.mark.parametrize("noops", [0, 3])
def test_a_stream_is_read_exactly(noops: int) -> None:
    got = list(serving(FULL, noops).models.generate_content_stream(model="m", contents="hi", config=CONFIG))
    assert told([part for one in got for part in parts_of(one)]) == EXACT
    assert got[-1].candidates
    assert got[-1].candidates[0].finish_reason is types.FinishReason.STOP
    assert got[-1].usage_metadata
    assert len({one.response_id for one in got}) == 1


async def test_an_async_stream_is_read_exactly() -> None:
    stream = await serving(FULL, 2).aio.models.generate_content_stream(model="m", contents="hi", config=CONFIG)
    assert told([part for one in [one async for one in stream] for part in parts_of(one)]) == EXACT


@pytest.mark.parametrize("stream", [True, False])
def test_a_chats_history_finds_the_turn(stream: bool) -> None:
    seen: list[dict[str, Any]] = []
    chat = serving(FULL, noops=1, seen=seen).chats.create(model="m", config=CONFIG)
    if stream:
        for _ in chat.send_message_stream("hi"):
            pass
    else:
        chat.send_message("hi")
    chat.send_message("go on")
    route = DIALECT.match("POST", "/v1beta/models/m:generateContent")
    assert route is not None
    parsed = DIALECT.parse(WireRequest("POST", "", body=json.dumps(seen[1]).encode()), route)
    system, user, echoed, last = parsed.chat.messages
    assert (system.content, user.content, last.content) == ("S", "hi", "go on")
    assert (echoed.reasoning, echoed.content) == (THOUGHTS, TEXT)
    assert [json.loads(call.arguments) for call in echoed.tool_calls] == [json.loads(ARGUMENTS), {}]
    assert len(echoed.echo) == 3


def test_what_is_echoed_is_what_was_minted() -> None:
    minted: list[str] = []
    seen: list[dict[str, Any]] = []

    def serve(wire: WireRequest) -> httpx2.Response:
        seen.append(json.loads(wire.body))
        route = DIALECT.match(wire.method, wire.path)
        assert route is not None
        ours = minter()
        reply = DIALECT.reply(DIALECT.parse(wire, route), FULL, ours)
        minted.extend(ours.minted)
        return httpx2.Response(200, content=reply.json())

    for _ in range(20):  # signatures differ; some hold + and /, which the SDK spells otherwise
        seen.clear()
        minted.clear()
        chat = client(serve).chats.create(model="m", config=CONFIG)
        chat.send_message("hi")
        first = set(minted)
        chat.send_message("go on")
        route = DIALECT.match("POST", "/v1beta/models/m:generateContent")
        assert route is not None
        parsed = DIALECT.parse(WireRequest("POST", "", body=json.dumps(seen[1]).encode()), route)
        assert set(parsed.chat.messages[2].echo) == {one for one in first if not one.startswith("resp-")}


def test_structured_output_is_parsed() -> None:
    class Verdict(pydantic.BaseModel):
        ok: bool
        why: str | None = None

    seen: list[dict[str, Any]] = []
    config = types.GenerateContentConfig(response_mime_type="application/json", response_schema=Verdict)
    got = serving(completion(choice('{"ok": true}')), seen=seen).models.generate_content(
        model="m", contents="hi", config=config
    )
    assert got.parsed == Verdict(ok=True)
    assert seen


def test_candidates_and_logprobs() -> None:
    entries = json.dumps([{"token": t, "logprob": -0.25, "top_logprobs": []} for t in ("O", "k")]).encode()
    given = completion(*(choice("Ok", index=k, logprobs_content=entries) for k in range(2)))
    config = types.GenerateContentConfig(candidate_count=2, response_logprobs=True)
    got = serving(given).models.generate_content(model="m", contents="hi", config=config)
    assert got.candidates
    assert len(got.candidates) == 2
    assert got.candidates[0].avg_logprobs == -0.25
    assert got.candidates[0].logprobs_result
    assert [c.token for c in got.candidates[0].logprobs_result.chosen_candidates or []] == ["O", "k"]


def test_tokens_are_counted_and_models_listed() -> None:
    api = serving(FULL)
    assert api.models.count_tokens(model="m", contents="hi").total_tokens == 31
    assert [model.name for model in api.models.list()] == ["models/tiny"]
    assert api.models.get(model="gemini-x").name == "models/gemini-x"


@pytest.mark.parametrize(
    ("kind", "error", "status"),
    [
        (FaultKind.INVALID, errors.ClientError, "INVALID_ARGUMENT"),
        (FaultKind.RATE_LIMITED, errors.ClientError, "RESOURCE_EXHAUSTED"),
        (FaultKind.UNAVAILABLE, errors.ServerError, "UNAVAILABLE"),
    ],
)
@pytest.mark.parametrize("stream", [True, False])
def test_errors_are_read(kind: FaultKind, error: type[errors.APIError], status: str, stream: bool) -> None:
    def serve(wire: WireRequest) -> httpx2.Response:
        answer = DIALECT.error(Fault(kind, "nope"), wire)
        return httpx2.Response(answer.status, content=answer.body, headers=dict(answer.headers))

    models = client(serve).models
    ask = (lambda **asked: list(models.generate_content_stream(**asked))) if stream else models.generate_content
    with pytest.raises(error, match="nope") as raised:
        ask(model="m", contents="hi")
    assert raised.value.status == status


def test_an_error_in_mid_stream_raises() -> None:
    def serve(wire: WireRequest) -> httpx2.Response:
        route = DIALECT.match(wire.method, wire.path)
        assert route is not None
        stream = DIALECT.stream(DIALECT.parse(wire, route), minter(), "m")
        body = stream.open(None) + stream.noop() + stream.fail(Fault(FaultKind.UPSTREAM, "engine gone"))
        return httpx2.Response(200, content=body, headers={"content-type": stream.content_type})

    with pytest.raises(errors.ServerError, match="engine gone"):
        list(client(serve).models.generate_content_stream(model="m", contents="hi"))
