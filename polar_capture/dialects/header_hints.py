"""What request headers tell of a call's place, whatever the dialect: harness, session, sub-agent, attempt.

Measured on real harnesses: OpenCode names its session on every API and its sub-agents by a parent header; Copilot tells
sub-agent and compaction calls apart but names no ids; official SDKs count their retries.
"""

import re
from collections.abc import Mapping

from polar_capture.dialects.base import Hints

_AGENT = re.compile(r"(QwenCode|opencode|pi|GeminiCLI|claude-cli|codex)(?:[-_]\w+)*/(\d[\w.+-]*)")
_HARNESSES = {
    "QwenCode": "qwen-code",
    "opencode": "opencode",
    "pi": "pi",
    "GeminiCLI": "gemini-cli",
    "claude-cli": "claude-code",
    "codex": "codex",
}
_SESSION_HEADERS = ("x-session-id", "session-id", "session_id", "x-session-affinity")


def from_headers(headers: Mapping[str, str]) -> Hints:
    """Hints of the header names and values (names in lower case). Bare SDKs and curl leave them empty."""
    harness, version = _harness(headers)
    session = next((headers[name] for name in _SESSION_HEADERS if headers.get(name)), None)
    agent = None
    parent_session = headers.get("x-parent-session-id")
    interaction = headers.get("x-interaction-type", "")
    if parent_session:
        agent = f"sub:{session}"
        session = parent_session
    elif interaction == "conversation-subagent":
        agent = "sub:conversation"
    return Hints(
        session=session,
        agent=agent,
        attempt=_count(headers.get("x-stainless-retry-count")),
        compaction=interaction == "conversation-compaction",
        harness=harness,
        harness_version=version,
    )


def _harness(headers: Mapping[str, str]) -> tuple[str | None, str | None]:
    found = _AGENT.match(headers.get("user-agent", ""))
    if found:
        return _HARNESSES[found[1]], found[2]
    if "x-initiator" in headers or "x-interaction-type" in headers:
        return "copilot", None
    return None, None


def _count(value: str | None) -> int | None:
    return int(value) if value is not None and value.isascii() and value.isdigit() and len(value) < 6 else None
