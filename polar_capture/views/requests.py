"""A client's request, read by its dialect: settings, tools, and the conversation as blocks."""

import json
from typing import Any

from polar_capture.chat import ChatRequest, Message, TextPart
from polar_capture.dialects import registry
from polar_capture.dialects.base import Operation, WireRequest
from polar_capture.faults import CallError
from polar_capture.views.visible import visible

_LONGEST = 20_000
"""Characters of one text that are shown: mitmweb draws all it is given."""


def request_text(wire: WireRequest) -> str | None:
    """The request for people; None where it is no generation or count of any dialect, or its body is refused."""
    found = registry.find(wire.method, wire.path, wire.host, wire.headers)
    if found is None or found[1].operation not in (Operation.GENERATE, Operation.COUNT_TOKENS):
        return None
    dialect, route = found
    try:
        parsed = dialect.parse(wire, route)
    except CallError:
        return None
    head = [f"{dialect.name} · {route.name} · model {parsed.model_requested or '?'}" + (" · stream" * parsed.stream)]
    if parsed.unmapped:
        head.append(f"not carried over: {', '.join(parsed.unmapped)}")
    head += [f"dropped by {rule.get('rule')}: {rule.get('text', rule.get('path', ''))}" for rule in parsed.dropped]
    return visible("\n".join([*head, "", chat_text(parsed.chat)]))


def chat_text(chat: ChatRequest) -> str:
    """Sampling, tools and messages, one block each."""
    asked = {name: value for name in chat.sampling.__struct_fields__
             if (value := getattr(chat.sampling, name)) not in (None, []) and (name, value) != ("n", 1)}  # fmt: skip
    lines = [f"sampling: {', '.join(f'{name}={value}' for name, value in asked.items()) or 'as served'}"]
    if chat.thinking is not None or chat.effort is not None:
        lines.append(f"thinking: {chat.thinking} · effort: {chat.effort or 'unset'}")
    if chat.tools:
        lines.append(f"tools ({len(chat.tools)}): {', '.join(tool.name for tool in chat.tools)}")
    return "\n\n".join(["\n".join(lines), *(message_text(message) for message in chat.messages)])


def message_text(message: Message) -> str:
    """One message: role, thinking, text, tool calls."""
    label = message.role + (f" (answers {message.tool_call_id})" if message.tool_call_id else "")
    return blocks_text(label, message.reasoning, _content(message), [(c.name, c.arguments) for c in message.tool_calls])


def blocks_text(label: str, thinking: str | None, text: str, calls: list[tuple[str, str]]) -> str:
    """Blocks of one turn under a ruled label."""
    parts = [f"── {label} " + "─" * max(4, 76 - len(label))]
    if thinking:
        parts.append("┄ thinking\n" + cut(thinking.strip("\n")))
    if text:
        parts.append(cut(text.strip("\n")))
    for name, arguments in calls:
        parts.append(f"→ tool call {name}\n{cut(_indented(arguments))}")
    return "\n".join(parts)


def _content(message: Message) -> str:
    if message.content is None or isinstance(message.content, str):
        return message.content or ""
    return "\n".join(part.text if isinstance(part, TextPart) else f"[{part.kind}]" for part in message.content)


def _indented(arguments: str) -> str:
    try:
        value: Any = json.loads(arguments)
    except (ValueError, RecursionError):
        return arguments
    return json.dumps(value, indent=2, ensure_ascii=False)


def cut(text: str) -> str:
    """The text, or its beginning and how much more there is."""
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}\n… {len(text) - _LONGEST:,} more characters"
