"""A provider-shaped answer, streamed or whole, as the blocks that a harness makes of it: deltas joined.

What kind of answer it is shows in its events, so this needs no dialect's name:

- Messages: https://docs.anthropic.com/en/api/messages-streaming
- Chat Completions: https://platform.openai.com/docs/api-reference/chat-streaming
- Responses: https://platform.openai.com/docs/api-reference/responses-streaming
- generateContent: https://ai.google.dev/api/generate-content
"""

import json
import re
from collections import defaultdict
from typing import Any

from polar_capture.views.requests import blocks_text
from polar_capture.views.visible import visible

_LINE_BREAK = re.compile(r"\r\n|\n|\r")
"""Those of an event stream: `splitlines` would also cut JSON at U+2028, U+0085 and others."""


class _Turn:
    """What has been joined so far."""

    def __init__(self) -> None:
        self.thinking = ""
        self.text = ""
        self.calls: dict[Any, list[str]] = defaultdict(lambda: ["", ""])
        self.facts: dict[str, Any] = {}
        self.errors: list[str] = []

    def learn(self, **facts: Any) -> None:
        self.facts.update({name: value for name, value in facts.items() if value not in (None, "", {})})


def answer_text(body: bytes) -> str | None:
    """The answer for people; None for what is no JSON and no event stream of JSON."""
    events = _events(body)
    if not events:
        return None
    turn = _Turn()
    for event in events:
        _read(event, turn)
    if not (turn.text or turn.thinking or turn.calls or turn.errors or turn.facts):
        return None
    kind = f"{len(events)} events" if len(events) > 1 else "whole answer"
    usage = _short(turn.facts.pop("usage", ""))
    facts = " · ".join(f"{name} {said}" for name, value in turn.facts.items() if (said := _short(value)))
    parts = [(f"{kind} · {facts}" if facts else kind) + (f"\nusage: {usage}" if usage else "")]
    parts += [f"error: {error}" for error in turn.errors]
    calls = [(name, arguments) for name, arguments in turn.calls.values()]
    if turn.thinking or turn.text or calls:
        parts.append(blocks_text("assistant", turn.thinking, turn.text, calls))
    return visible("\n\n".join(parts))


def error_line(body: bytes, longest: int = 160) -> str:
    """What a provider-shaped error says, in one line; "" where there is none."""
    turn = _Turn()
    for event in _events(body):
        _read(event, turn)
    line = visible(" ".join(" ".join(turn.errors).split()))
    return line if len(line) <= longest else line[: longest - 1] + "…"


def _events(body: bytes) -> list[dict[str, Any]]:
    text = body.decode("utf-8", "replace")
    lines = [line[5:].strip() for line in _LINE_BREAK.split(text) if line.startswith("data:")]
    found = []
    for part in lines or [text]:
        try:
            value = json.loads(part)
        except (ValueError, RecursionError):
            continue  # [DONE]
        found += [item for item in (value if isinstance(value, list) else [value]) if isinstance(item, dict)]
    return found


def _read(event: dict[str, Any], turn: _Turn) -> None:
    if event.get("error"):
        error = event["error"]
        turn.errors.append(str(error.get("message") or error) if isinstance(error, dict) else str(error))
    kind = str(event.get("type", ""))
    if kind.startswith("response.") or event.get("object") == "response":
        _responses(kind, event, turn)
    elif "candidates" in event or "usageMetadata" in event or isinstance(event.get("response"), dict):
        _google(event.get("response") or event, turn)
    elif isinstance(event.get("choices"), list):
        _chat(event, turn)
    else:
        _messages(kind, event, turn)


