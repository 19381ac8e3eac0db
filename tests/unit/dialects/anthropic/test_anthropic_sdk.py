"""What the official Anthropic SDK makes of our answers: exactly what the engine gave."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import anthropic
import httpx2
import pytest

from polar_capture.chat import Completion, Usage
from polar_capture.dialects.base import HttpAnswer, ModelCard, Operation, WireRequest
from polar_capture.faults import CallError, Fault, FaultKind
from tests.unit.dialects.anthropic.build import DIALECT, LS, NOOP, completion, minter, raw

TEXT = "  Odd\u2028 spacing, 👩‍👩‍👧 é \x00 and a tail of blanks   " * 30
THOUGHTS = "\nHm. Let me think… " * 20
ARGUMENTS = '{ "b":1.50,\n "a":"\\u0068\\/ 👍"}'
RICH = completion(
    TEXT,
    THOUGHTS,
    [("ls", ARGUMENTS), ("ls", ""), ("ls", '{"dir": oops')],
    finish="tool_calls",
    usage=Usage(100, 20, 60, 5),
)
ASKED: Any = {"model": "claude-x", "max_tokens": 64, "messages": [{"role": "user", "content": "hi"}], "tools": [LS]}


def client(handle: Callable[[httpx2.Request], httpx2.Response]) -> anthropic.Anthropic:
    transport = httpx2.MockTransport(handle)
    return anthropic.Anthropic(api_key="k", max_retries=2, http_client=httpx2.Client(transport=transport))


class ByteByByte(httpx2.SyncByteStream):
    """A body that arrives one byte at a time."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def __iter__(self) -> Iterator[bytes]:
        for place in range(len(self._data)):
            yield self._data[place : place + 1]


def serving(given: Completion, *early: int | None, slowly: bool = False) -> anthropic.Anthropic:
    """A client of a server that gives one answer. `early` is what a stream shows before it."""

    def handle(request: httpx2.Request) -> httpx2.Response:
        headers = {name.lower(): value for name, value in request.headers.items()}
        wire = WireRequest(request.method, request.url.path, headers, {}, request.content, request.url.host)
        route = DIALECT.match(wire.method, wire.path)
        if route is None:
            return plain(DIALECT.error(Fault(FaultKind.NOT_FOUND, "no such path"), wire))
        if route.operation in (Operation.LIST_MODELS, Operation.GET_MODEL):
            return plain(DIALECT.models([ModelCard("m", 4096, 1_700_000_000)], wire, route))
        try:
            call = DIALECT.parse(wire, route)
        except CallError as error:
            return plain(DIALECT.error(error.fault, wire))
        if route.operation is Operation.COUNT_TOKENS:
            return plain(DIALECT.count(call, 17))
        ids = minter()
        if not call.stream:
            reply = DIALECT.reply(call, given, ids)
            return httpx2.Response(200, content=reply.json(), headers=dict(reply.headers()))
        stream = DIALECT.stream(call, ids, "m")
        data = b"".join(stream.noop() if step == NOOP else stream.open(step) for step in early)
        reply = DIALECT.reply(call, given, ids)
        data += stream.finish(reply)
        headers = {"content-type": stream.content_type, **reply.headers()}
        return httpx2.Response(200, headers=headers, stream=ByteByByte(data) if slowly else httpx2.ByteStream(data))

    return client(handle)


def plain(answer: HttpAnswer) -> httpx2.Response:
    return httpx2.Response(answer.status, content=answer.body, headers=dict(answer.headers))


def check_rich(message: Any) -> None:
    """The message is RICH, field by field."""
    thinking, text, first, second, third = message.content
    assert (thinking.type, thinking.thinking) == ("thinking", THOUGHTS)
    assert len(thinking.signature) > 40
    assert (text.type, text.text) == ("text", TEXT)
    assert [call.input for call in (first, second, third)] == [
        {"b": 1.5, "a": "h/ 👍"},
        {},
        {"raw_arguments": '{"dir": oops'},
    ]
    assert len({first.id, second.id, third.id}) == 3
    assert (message.model, message.role, message.type) == ("claude-x", "assistant", "message")
    assert (message.stop_reason, message.stop_sequence) == ("tool_use", None)
    usage = message.usage
    assert (usage.input_tokens, usage.cache_read_input_tokens, usage.cache_creation_input_tokens) == (40, 60, 0)
    assert (usage.output_tokens, usage.output_tokens_details.thinking_tokens) == (20, 5)
    assert message.id.startswith("msg_")


def test_create():
    message = serving(RICH).messages.create(**ASKED)
    check_rich(message)
    assert str(message._request_id).startswith("req_")


