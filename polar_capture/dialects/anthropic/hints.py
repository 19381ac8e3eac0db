"""What a Messages request tells of its place: Claude Code's headers, metadata and attribution line; other harnesses."""

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from polar_capture.chat import ChatRequest
from polar_capture.dialects import header_hints
from polar_capture.dialects.anthropic.reading import an_object, object_or_empty, text_or_none
from polar_capture.dialects.base import Hints

_OLD_USER_ID = re.compile(r"user_[0-9a-f]*_account_[0-9a-f-]*_session_([0-9A-Za-z-]+)")
_ATTRIBUTION = re.compile(r"\b(cc_\w+)=([^;\s]+)")


def read_hints(
    headers: Mapping[str, str], body: dict[str, Any], chat: ChatRequest, dropped: list[dict[str, Any]]
) -> Hints:
    """Hints of one request. `dropped` holds Claude Code's attribution line, where it sent one."""
    hints = header_hints.from_headers(headers)
    diagnostics = object_or_empty(body.get("diagnostics"), ("diagnostics",))
    previous = text_or_none(diagnostics.get("previous_message_id"), ("diagnostics", "previous_message_id"))
    line = {name: value for drop in dropped for name, value in _ATTRIBUTION.findall(drop["text"])}
    hints = msgspec.structs.replace(
        hints,
        session=headers.get("x-claude-code-session-id") or _metadata_session(body) or hints.session,
        user_turn=headers.get("x-claude-code-prompt-id") or line.get("cc_prompt_id"),
        parent=previous or line.get("cc_prev_msg") or line.get("cc_prev_req"),
        compaction=hints.compaction or _compacts(headers),
    )
    if hears_no_pings(headers, body):
        hints = msgspec.structs.replace(hints, harness="qwen-code")
    return _placed(hints, headers, body, chat, line)


def hears_no_pings(headers: Mapping[str, str], body: dict[str, Any]) -> bool:
    """Whether this is Qwen Code: its stream watchdog sees parsed events only, and its SDK swallows pings. Towards hosts
    other than Anthropic's own it calls itself claude-cli, but has neither Claude Code's session header nor metadata."""
    agent = headers.get("user-agent", "")
    if agent.startswith("claude-cli/"):
        return "x-claude-code-session-id" not in headers and "metadata" not in body
    return agent.startswith("QwenCode/")


def _placed(
    hints: Hints, headers: Mapping[str, str], body: dict[str, Any], chat: ChatRequest, line: dict[str, str]
) -> Hints:
    """The hints with agent and kind."""
    request_class = headers.get("x-claude-code-request-class")
    agent_id = headers.get("x-claude-code-agent-id")
    agent, kind = hints.agent, "turn"
    if request_class == "auxiliary":
        agent, kind = f"aux:{_auxiliary(headers, body, chat)}", "side"
    elif agent_id or request_class == "subagent" or line.get("cc_is_subagent") == "true":
        agent = f"sub:{agent_id or headers.get('x-claude-code-agent-type') or 'unnamed'}"
    elif request_class in ("main", "compaction"):
        agent = "main"
    elif chat.sampling.max_tokens == 1 and not body.get("tools"):
        agent, kind = "aux:quota", "side"
    elif not body.get("tools") and (_asks_title(chat) or _wants_title(chat)):
        agent, kind = "aux:title", "side"
    return msgspec.structs.replace(hints, agent=agent, kind=kind)


def _auxiliary(headers: Mapping[str, str], body: dict[str, Any], chat: ChatRequest) -> str:
    """What a helper call of Claude Code is for."""
    for tool in body.get("tools") or ():
        kind = tool.get("type")
        if isinstance(kind, str) and kind.startswith(("web_search", "web_fetch")):
            return kind.rpartition("_")[0]
    if _wants_title(chat):
        return "title"
    if chat.sampling.max_tokens == 1:
        return "quota"
    purpose = headers.get("x-claude-1p-request-class", "main")
    return "helper" if purpose == "main" else purpose


def _wants_title(chat: ChatRequest) -> bool:
    """Whether the answer is bound to be {"title": …}."""
    if chat.response_format is None:
        return False
    properties = chat.response_format["json_schema"]["schema"].get("properties")
    return isinstance(properties, dict) and list(properties) == ["title"]


def _asks_title(chat: ChatRequest) -> bool:
    """OpenCode asks for a session's title under the session's own id; only its instructions tell it apart."""
    first = chat.messages[0]
    return first.role == "system" and isinstance(first.content, str) and "title generator" in first.content[:300]


def _compacts(headers: Mapping[str, str]) -> bool:
    return headers.get("x-claude-code-request-class") == "compaction" or "x-claude-code-compaction" in headers


def _metadata_session(body: dict[str, Any]) -> str | None:
    """Claude Code's session id in `metadata.user_id`: a JSON object as text, in older versions underscored words."""
    metadata = body.get("metadata")
    if metadata is None:
        return None
    user = text_or_none(an_object(metadata, ("metadata",)).get("user_id"), ("metadata", "user_id"))
    if not user:
        return None
    if user.startswith("{"):
        try:
            session = msgspec.json.decode(user, type=_UserId).session_id
        except msgspec.DecodeError:
            return None
        return session or None
    found = _OLD_USER_ID.fullmatch(user)
    return found[1] if found else None


class _UserId(msgspec.Struct):
    session_id: str = ""
