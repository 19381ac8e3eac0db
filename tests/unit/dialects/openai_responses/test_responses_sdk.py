"""What the official OpenAI SDK makes of our answers: exactly what the engine gave, in its strict types."""

import json
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import openai
import pydantic
import pytest
from openai.types.responses import (
    CompactedResponse,
    Response,
    ResponseCompactionItem,
    ResponseItemList,
    ResponseStreamEvent,
)
from openai.types.responses.responses_server_event import ResponsesServerEvent

from polar_capture.chat import Completion
from polar_capture.dialects.base import Generate, HttpAnswer, Operation, Send, WireRequest
from polar_capture.faults import CallError, Fault, FaultKind
from tests.unit.dialects.openai_responses.build import DIALECT, EXEC, LS, Store, ask, completion, minter, run, streamed

TEXT = "  Odd\u2028 spacing, 👩‍👩‍👧 é, NUL-free, and a tail of blanks   " * 30
THOUGHTS = "\nHm. Let me think… " * 20
ARGUMENTS = '{ "b":1.50,\n "a":"\\u0068\\/ 👍"}'
PATCH: Any = {"type": "custom", "name": "patch"}
TOOLS: Any = [
    LS,
    PATCH,
    {"type": "local_shell"},
    {"type": "namespace", "name": "ns", "description": "d", "tools": [EXEC]},
]
CALLS = [("ls", ARGUMENTS), ("patch", '{"input":"raw\\n"}'), ("local_shell", '{"command":["ls"]}'), ("ns__exec", "{}")]
FULL = completion(TEXT, THOUGHTS, CALLS, "tool_calls")
INCLUDE: Any = ["reasoning.encrypted_content"]


class Server:
    """Answers the SDK's calls with one completion, or with a fault before or inside the stream."""

    def __init__(self, given: Completion, before: Fault | None = None, inside: Fault | None = None) -> None:
        self.given, self.before, self.inside = given, before, inside
        self.store = Store()
        self.asked = 0

    def handle(self, request: httpx2.Request) -> httpx2.Response:
        headers = {name.lower(): value for name, value in request.headers.items()}
        query = dict(request.url.params)
        wire = WireRequest(request.method, request.url.path, headers, query, request.content, request.url.host)
        self.asked += 1
        try:
            return self.answer(wire)
        except CallError as error:
            return _sent(DIALECT.error(error.fault, wire))

    def answer(self, wire: WireRequest) -> httpx2.Response:
        if self.before is not None:
            raise CallError(self.before)
        route = DIALECT.match(wire.method, wire.path)
        assert route is not None
        if route.operation is Operation.LOCAL:
            return _sent(run(DIALECT.local(wire, route), self.store.turns))
        call = DIALECT.parse(wire, route)
        if route.operation is Operation.COUNT_TOKENS:
            return _sent(DIALECT.count(call, 42))
        if not call.stream:
            said = self.store.call(self.given, wire.path, **json.loads(wire.body))
            return httpx2.Response(200, json=said)
        ours = minter()
        stream = DIALECT.stream(call, ours, "tiny")
        body = stream.open(None) + stream.noop()
        body += stream.fail(self.inside) if self.inside else stream.finish(DIALECT.reply(call, self.given, ours))
        return httpx2.Response(200, content=body, headers={"content-type": stream.content_type})

    def client(self) -> openai.OpenAI:
        transport = httpx2.MockTransport(self.handle)
        return openai.OpenAI(api_key="k", max_retries=1, http_client=httpx2.Client(transport=transport))


def _sent(said: HttpAnswer) -> httpx2.Response:
    return httpx2.Response(said.status, content=said.body, headers=dict(said.headers))


def assert_exact(response: Response) -> None:
    reasoning, message, call, custom, shell, grouped = response.output
    assert reasoning.type == "reasoning"
    assert reasoning.summary[0].text == THOUGHTS
    assert reasoning.encrypted_content
    assert message.type == "message"
    assert response.output_text == TEXT
    assert call.type == "function_call"
    assert (call.name, call.arguments) == ("ls", ARGUMENTS)
    assert custom.type == "custom_tool_call"
    assert (custom.name, custom.input) == ("patch", "raw\n")
    assert shell.type == "local_shell_call"
    assert shell.action.command == ["ls"]
    assert grouped.type == "function_call"
    assert (grouped.name, grouped.namespace) == ("exec", "ns")
    assert response.usage is not None
    assert response.usage.total_tokens == 120


def test_create_gives_exactly_what_was_sampled() -> None:
    response = Server(FULL).client().responses.create(model="m", input="hi", tools=TOOLS, include=INCLUDE)
    assert_exact(response)


def test_stream_gives_exactly_what_was_sampled() -> None:
    with Server(FULL).client().responses.stream(model="m", input="hi", tools=TOOLS, include=INCLUDE) as stream:
        seen = {"response.output_text.delta": "", "response.reasoning_summary_text.delta": ""}
        for event in stream:
            if event.type in seen:
                seen[event.type] += event.delta  # type: ignore[union-attr]
        response = stream.get_final_response()
    assert list(seen.values()) == [TEXT, THOUGHTS]
    assert_exact(response)  # type: ignore[arg-type]


