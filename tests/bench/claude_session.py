"""A session shaped like Claude Code's: 60 turns that grow from about 15,000 to 120,000 prompt tokens, bodies up to
0.5 MB.

Texts are pieces of Python's own library; token ids are hashes of word pieces, spread over 150,000. What makes it
Claude-shaped: the billing line that changes on each request, the cache mark that moves to the last message, 30 KB of
system prompt and 16 tools repeated each time, tool results of about 5 KB.
"""

import json
import os
import random
import re
import zlib
from pathlib import Path
from typing import Any, NamedTuple

import uuid_utils

from polar_capture.store.records import CallRecord

TURNS = 60
_PIECE = re.compile(r"\s?[A-Za-z_]{1,7}|\s+|\d{1,3}|[^\sA-Za-z_\d]{1,3}")


class Turn(NamedTuple):
    """One call as the proxy sees it."""

    request: bytes
    chat_request: bytes
    message: bytes
    prompt_ids: list[int]
    completion_ids: list[int]
    logprobs: list[float]


def token_ids(text: str) -> list[int]:
    """About one id for each four characters."""
    return [zlib.crc32(piece.encode()) % 150_000 for piece in _PIECE.findall(text)]


def turns(count: int = TURNS, seed: int = 7) -> list[Turn]:
    """The session's calls; equal for equal seeds."""
    source = _Source(seed)
    system = source.take(30_000)
    tools = [_tool(source, index) for index in range(16)]
    messages: list[dict[str, Any]] = []
    context: list[int] = []
    result: list[Turn] = []
    for turn in range(count):
        messages.append(_user_message(source, turn))
        news = _text(messages[-1]["content"][0])
        prompt = [*context, 5, 6, *token_ids(news), 7, 8] if context else token_ids(system + json.dumps(tools) + news)
        text, command = source.take(900), source.take(700)
        completion = [*token_ids(text), 9, *token_ids(command), 10]
        use = {"type": "tool_use", "id": f"toolu_{turn + 1:032x}", "name": "T3", "input": {"command": command}}
        assistant = {"role": "assistant", "content": [{"type": "text", "text": text}, use]}
        result.append(
            Turn(
                _compact(_messages_request(source.random, system, tools, messages)),
                _compact(_chat_request(system, tools, messages)),
                _compact(_chat_message(assistant)),
                prompt,
                completion,
                [-(abs(source.random.gauss(0, 1)) ** 6) * 0.1 - 1e-7 for _ in completion],
            )
        )
        messages.append(assistant)
        context = prompt + completion
    return result


def records(session_id: str, calls: list[Turn]) -> list[CallRecord]:
    """The session as the gateway hands it to the store."""
    parent: str | None = None
    rows: list[CallRecord] = []
    for seq, turn in enumerate(calls):
        call_id = str(uuid_utils.uuid7())
        stem = call_id.replace("-", "")
        rows.append(
            CallRecord(
                id=call_id,
                session_id=session_id,
                seq=seq,
                parent_call_id=parent,
                dialect="anthropic",
                host="api.anthropic.com",
                path="/v1/messages",
                model_requested="claude-sonnet-4-5",
                model_served="policy",
                upstream="http://127.0.0.1:8000",
                status="ok",
                trainable=True,
                streamed=True,
                started_at=1.7e9 + seq,
                finished_at=1.7e9 + seq + 0.5,
                upstream_ms=480.25,
                http_status=200,
                finish_reason="tool_calls",
                prompt_tokens=len(turn.prompt_ids),
                completion_tokens=len(turn.completion_ids),
                sampling={"temperature": 1.0, "top_p": 1.0, "top_k": -1, "min_p": 0.0, "max_tokens": 32000},
                logprobs_mode="raw_logprobs",
                continuation="exact",
                request=turn.request,
                chat_request=turn.chat_request,
                message=turn.message,
                prompt_ids=turn.prompt_ids,
                completion_ids=turn.completion_ids,
                logprobs=turn.logprobs,
                minted=[f"msg_{stem}", f"toolu_{stem}", f"req_{stem}"],
            )
        )
        parent = call_id
    return rows


class _Source:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        files = sorted(Path(os.__file__).parent.glob("*.py"))
        self._text = "\n".join(path.read_text(encoding="utf-8", errors="replace") for path in files)

    def take(self, length: int) -> str:
        begin = self.random.randrange(len(self._text) - length)
        return self._text[begin : begin + length]


def _tool(source: _Source, index: int) -> dict[str, Any]:
    properties = {
        name: {"type": "string", "description": source.take(80)} for name in ("path", "pattern", "mode", "text")
    }
    schema = {"type": "object", "properties": properties}
    return {"name": f"T{index}", "description": source.take(1200), "input_schema": schema}


def _user_message(source: _Source, turn: int) -> dict[str, Any]:
    if turn == 0:
        return {"role": "user", "content": [{"type": "text", "text": source.take(3000)}]}
    part = {"tool_use_id": f"toolu_{turn:032x}", "type": "tool_result", "content": source.take(4800)}
    return {"role": "user", "content": [part]}


def _text(part: dict[str, Any]) -> str:
    return part["text"] if part["type"] == "text" else part["content"]


def _messages_request(rng: random.Random, system: str, tools: list[Any], messages: list[Any]) -> dict[str, Any]:
    *before, last = messages
    marked = {**last, "content": [{**last["content"][0], "cache_control": {"type": "ephemeral"}}]}
    billing = f"x-anthropic-billing-header: cc_version=2.1.{rng.randrange(999)}; cch={rng.randrange(1 << 20):05x};"
    return {
        "model": "claude-sonnet-4-5",
        "messages": [*before, marked],
        "system": [
            {"type": "text", "text": billing},
            {"type": "text", "text": system, "cache_control": {"type": "ephemeral"}},
        ],
        "tools": tools,
        "metadata": {"user_id": "user_0"},
        "max_tokens": 32000,
        "stream": True,
    }


def _chat_request(system: str, tools: list[Any], messages: list[Any]) -> dict[str, Any]:
    chat: list[dict[str, Any]] = [{"role": "system", "content": system}]
    for message in messages:
        if message["role"] == "assistant":
            chat.append(_chat_message(message))
            continue
        for part in message["content"]:
            if part["type"] == "text":
                chat.append({"role": "user", "content": part["text"]})
            else:
                chat.append({"role": "tool", "tool_call_id": part["tool_use_id"], "content": part["content"]})
    functions = [
        {
            "type": "function",
            "function": {**{k: t[k] for k in ("name", "description")}, "parameters": t["input_schema"]},
        }
        for t in tools
    ]
    return {"model": "policy", "messages": chat, "tools": functions, "temperature": 1.0, "logprobs": True}


def _chat_message(message: dict[str, Any]) -> dict[str, Any]:
    text, use = message["content"]
    call = {"name": use["name"], "arguments": json.dumps(use["input"])}
    return {
        "role": "assistant",
        "content": text["text"],
        "tool_calls": [{"id": use["id"], "type": "function", "function": call}],
    }


def _compact(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
