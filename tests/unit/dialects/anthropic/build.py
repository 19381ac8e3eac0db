"""Builders of Messages calls and answers, and a strict reader of our event streams."""

import json
from typing import Any

import uuid_utils

from polar_capture.chat import Choice, Completion, Message, ToolCall, Usage
from polar_capture.dialects.anthropic import Anthropic
from polar_capture.dialects.base import ParsedCall, WireRequest
from polar_capture.lineage.minting import Minter

PATH = "/v1/messages"
DIALECT = Anthropic()
USER: dict[str, Any] = {"role": "user", "content": "hi"}
LS: dict[str, Any] = {"name": "ls", "input_schema": {"type": "object", "properties": {"dir": {"type": "string"}}}}


def text(words: str, **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": words, **more}


def raw(body: bytes, headers: dict[str, str] | None = None, path: str = PATH) -> ParsedCall:
    """The parsed call of a body as it came."""
    route = DIALECT.match("POST", path)
    assert route is not None
    return DIALECT.parse(WireRequest("POST", path, headers or {}, {}, body), route)


def ask(headers: dict[str, str] | None = None, **body: Any) -> ParsedCall:
    """The parsed call of a request that says hi, unless `messages` says more."""
    return raw(json.dumps({"model": "m", "max_tokens": 64, "messages": [USER], **body}).encode(), headers)


def tool_use(identifier: str = "toolu_a", **arguments: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": identifier, "name": "ls", "input": arguments}


def result(content: Any = None, identifier: str = "toolu_a", **more: Any) -> dict[str, Any]:
    """A tool_result block; no content at all where `content` is None."""
    block = {"type": "tool_result", "tool_use_id": identifier, **more}
    return block if content is None else {**block, "content": content}


def used(*blocks: dict[str, Any], before: tuple[dict[str, Any], ...] = (tool_use(dir="."),)) -> list[dict[str, Any]]:
    """A conversation in which the assistant said `before` and the user answers with `blocks`."""
    return [USER, {"role": "assistant", "content": list(before)}, {"role": "user", "content": list(blocks)}]


def said(call: ParsedCall) -> list[tuple[str, Any]]:
    """(role, content) of each message."""
    return [(message.role, message.content) for message in call.chat.messages]


def minter() -> Minter:
    return Minter(str(uuid_utils.uuid7()))


def completion(
    content: str | None = "Ok.",
    reasoning: str | None = None,
    calls: list[tuple[str, str]] | None = None,
    finish: str = "stop",
    stop: str | int | None = None,
    usage: Usage | None = None,
) -> Completion:
    """An engine's answer; `calls` are (name, arguments), all with one engine id, as some parsers give."""
    tool_calls = [ToolCall("call_0", name, arguments) for name, arguments in calls or []]
    message = Message("assistant", content=content, reasoning=reasoning, tool_calls=tool_calls)
    choice = Choice(0, message, finish, stop, token_ids=[41, 42], logprobs=[-0.1, -0.2])
    return Completion([choice], usage or Usage(100, 20), model="local/model-7b", prompt_token_ids=[1, 2, 3])


def answer(call: ParsedCall, given: Completion) -> dict[str, Any]:
    """The JSON answer."""
    return json.loads(DIALECT.reply(call, given, minter()).json())


NOOP = -1


def streamed(call: ParsedCall, given: Completion, *early: int | None) -> bytes:
    """The whole stream. `early` is what came before the answer: sizes for `open`, and NOOP."""
    ids = minter()
    stream = DIALECT.stream(call, ids, "local/model-7b")
    data = b"".join(stream.noop() if step == NOOP else stream.open(step) for step in early)
    return data + stream.finish(DIALECT.reply(call, given, ids))


def events(data: bytes) -> list[dict[str, Any]]:
    """The events of a stream, each line decoded on its own; names and types must agree."""
    out = []
    for frame in data.split(b"\n\n")[:-1]:
        name, line = frame.split(b"\n")
        event = json.loads(line.removeprefix(b"data: ").decode())
        assert name == b"event: " + event["type"].encode()
        out.append(event)
    assert data.endswith(b"\n\n")
    return out


DELTAS = {
    "thinking": {"thinking_delta", "signature_delta"},
    "text": {"text_delta"},
    "tool_use": {"input_json_delta"},
}


def rebuilt(data: bytes) -> dict[str, Any]:
    """The message of a stream, by a grammar that allows nothing but what Anthropic documents."""
    message: dict[str, Any] | None = None
    opened: dict[str, Any] | None = None
    inputs = ""
    ended = stopped = False
    for event in events(data):
        kind = event["type"]
        assert not stopped, f"{kind} after message_stop"
        if kind == "ping":
            continue
        if kind == "message_start":
            assert message is None
            message = event["message"]
            continue
        assert message is not None, f"{kind} before message_start"
        if kind == "content_block_start":
            assert opened is None
            assert not ended
            assert event["index"] == len(message["content"])
            opened, inputs = event["content_block"], ""
            message["content"].append(opened)
        elif kind == "content_block_delta":
            assert opened is not None
            assert event["index"] == len(message["content"]) - 1
            delta = event["delta"]
            assert delta["type"] in DELTAS[opened["type"]]
            if delta["type"] == "input_json_delta":
                inputs += delta["partial_json"]
            else:
                field = delta["type"].removesuffix("_delta")
                opened[field] += delta[field]
        elif kind == "content_block_stop":
            assert opened is not None
            assert event["index"] == len(message["content"]) - 1
            if opened["type"] == "tool_use":
                opened["input"] = json.loads(inputs or "{}")
            opened = None
        elif kind == "message_delta":
            assert opened is None
            ended = event["delta"]["stop_reason"] is not None
            message |= event["delta"]
            message["usage"] |= event["usage"]
        else:
            assert kind == "message_stop"
            assert ended
            stopped = True
    assert stopped
    assert message is not None
    return message
