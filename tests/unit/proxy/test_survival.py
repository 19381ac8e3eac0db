"""What the engine says reaches the client of each dialect unchanged, and comes back to the engine unchanged: any text,
any arguments, any number of calls, whole and streamed."""

import json
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.double import Step
from tests.echoes import HARNESSES, Api, Echo
from tests.unit.proxy.background import Background, background

APIS: dict[str, Api] = {
    "chat": HARNESSES["mini-chat"][0],
    "messages": HARNESSES["claude-code"][0],
    "responses": HARNESSES["codex"][0],
    "google": HARNESSES["gemini-cli"][0],
}
ODD = st.sampled_from(["\u2028", "\u2029", "\x00", "\ud800", "\ufeff", "\r\n", "data: x\n\n", "👩‍👩‍👧", "e\u0301", " "])
TEXTS = st.lists(st.text(max_size=40) | ODD, max_size=6).map("".join)
WHOLE = TEXTS.filter(lambda text: not any("\ud800" <= sign <= "\udfff" for sign in text))
"""Without lone surrogates: a template that must print arguments as JSON has no way to print those."""
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | WHOLE,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WHOLE, inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(WHOLE, VALUES, max_size=3)
CALLS = st.lists(st.builds(lambda value, indent: json.dumps(value, indent=indent), OBJECTS, st.sampled_from([None, 1])))
STEPS = st.builds(
    lambda content, reasoning, calls: Step(
        content,
        reasoning=reasoning or None,
        tool_calls=[{"name": "ls", "arguments": arguments} for arguments in calls[:4]],
        token_ids=[300, 301, 2],  # the double has none for a lone surrogate
    ),
    TEXTS,
    TEXTS,
    CALLS,
)


@pytest.fixture(scope="module")
def running() -> Iterator[Background]:
    with background() as made:
        yield made
        assert made.internal_errors == 0


def sound(value: Any) -> Any:
    """A value with lone surrogates replaced: UTF-8 has no bytes for them."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, list):
        return [sound(item) for item in value]
    if isinstance(value, dict):
        return {sound(key): sound(item) for key, item in value.items()}
    return value


def said(api: str, answer: dict[str, Any]) -> tuple[str, str, list[Any]]:
    """(text, thoughts, values of the calls' arguments) of a whole answer."""
    if api == "chat":
        message = answer["choices"][0]["message"]
        calls = [json.loads(call["function"]["arguments"]) for call in message.get("tool_calls") or []]
        return message["content"] or "", message.get("reasoning_content") or "", calls
    if api == "messages":
        blocks = answer["content"]
        text = "".join(block["text"] for block in blocks if block["type"] == "text")
        thoughts = "".join(block["thinking"] for block in blocks if block["type"] == "thinking")
        return text, thoughts, [block["input"] for block in blocks if block["type"] == "tool_use"]
    if api == "responses":
        items = answer["output"]
        text = "".join(part["text"] for item in items if item["type"] == "message" for part in item["content"])
        thoughts = "".join(part["text"] for item in items if item["type"] == "reasoning" for part in item["summary"])
        return text, thoughts, [json.loads(item["arguments"]) for item in items if item["type"] == "function_call"]
    parts = answer["candidates"][0]["content"]["parts"]
    text = "".join(part.get("text", "") for part in parts if not part.get("thought"))
    thoughts = "".join(part["text"] for part in parts if part.get("thought"))
    return text, thoughts, [part["functionCall"]["args"] for part in parts if "functionCall" in part]


@pytest.mark.parametrize("api", APIS)
def test_any_turn_survives_there_and_back(running: Background, api: str) -> None:
    client = APIS[api]
    numbers = iter(range(10**6))

    @settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
    @given(STEPS)
    def holds(step: Step) -> None:
        session = f"{api}-{next(numbers)}"
        running.vllm.script.default = step
        history = client.asked(session)
        answer = running.post(client.url, client.body(history, "ls"), session=session)
        text, thoughts, values = said(api, answer)
        # Blanks alone beside a call, in Responses also beside a thought, are no text of their own there; they come back
        # all the same.
        beside = {
            "messages": step.tool_calls,
            "google": step.tool_calls,
            "responses": step.reasoning or step.tool_calls,
        }
        blank = not str(step.content).strip() and beside.get(api)
        assert text == ("" if blank else sound(step.content))
        assert thoughts == sound(step.reasoning or "")
        assert values == [json.loads(call["arguments"]) for call in step.tool_calls]
        running.vllm.script.default = Step("Done.")
        history += client.echoed(answer, Echo()) + (client.results(answer, "r") or client.asked("on"))
        running.post(client.url, client.body(history, "ls"), session=session)
        sent = running.vllm.chats[-1].body["messages"]
        echoed = [message for message in sent if message["role"] == "assistant"]
        if not (step.content or step.reasoning or step.tool_calls):
            return  # an empty turn may be left out of the history
        (message,) = echoed
        assert (message.get("content") or "") == sound(step.content)
        assert (message.get("reasoning") or "") == sound(step.reasoning or "")
        arguments = [call["function"]["arguments"] for call in message.get("tool_calls", [])]
        assert arguments == [call["arguments"] for call in step.tool_calls]

    holds()


@pytest.mark.parametrize("api", APIS)
def test_a_megabyte_survives_whole_and_streamed(running: Background, api: str) -> None:
    client, words = APIS[api], "é\u2028x😀\x00 " * 120_000
    running.vllm.script.default = Step(words)
    body = client.body(client.asked("long"), "ls") | {"max_tokens": 10**6, "max_output_tokens": 10**6}
    if api == "google":
        body = client.body(client.asked("long"), "ls")
    running.vllm.options = msgspec.structs.replace(running.vllm.options, honour_max_tokens=False)
    assert said(api, running.post(client.url, body, session=f"{api}-long"))[0] == words
    url = client.url.replace(":generateContent", ":streamGenerateContent?alt=sse")
    streaming = body if api == "google" else body | {"stream": True}
    status, stream, _ = running.answer("POST", url, data=json.dumps(streaming), session=f"{api}-stream")
    assert status == 200
    assert "".join(map(delta, map(json.loads, data_of(stream)))) == words


def data_of(stream: bytes) -> list[bytes]:
    """The data of each event but `[DONE]`. Events end at line feeds only: U+2028 is no line break."""
    lines = stream.split(b"\n")
    return [line[6:] for line in lines if line.startswith(b"data: ") and line != b"data: [DONE]"]


def delta(event: dict[str, Any]) -> str:
    """The piece of text that an event of any API adds."""
    if event.get("type") == "response.output_text.delta":
        return event["delta"]
    if event.get("type") == "content_block_delta":
        return event["delta"].get("text", "")
    if "candidates" in event:
        return "".join(part.get("text", "") for part in event["candidates"][0].get("content", {}).get("parts", []))
    return "".join(choice["delta"].get("content") or "" for choice in event.get("choices", []))
