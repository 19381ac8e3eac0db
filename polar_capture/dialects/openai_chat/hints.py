"""What a Chat Completions request tells of its place beyond the headers."""

import re
from typing import Any

import msgspec

from polar_capture.chat import ChatRequest
from polar_capture.dialects import header_hints
from polar_capture.dialects.base import Hints, WireRequest

_QWEN_KEY = re.compile(r"qwen-code:([^:]+)(?::(.+))?")


def read_hints(wire: WireRequest, body: dict[str, Any], chat: ChatRequest) -> Hints:
    """Session, agent and kind of a call, from its headers, its `prompt_cache_key` and OpenCode's title calls."""
    hints = header_hints.from_headers(wire.headers)
    if hints.session is None:
        hints = _by_cache_key(hints, body)
    if hints.harness == "opencode" and not chat.tools and _is_title(chat):
        return msgspec.structs.replace(hints, kind="side", agent="aux:title")
    return hints


def _by_cache_key(hints: Hints, body: dict[str, Any]) -> Hints:
    for name in ("prompt_cache_key", "session_id"):
        key = body.get(name)
        if isinstance(key, str) and key:
            qwen = _QWEN_KEY.fullmatch(key)
            if qwen is None:
                return msgspec.structs.replace(hints, session=key)
            # A sub-agent's key ends in its type and the tool call that spawned it.
            agent = f"sub:{qwen[2]}" if qwen[2] else "main"
            return msgspec.structs.replace(hints, session=qwen[1], agent=agent)
    return hints


def _is_title(chat: ChatRequest) -> bool:
    """OpenCode asks for a session's title under the session's own id; only its instructions tell it apart."""
    first = chat.messages[0]
    return first.role == "system" and isinstance(first.content, str) and "title generator" in first.content[:300]
