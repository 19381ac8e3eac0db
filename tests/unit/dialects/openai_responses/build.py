"""Builders of Responses calls, answers and stored turns."""

import json
from typing import Any, TypeVar

import uuid_utils

from polar_capture.chat import Choice, Completion, Message, ToolCall, Usage
from polar_capture.chat_normal import normalise
from polar_capture.dialects.base import Lookup, ParsedCall, StoredTurn, WireRequest
from polar_capture.dialects.openai_responses import OpenAIResponses
from polar_capture.lineage.minting import Minter

T = TypeVar("T")

PATH = "/v1/responses"
DIALECT = OpenAIResponses()
EXEC = {"type": "function", "name": "exec", "parameters": {"type": "object", "properties": {"cmd": {"type": "string"}}}}
LS = {"type": "function", "name": "ls", "parameters": {"type": "object", "properties": {"dir": {"type": "string"}}}}


def user(text: str) -> dict[str, Any]:
    return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}


def spoken(text: str, **more: Any) -> dict[str, Any]:
    """An assistant's message item."""
    content = [{"type": "output_text", "text": text}]
    return {"type": "message", "role": "assistant", "content": content, **more}


def raw(body: bytes, headers: dict[str, str] | None = None, path: str = PATH) -> ParsedCall:
    """The parsed call of a body as it came."""
    route = DIALECT.match("POST", path)
    assert route is not None
    return DIALECT.parse(WireRequest("POST", path, headers or {}, {}, body), route)


def ask(headers: dict[str, str] | None = None, path: str = PATH, **body: Any) -> ParsedCall:
    """The parsed call of a request that says hi, unless `input` says more."""
    return raw(json.dumps({"model": "m", "input": "hi", **body}).encode(), headers, path)


def minter() -> Minter:
    return Minter(str(uuid_utils.uuid7()))


def completion(
    content: str | None = "Ok.",
    reasoning: str | None = None,
    calls: list[tuple[str, str]] | None = None,
    finish: Any = "stop",
    usage: Usage | None = None,
    logprobs_content: bytes | None = None,
) -> Completion:
    """One sampled answer; `calls` are (name, arguments)."""
    tool_calls = [ToolCall(f"chatcmpl-tool-{k}", name, arguments) for k, (name, arguments) in enumerate(calls or [])]
    message = Message("assistant", content=content, reasoning=reasoning, tool_calls=tool_calls)
    choice = Choice(0, message, finish, token_ids=[41, 42], logprobs=[-0.1, -0.2], logprobs_content=logprobs_content)
    return Completion([choice], usage or Usage(100, 20, 60, 5), model="tiny", prompt_token_ids=[1, 2, 3])


def answer(call: ParsedCall, given: Completion, ours: Minter | None = None) -> dict[str, Any]:
    """The JSON answer."""
    return json.loads(DIALECT.reply(call, given, ours or minter()).json())


def streamed(call: ParsedCall, given: Completion, *before: str) -> list[dict[str, Any]]:
    """The events of the whole stream; `before` are `open` and `noop`, called in that order ahead of `finish`."""
    ours = minter()
    stream = DIALECT.stream(call, ours, "tiny")
    early = b"".join(stream.open(None) if step == "open" else stream.noop() for step in before)
    return events(early + stream.finish(DIALECT.reply(call, given, ours)))


def events(body: bytes) -> list[dict[str, Any]]:
    """The data of a stream's events, whose names must be their types."""
    found = []
    for block in body.decode().split("\n\n")[:-1]:
        name, data = block.split("\n")
        event = json.loads(data.removeprefix("data: "))
        assert name == f"event: {event['type']}"
        found.append(event)
    return found


def roles(call: ParsedCall) -> list[str]:
    """The roles that the engine is asked with."""
    return [message.role for message in normalise(call.chat.messages)]


def run(steps: Lookup[T], store: dict[str, StoredTurn] | None = None) -> T:
    """Drive a look-up over a store of turns by any of their ids."""
    found: StoredTurn | None = None
    while True:
        try:
            wanted = steps.send(found)  # type: ignore[arg-type]
        except StopIteration as done:
            return done.value
        found = (store or {}).get(wanted)


class Store:
    """Plays the gateway over HTTP: answers calls and keeps them by every id minted for them."""

    def __init__(self) -> None:
        self.turns: dict[str, StoredTurn] = {}

    def call(self, given: Completion, path: str = PATH, **body: Any) -> dict[str, Any]:
        sent = json.dumps({"model": "m", **body}).encode()
        call = self.resolved(sent, path)
        ours_id = str(uuid_utils.uuid7())
        ours = Minter(ours_id)
        said = answer(call, given, ours)
        choice = given.choices[0]
        turn = StoredTurn(ours_id, path, sent, choice.message, choice.finish_reason, given.usage, given.model)
        self.turns |= dict.fromkeys(ours.minted, turn)
        return said

    def resolved(self, sent: bytes, path: str = PATH) -> ParsedCall:
        return run(DIALECT.resolve(raw(sent, path=path)), self.turns)

    def get(self, path: str, method: str = "GET", **query: str) -> Any:
        route = DIALECT.match(method, path)
        assert route is not None
        return run(DIALECT.local(WireRequest(method, path, {}, query), route), self.turns)
