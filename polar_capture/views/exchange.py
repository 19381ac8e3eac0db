"""What went to vLLM for a call, and what came back."""

import json
from typing import Any

from polar_capture.store.records import CallRecord
from polar_capture.views.requests import blocks_text
from polar_capture.views.tokens import heading
from polar_capture.views.visible import visible

_PROSE = ("messages", "tools")


def exchange_text(rows: list[CallRecord]) -> str:
    """The request as it was sent (prompt ids are left out) and each choice of the answer."""
    first = rows[0]
    sent = _object(first.chat_request)
    lines = [heading(first), f"upstream {first.upstream} · {first.upstream_ms or 0:.0f} ms"]
    lines.append(f"continuation {first.continuation} · logprobs {first.logprobs_mode}")
    if first.error:
        lines.append(f"error: {first.error}")
    fields = {name: value for name, value in sent.items() if name not in _PROSE}
    lines += ["", "request", json.dumps(fields, indent=2, ensure_ascii=False)]
    if sent.get("tools"):
        lines.append(f"tools: {', '.join(str((tool.get('function') or tool).get('name')) for tool in sent['tools'])}")
    lines += ["", *(_message(message, str(message.get("role"))) for message in sent.get("messages") or [])]
    for row in rows:
        if row.message:
            finish = f"{row.finish_reason}, stopped by {row.stop_reason}" if row.stop_reason else str(row.finish_reason)
            lines += ["", _message(_object(row.message), f"choice {row.choice_index}, finish {finish}")]
    return visible("\n".join(lines))


def _message(message: dict[str, Any], label: str) -> str:
    content = message.get("content")
    text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False) if content else ""
    functions = [call.get("function") or call for call in message.get("tool_calls") or []]
    calls = [(str(function.get("name")), str(function.get("arguments"))) for function in functions]
    return blocks_text(label, message.get("reasoning") or message.get("reasoning_content"), text, calls)


def _object(body: bytes | None) -> dict[str, Any]:
    try:
        value = json.loads(body or b"")
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
