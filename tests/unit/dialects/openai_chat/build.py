"""Builders of Chat Completions calls and answers."""

import json
from typing import Any

import uuid_utils

from polar_capture.chat import Choice, Completion, Message, ToolCall, Usage
from polar_capture.dialects.base import ParsedCall, WireRequest
from polar_capture.dialects.openai_chat import OpenAIChat
from polar_capture.lineage.minting import Minter

PATH = "/v1/chat/completions"
DIALECT = OpenAIChat()
USER = {"role": "user", "content": "hi"}
LS = {"type": "function", "function": {"name": "ls", "parameters": {"type": "object", "properties": {}}}}


def raw(body: bytes, headers: dict[str, str] | None = None, path: str = PATH) -> ParsedCall:
    """The parsed call of a body as it came."""
    route = DIALECT.match("POST", path)
    assert route is not None
    return DIALECT.parse(WireRequest("POST", path, headers or {}, {}, body), route)


def ask(headers: dict[str, str] | None = None, **body: Any) -> ParsedCall:
    """The parsed call of a request that says hi, unless `messages` says more."""
    return raw(json.dumps({"model": "m", "messages": [USER], **body}).encode(), headers)


def minter() -> Minter:
    return Minter(str(uuid_utils.uuid7()))


def choice(
    content: str | None = None,
    reasoning: str | None = None,
    calls: list[tuple[str, str]] | None = None,
    finish: str = "stop",
    index: int = 0,
    logprobs_content: bytes | None = None,
) -> Choice:
    """One sampled choice; `calls` are (name, arguments)."""
    tool_calls = [ToolCall(f"chatcmpl-tool-{k}", name, arguments) for k, (name, arguments) in enumerate(calls or [])]
    message = Message("assistant", content=content, reasoning=reasoning, tool_calls=tool_calls)
    return Choice(index, message, finish, token_ids=[41, 42], logprobs=[-0.1, -0.2], logprobs_content=logprobs_content)


def completion(*choices: Choice, usage: Usage | None = None) -> Completion:
    return Completion(
        choices=list(choices) or [choice("Ok.")],
        usage=usage or Usage(100, 20, 60, 5),
        model="tiny",
        prompt_token_ids=[1, 2, 3],
    )


def answer(call: ParsedCall, given: Completion) -> dict[str, Any]:
    """The JSON answer."""
    return json.loads(DIALECT.reply(call, given, minter()).json())


def streamed(call: ParsedCall, given: Completion, *before: str) -> bytes:
    """The whole stream; `before` are `open` and `noop`, called in that order ahead of `finish`."""
    ours = minter()
    stream = DIALECT.stream(call, ours, "tiny")
    early = b"".join(stream.open(None) if step == "open" else stream.noop() for step in before)
    return early + stream.finish(DIALECT.reply(call, given, ours))


def chunks(body: bytes) -> list[dict[str, Any]]:
    """The chunks of a stream, which must end in [DONE]."""
    events = body.decode().split("\n\n")
    assert events[-2:] == ["data: [DONE]", ""]
    assert all(event.startswith("data: ") for event in events[:-1])
    return [json.loads(event.removeprefix("data: ")) for event in events[:-2]]
