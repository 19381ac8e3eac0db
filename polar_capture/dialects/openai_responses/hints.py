"""What a Responses request tells of its place.

Codex tells most: session, thread, turn and kind of request, in headers and, per message on a WebSocket, in the body's
`client_metadata`. Measured on codex-cli 0.171.0, Qwen Code 0.24.4, Pi 1.6.0.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from polar_capture.dialects.base import Hints
from polar_capture.dialects.header_hints import from_headers

_TURN_METADATA = "x-codex-turn-metadata"
_HELPERS = ("review", "memory_consolidation", "guardian")
"""Values of `x-openai-subagent` that name a helper of the harness's own; others are agents that the model started."""


def read_hints(body: Mapping[str, Any], headers: Mapping[str, str], compaction: bool) -> Hints:
    """Hints of one request. Odd or damaged metadata is no error: it says nothing."""
    seen = from_headers(headers)
    told = _metadata(body, headers)
    key = _word(body.get("prompt_cache_key"))
    known: dict[str, Any] = {
        "session": told.get("session_id") or seen.session or key,
        "agent": seen.agent,
        "user_turn": told.get("root_turn_id") or told.get("turn_id"),
        "parent": _word(body.get("previous_response_id")),
        "compaction": compaction or seen.compaction or told.get("request_kind") == "compaction",
    }
    if told.get("thread_id"):
        known["agent"] = _codex_agent(told)
    elif key and key.startswith("qwen-code:"):
        session, agent = _qwen(key)
        known |= {"session": session, "agent": agent}
    return msgspec.structs.replace(seen, **known)


def _metadata(body: Mapping[str, Any], headers: Mapping[str, str]) -> dict[str, str]:
    """Codex's metadata as one flat table. The body goes before the headers: a WebSocket's are those of its start."""
    table: dict[str, str] = {}
    of_body = body.get("client_metadata")
    if not isinstance(of_body, dict):
        of_body = {}
    for packed in (headers.get(_TURN_METADATA), of_body.get(_TURN_METADATA)):
        table |= _strings(_unpacked(packed))
    named = {
        "session_id": headers.get("session-id"),
        "thread_id": headers.get("thread-id"),
        "subagent": headers.get("x-openai-subagent"),
    }
    named |= {k: of_body[k] for k in ("session_id", "thread_id", "turn_id", "root_turn_id") if k in of_body}
    named["subagent"] = of_body.get("x-openai-subagent") or named["subagent"]
    return _strings(named) | table | _strings(of_body, ("turn_id", "root_turn_id"))


def _unpacked(packed: Any) -> Any:
    if not isinstance(packed, str):
        return packed
    try:
        return msgspec.json.decode(packed)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return None


def _strings(table: Any, only: tuple[str, ...] | None = None) -> dict[str, str]:
    if not isinstance(table, dict):
        return {}
    return {k: v for k, v in table.items() if isinstance(v, str) and v and (only is None or k in only)}


def _codex_agent(told: Mapping[str, str]) -> str:
    thread, helper = told["thread_id"], told.get("subagent", "")
    if helper in _HELPERS:
        return f"aux:{helper}"
    path = told.get("agent_name")
    is_main = path == "/root" if path else thread == told.get("session_id", thread)
    return "main" if is_main else f"sub:{thread}"


def _qwen(key: str) -> tuple[str, str]:
    """`qwen-code:<uuid>`, and of a sub-agent `qwen-code:<uuid>:<type>-<call id of its start>`."""
    _, session, agent = (*key.split(":", 2), "")[:3]
    return session or key, f"sub:{agent}" if agent else "main"


def _word(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None