async def test_the_async_client_streams_the_same() -> None:
    def handle(request: httpx2.Request) -> httpx2.Response:
        return Server(FULL).handle(request)

    transport = httpx2.MockTransport(handle)
    client = openai.AsyncOpenAI(api_key="k", http_client=httpx2.AsyncClient(transport=transport))
    async with client.responses.stream(model="m", input="hi", tools=TOOLS, include=INCLUDE) as stream:
        events: AsyncIterator[Any] = aiter(stream)
        assert [event.type async for event in events][-1] == "response.completed"
        assert_exact(await stream.get_final_response())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "given", [FULL, completion("Half", finish="length"), completion(None, "only thought"), completion("")], ids=range(4)
)
def test_the_strict_types_take_every_object(given: Completion) -> None:
    body: Any = {"tools": TOOLS, "include": INCLUDE, "stream": True, "metadata": {"a": "b"}}
    adapter: pydantic.TypeAdapter[Any] = pydantic.TypeAdapter(ResponseStreamEvent)
    for event in streamed(ask(**body), given, "open", "noop"):
        adapter.validate_python(event)
        if "response" in event:
            Response.model_validate(event["response"])


def test_parse_reads_structured_output() -> None:
    class Answer(pydantic.BaseModel):
        ok: bool

    response = Server(completion('{"ok": true}')).client().responses.parse(model="m", input="x", text_format=Answer)
    assert response.output_parsed == Answer(ok=True)


def test_o_resp_responses_04_incomplete_is_no_completed() -> None:
    stream = Server(completion("Half", finish="length")).client().responses.create(model="m", input="x", stream=True)
    last = list(stream)[-1]
    assert last.type == "response.incomplete"
    assert last.response.incomplete_details is not None
    assert last.response.incomplete_details.reason == "max_output_tokens"


@pytest.mark.parametrize(
    ("kind", "raised", "tries"),
    [
        (FaultKind.CONTEXT_OVERFLOW, openai.BadRequestError, 1),
        (FaultKind.INVALID, openai.BadRequestError, 1),
        (FaultKind.NOT_FOUND, openai.NotFoundError, 1),
        (FaultKind.OVERLOADED, openai.RateLimitError, 2),
        (FaultKind.INTERNAL, openai.InternalServerError, 2),
    ],
)
def test_faults_raise_what_a_caller_expects(kind: FaultKind, raised: type[openai.APIStatusError], tries: int) -> None:
    server = Server(FULL, before=Fault(kind, "it broke", retry_after="0.01"))
    with pytest.raises(raised):
        server.client().responses.create(model="m", input="x")
    assert server.asked == tries


def test_a_fault_inside_the_stream_fails_the_response() -> None:
    server = Server(FULL, inside=Fault(FaultKind.UPSTREAM, "the engine died"))
    last = list(server.client().responses.create(model="m", input="x", stream=True))[-1]
    assert last.type == "response.failed"
    assert last.response.error is not None
    assert (last.response.error.code, last.response.error.message) == ("server_error", "the engine died")


def test_stateful_use_by_the_sdk() -> None:
    server = Server(completion("Hello Bo."))
    client = server.client()
    first = client.responses.create(model="m", input="My name is Bo.")
    second = client.responses.create(model="m", input="What is my name?", previous_response_id=first.id)
    assert client.responses.retrieve(first.id).output_text == "Hello Bo."
    listed = client.responses.input_items.list(second.id, order="asc")
    ResponseItemList.model_validate(json.loads(listed.model_dump_json()))
    assert [item.type for item in listed.data] == ["message", "message", "message"]
    assert client.responses.input_tokens.count(model="m", input="x").input_tokens == 42
    client.responses.delete(first.id)
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve("resp_unknown")
    with pytest.raises(openai.BadRequestError) as refused:
        client.responses.create(model="m", input="x", previous_response_id="resp_unknown")
    assert (refused.value.code, refused.value.param) == ("previous_response_not_found", "previous_response_id")


def test_o_req_responses_12_the_compact_endpoint() -> None:
    client = Server(completion("It was long.")).client()
    compacted = client.responses.compact(model="m", input=[{"role": "user", "content": "long history"}])
    assert isinstance(compacted, CompactedResponse)
    assert [item.type for item in compacted.output] == ["message", "compaction"]
    assert compacted.object == "response.compaction"
    ResponseCompactionItem.model_validate(compacted.output[1].model_dump())


def test_frames_of_a_socket_are_the_sdks_server_events() -> None:
    adapter: pydantic.TypeAdapter[Any] = pydantic.TypeAdapter(ResponsesServerEvent)
    socket = DIALECT.socket(WireRequest("GET", "/v1/responses"), minter)
    assert socket is not None
    frame = {"type": "response.create", "model": "m", "input": "hi", "stream_id": "lane", "tools": TOOLS}
    (begun,) = socket.receive(json.dumps(frame))
    assert isinstance(begun, Generate)
    ours = minter()
    sent = socket.start(begun.call, ours, "tiny") + socket.noop()
    sent += socket.finish(DIALECT.reply(begun.call, FULL, ours))
    sent += socket.receive("not json") + socket.receive(
        '{"type":"response.steer","previous_response_id":"r","input":"x"}'
    )
    for action in sent:
        assert isinstance(action, Send)
        event = adapter.validate_python(json.loads(action.data))
        assert event.type in ("error", "response.steer.failed") or event.stream_id == "lane"
