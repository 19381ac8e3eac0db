"""A toy tokenizer and an append-only chat template: deterministic, invertible, with no model behind them.

Ids: special tokens 1..15, single bytes 16..271, pairs of bytes 272..65807. Text between two special tokens is cut into
pairs of bytes from its start, so equal text in equal place always gives equal ids. An assistant turn that is echoed as
it was sampled is rendered to the ids it was sampled with: the next prompt starts with prompt + completion.
"""

import json
import struct
from collections.abc import Iterable
from typing import Any

SPECIAL = {
    "<s>": 1,
    "<|end|>": 2,
    "<|start|>": 3,
    "<think>": 4,
    "</think>": 5,
    "<tool_call>": 6,
    "</tool_call>": 7,
    "<image>": 8,
}
BOS, END, START, THINK, END_THINK, CALL, END_CALL, IMAGE = SPECIAL.values()
NAMES = {number: name for name, number in SPECIAL.items()}
_BYTES, _PAIRS = 16, 272


def encode(text: str) -> list[int]:
    """The ids of a text without special tokens. Raises UnicodeEncodeError for lone surrogates, as vLLM does."""
    data = text.encode("utf-8")
    pairs = [_PAIRS + pair for pair in struct.unpack(f">{len(data) // 2}H", data[: len(data) // 2 * 2])]
    return [*pairs, _BYTES + data[-1]] if len(data) % 2 else pairs


def decode(ids: Iterable[int]) -> str:
    """The text of ids; special tokens by their names, a character cut in half as U+FFFD."""
    out = bytearray()
    for number in ids:
        out += token_bytes(number)
    return out.decode("utf-8", "replace")


def token_bytes(number: int) -> bytes:
    """The bytes of one token."""
    if number >= _PAIRS:
        return struct.pack(">H", (number - _PAIRS) & 0xFFFF)
    if number >= _BYTES:
        return bytes([number - _BYTES])
    return NAMES.get(number, f"<{number}>").encode()


def text_of(content: Any) -> str:
    """A message's content as text: parts joined by a newline, as vLLM joins them; media as a placeholder."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    return "\n".join(part.get("text", "") if part.get("type") == "text" else "<image>" for part in content)


def arguments_text(arguments: Any) -> str:
    """Arguments as the template prints them: parsed and dumped again; what is no JSON becomes {}."""
    try:
        return json.dumps(json.loads(arguments) if isinstance(arguments, str) else arguments, ensure_ascii=False)
    except ValueError:
        return "{}"


def answer_ids(reasoning: str | None, content: str | None, calls: Iterable[tuple[str, str]], *, end: bool) -> list[int]:
    """The ids that an assistant samples for a turn, its end token included where `end`."""
    ids = [THINK, *encode(reasoning), END_THINK] if reasoning else []
    ids += encode(content or "")
    for name, arguments in calls:
        ids += [CALL, *encode(f'{{"name": "{name}", "arguments": {arguments}}}'), END_CALL]
    return [*ids, END] if end else ids


def render(body: dict[str, Any], *, strips_thinking: bool = False, double_bos: bool = False) -> list[int]:
    """The prompt ids of a Chat Completions body.

    `strips_thinking` drops the reasoning of turns before the last user message, as Qwen3's template does.
    """
    messages = body.get("messages") or []
    kwargs = body.get("chat_template_kwargs") or {}
    thinks = kwargs.get("enable_thinking") is not False
    last_user = max((i for i, m in enumerate(messages) if m.get("role") == "user"), default=-1)
    ids = [BOS, BOS] if double_bos else [BOS]
    if body.get("tools"):
        ids += [START, *encode("tools\n" + json.dumps(body["tools"])), END, *encode("\n")]
    continued = bool(body.get("continue_final_message"))
    for index, message in enumerate(messages):
        role = "system" if message.get("role") == "developer" else str(message.get("role"))
        ids += [START, *encode(role + "\n")]
        text = text_of(message.get("content"))
        if role == "assistant":
            thought = message.get("reasoning") or message.get("reasoning_content")
            if strips_thinking and index < last_user:
                thought = None
            if not thought and not thinks:
                ids += [THINK, END_THINK]
            functions = [call.get("function") or {} for call in message.get("tool_calls") or []]
            calls = [(str(f.get("name")), arguments_text(f.get("arguments", ""))) for f in functions]
            ids += answer_ids(thought, text, calls, end=False)
        else:
            ids += encode(text)
        if continued and index == len(messages) - 1:
            return ids
        ids += [END, *encode("\n")]
    if body.get("add_generation_prompt", True):
        ids += [START, *encode("assistant\n")]
        if not thinks:
            ids += [THINK, END_THINK]
    return ids


def parse(ids: list[int]) -> tuple[str | None, str | None, list[tuple[str, str]]]:
    """What a server makes of sampled ids: reasoning, content, (name, arguments) of each whole call.

    An open thought is all reasoning; an open call stays raw text in the content.
    """
    reasoning: str | None = None
    rest = [i for i in ids if i != END]
    if rest[:1] == [THINK]:
        close = rest.index(END_THINK) if END_THINK in rest else len(rest)
        reasoning, rest = decode(rest[1:close]), rest[close + 1 :]
    calls: list[tuple[str, str]] = []
    text: list[int] = []
    while rest:
        if rest[0] == CALL and END_CALL in rest:
            close = rest.index(END_CALL)
            call = decode(rest[1:close])
            name = json.loads(call.split('"name": ', 1)[1].split(", ", 1)[0])
            calls.append((name, call.split('"arguments": ', 1)[1][:-1]))
            rest = rest[close + 1 :]
        else:
            text.append(rest[0])
            rest = rest[1:]
    return reasoning, decode(text) or None, calls