@pytest.mark.parametrize("early", [(), (None,), (None, 100, NOOP), (100,)])
@pytest.mark.parametrize("slowly", [False, True], ids=["at once", "byte by byte"])
def test_stream_accumulates_to_what_the_engine_gave(early: tuple[int | None, ...], slowly: bool):
    with serving(RICH, *early, slowly=slowly).messages.stream(**ASKED) as stream:
        kinds = [event.type for event in stream]
        check_rich(stream.get_final_message())
        assert stream.get_final_text() == TEXT
    assert {"thinking", "signature", "text", "input_json", "content_block_stop", "message_stop"} <= set(kinds)


def test_beta_stream_accumulates_with_qwens_signs_of_life():
    headers = {"user-agent": "QwenCode/0.24.4 (linux; x64)"}
    server = serving(RICH, None, NOOP, 100, NOOP, NOOP)
    with server.beta.messages.stream(**ASKED, extra_headers=headers) as stream:
        check_rich(stream.get_final_message())


def test_what_the_sdk_accumulated_can_be_sent_back():
    server = serving(RICH)
    with server.messages.stream(**ASKED) as stream:
        message = stream.get_final_message()
    calls = [block for block in message.content if block.type == "tool_use"]
    results = [{"type": "tool_result", "tool_use_id": call.id, "content": "x"} for call in calls]
    turns = [{"role": "assistant", "content": message.content}, {"role": "user", "content": results}]
    check_rich(server.messages.create(**{**ASKED, "messages": [*ASKED["messages"], *turns]}))


def test_an_empty_answer_is_an_empty_message():
    with serving(completion(None)).messages.stream(**ASKED) as stream:
        message = stream.get_final_message()
    assert (message.content, message.stop_reason) == ([], "end_turn")


def test_structured_output_is_parsed():
    server = serving(completion('{"title": "T"}'))
    form: Any = {"format": {"type": "json_schema", "schema": {"type": "object"}}}
    message = server.messages.create(**ASKED, output_config=form)
    assert json.loads(message.content[0].text) == {"title": "T"}


def test_a_stop_sequence_is_reported():
    with serving(completion("abc", stop="END")).messages.stream(**ASKED, stop_sequences=["END"]) as stream:
        message = stream.get_final_message()
    assert (message.stop_reason, message.stop_sequence) == ("stop_sequence", "END")


def test_counting_and_models():
    server = serving(RICH)
    counted = server.messages.count_tokens(model="m", messages=ASKED["messages"])
    assert counted.input_tokens == 17
    assert [model.id for model in server.models.list()] == ["m"]
    model = server.models.retrieve("claude-x")
    assert (model.id, model.created_at.year, model.max_input_tokens) == ("claude-x", 2023, 4096)


@pytest.mark.parametrize(
    ("kind", "error", "attempts"),
    [
        (FaultKind.INVALID, anthropic.BadRequestError, 1),
        (FaultKind.AUTHENTICATION, anthropic.AuthenticationError, 1),
        (FaultKind.PERMISSION, anthropic.PermissionDeniedError, 1),
        (FaultKind.NOT_FOUND, anthropic.NotFoundError, 1),
        (FaultKind.TOO_LARGE, anthropic.RequestTooLargeError, 1),
        (FaultKind.CONTEXT_OVERFLOW, anthropic.BadRequestError, 1),
        (FaultKind.RATE_LIMITED, anthropic.RateLimitError, 3),
        (FaultKind.OVERLOADED, anthropic.RateLimitError, 3),
        (FaultKind.INTERNAL, anthropic.InternalServerError, 3),
    ],
)
def test_o_errors_04_faults_are_the_sdks_own_errors_and_repeated_only_where_it_helps(
    kind: FaultKind, error: type[anthropic.APIStatusError], attempts: int
):
    seen = []

    def handle(request: httpx2.Request) -> httpx2.Response:
        seen.append(request)
        return plain(DIALECT.error(Fault(kind, "because", retry_after="0.001")))

    with pytest.raises(error) as caught:
        client(handle).messages.create(**ASKED)
    assert "because" in str(caught.value)
    assert str(caught.value.request_id).startswith("req_")
    assert len(seen) == attempts


def test_a_fault_inside_a_stream_is_raised():
    def handle(request: httpx2.Request) -> httpx2.Response:
        stream = DIALECT.stream(raw(request.content), minter(), "m")
        data = stream.open(None) + stream.open(9) + stream.fail(Fault(FaultKind.UPSTREAM, "it died"))
        return httpx2.Response(200, content=data, headers={"content-type": stream.content_type})

    with (
        pytest.raises(anthropic.APIStatusError, match="it died"),
        client(handle).messages.stream(**ASKED) as stream,
    ):
        stream.get_final_message()
