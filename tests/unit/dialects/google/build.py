"""Builders of generateContent calls and answers."""

import json
from typing import Any

import uuid_utils

from polar_capture.chat import Choice, Completion, Message, ToolCall, Usage
from polar_capture.dialects.base import ParsedCall, WireRequest
from polar_capture.dialects.google import Google
from polar_capture.lineage.minting import Minter

DIALECT = Google()
WHOLE = "/v1beta/models/m:generateContent"
STREAM = "/v1beta/models/m:streamGenerateContent"
HI = {"role": "user", "parts": [{"text": "hi"}]}
LS = {
    "name": "ls",
    "parameters": {"type": "OBJECT", "properties": {"dir": {"type": "STRING", "nullable": True}}, "required": ["dir"]},
}
CLI = {"user-agent": "GeminiCLI-tui/0.61.0/gemini-2.5-pro (linux; x64; terminal)"}


def raw(body: bytes, path: str = WHOLE, alt: str | None = None, headers: dict[str, str] | None = None) -> ParsedCall:
    """The parsed call of a body as it came."""
    route = DIALECT.match("POST", path)
    assert route is not None
    query = {} if alt is None else {"alt": alt}
    return DIALECT.parse(WireRequest("POST", path, headers or {}, query, body), route)


def ask(path: str = WHOLE, alt: str | None = None, headers: dict[str, str] | None = None, **body: Any) -> ParsedCall:
    """The parsed call of a request that says hi, unless `contents` says more."""
    return raw(json.dumps({"contents": [HI], **body}).encode(), path, alt, headers)


def streaming(alt: str | None = "sse", **body: Any) -> ParsedCall:
    return ask(STREAM, alt, **body)


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
        usage=usage or Usage(100, 20),
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
    """The chunks of an event stream."""
    events = [event for event in body.decode().split("\n\n") if event.strip()]
    assert all(event.startswith("data: ") for event in events)
    return [json.loads(event.removeprefix("data: ")) for event in events]


def parts_of(objects: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The parts of candidate 0 over all chunks."""
    return [part for one in objects for part in one["candidates"][0]["content"]["parts"]]