def _messages(kind: str, event: dict[str, Any], turn: _Turn) -> None:
    if kind in ("message_start", "message"):
        message = event.get("message") or event
        turn.learn(id=message.get("id"), stop=message.get("stop_reason"), usage=message.get("usage"))
        for number, block in enumerate(message.get("content") or []):
            _block(number, block, turn)
    elif kind == "content_block_start":
        _block(event.get("index"), event.get("content_block") or {}, turn)
    elif kind == "content_block_delta":
        delta = event.get("delta") or {}
        turn.text += delta.get("text", "")
        turn.thinking += delta.get("thinking", "")
        if "partial_json" in delta:
            turn.calls[event.get("index")][1] += delta["partial_json"]
    elif kind == "message_delta":
        turn.learn(stop=(event.get("delta") or {}).get("stop_reason"), usage=event.get("usage"))


def _block(number: Any, block: dict[str, Any], turn: _Turn) -> None:
    turn.text += block.get("text") or ""
    turn.thinking += block.get("thinking") or ""
    if str(block.get("type", "")).endswith("tool_use"):
        turn.calls[number][0] = str(block.get("name"))
        if block.get("input"):
            turn.calls[number][1] = json.dumps(block["input"])


def _chat(event: dict[str, Any], turn: _Turn) -> None:
    turn.learn(id=event.get("id"), usage=event.get("usage"))
    for choice in event["choices"]:
        part = choice.get("delta") or choice.get("message") or {}
        turn.text += part.get("content") or ""
        turn.thinking += part.get("reasoning_content") or part.get("reasoning") or ""
        turn.learn(stop=choice.get("finish_reason"))
        for place, call in enumerate(part.get("tool_calls") or []):
            joined = turn.calls[choice.get("index", 0), call.get("index", place)]
            function = call.get("function") or {}
            joined[0] += function.get("name") or ""
            joined[1] += function.get("arguments") or ""


def _responses(kind: str, event: dict[str, Any], turn: _Turn) -> None:
    if kind in ("response.completed", "response.incomplete", "response.failed") or not kind:
        whole = event.get("response") or event
        turn.learn(id=whole.get("id"), status=whole.get("status"), usage=whole.get("usage"))
        if whole.get("error"):
            turn.errors.append(str(whole["error"].get("message")))
        turn.text, turn.thinking = "", ""  # the last event repeats all that the deltas said
        turn.calls.clear()
        for item in whole.get("output") or []:
            _item(item, turn)
    elif kind == "response.output_text.delta":
        turn.text += event.get("delta") or ""
    elif kind in ("response.reasoning_text.delta", "response.reasoning_summary_text.delta"):
        turn.thinking += event.get("delta") or ""
    elif kind == "response.output_item.added" and "name" in (event.get("item") or {}):
        turn.calls[event.get("output_index")][0] = event["item"]["name"]
    elif kind in ("response.function_call_arguments.delta", "response.custom_tool_call_input.delta"):
        turn.calls[event.get("output_index")][1] += event.get("delta") or ""


def _item(item: dict[str, Any], turn: _Turn) -> None:
    texts = [part.get("text") or "" for part in item.get("content") or [] if isinstance(part, dict)]
    texts += [part.get("text") or "" for part in item.get("summary") or [] if isinstance(part, dict)]
    if item.get("type") == "reasoning":
        turn.thinking += "\n".join(texts)
    elif item.get("type") == "message":
        turn.text += "\n".join(texts)
    else:
        given = item.get("arguments") or item.get("input") or item.get("action") or ""
        spelled = given if isinstance(given, str) else json.dumps(given)
        turn.calls[item.get("id")] = [str(item.get("name") or item.get("type")), spelled]


def _google(event: dict[str, Any], turn: _Turn) -> None:
    turn.learn(id=event.get("responseId"), usage=event.get("usageMetadata"))
    for candidate in event.get("candidates") or []:
        turn.learn(stop=candidate.get("finishReason"))
        for part in (candidate.get("content") or {}).get("parts") or []:
            if part.get("thought"):
                turn.thinking += part.get("text") or ""
            else:
                turn.text += part.get("text") or ""
            if part.get("functionCall"):
                call = part["functionCall"]
                turn.calls[len(turn.calls)] = [str(call.get("name")), json.dumps(call.get("args") or {})]


def _short(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name}={item}" for name, item in value.items() if isinstance(item, int) and item)
    return str(value)
