"""What headers tell, whatever the dialect."""

import pytest

from polar_capture.dialects.base import Hints
from polar_capture.dialects.header_hints import from_headers


@pytest.mark.parametrize(
    ("agent", "harness", "version"),
    [
        ("QwenCode/0.24.4 (linux; x64)", "qwen-code", "0.24.4"),
        ("opencode/1.18.33 ai-sdk/provider-utils/4.0.23 runtime/bun/1.3.14", "opencode", "1.18.33"),
        ("pi/1.6.0 (linux; node/v22.23.3; x64)", "pi", "1.6.0"),
        ("GeminiCLI-tui/0.61.0/gemini-2.5-pro (linux; x64; terminal)", "gemini-cli", "0.61.0"),
        ("GeminiCLI/0.61.0/gemini-2.5-pro (linux; x64)", "gemini-cli", "0.61.0"),
        ("claude-cli/2.1.332 (external, cli)", "claude-code", "2.1.332"),
        ("codex_exec/0.171.0 (Linux; x86_64)", "codex", "0.171.0"),
        ("OpenAI/Python 3.57.0", None, None),
        ("pip/26.0", None, None),
        ("", None, None),
    ],
)
def test_harness_by_user_agent(agent: str, harness: str | None, version: str | None) -> None:
    hints = from_headers({"user-agent": agent})
    assert (hints.harness, hints.harness_version) == (harness, version)


def test_copilot_by_its_own_headers() -> None:
    base = {"user-agent": "OpenAI/JS 5.20.1"}
    assert from_headers({**base, "x-initiator": "agent"}).harness == "copilot"
    assert from_headers({**base, "x-interaction-type": "conversation-subagent"}).agent == "sub:conversation"
    assert from_headers({**base, "x-interaction-type": "conversation-compaction"}).compaction


def test_sub_agents_belong_to_the_parents_session() -> None:
    hints = from_headers({"x-session-id": "child", "x-parent-session-id": "root"})
    assert (hints.session, hints.agent) == ("root", "sub:child")


@pytest.mark.parametrize(("value", "attempt"), [("0", 0), ("3", 3), ("x", None), ("-1", None), ("", None), ("²", None)])
def test_attempts(value: str, attempt: int | None) -> None:
    assert from_headers({"x-stainless-retry-count": value}).attempt == attempt


def test_no_headers_tell_nothing() -> None:
    assert from_headers({}) == Hints()
