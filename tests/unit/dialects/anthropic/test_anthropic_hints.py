"""What harnesses tell of a call's place on Messages (headers and bodies as measured)."""

import json
from typing import Any

import pytest

from polar_capture.dialects.base import Hints
from tests.unit.dialects.anthropic.build import LS, ask

CLAUDE = {
    "user-agent": "claude-cli/2.1.332 (external, sdk-cli)",
    "x-claude-code-session-id": "s1",
    "x-stainless-retry-count": "2",
    "x-claude-code-prompt-id": "p1",
}
SEARCH = {"type": "web_search_20250305", "name": "web_search"}
TITLE = {"format": {"type": "json_schema", "schema": {"type": "object", "properties": {"title": {"type": "string"}}}}}
NEW_ID = json.dumps({"device_id": "d", "account_uuid": "", "session_id": "s2"})
OLD_ID = "user_0a1b_account__session_11111111-2222-3333-4444-555555555555"


def claude(request_class: str, **more: str) -> dict[str, str]:
    return {**CLAUDE, "x-claude-code-request-class": request_class, **more}


def test_claude_code_names_session_turn_attempt_and_parent():
    hints = ask(claude("main"), tools=[LS], diagnostics={"previous_message_id": "msg_1"}).hints
    assert hints == Hints("s1", "main", "turn", "p1", 2, "msg_1", False, "claude-code", "2.1.332")


@pytest.mark.parametrize(
    ("headers", "body", "agent", "kind"),
    [
        (claude("subagent", **{"x-claude-code-agent-id": "a7"}), {"tools": [LS]}, "sub:a7", "turn"),
        (claude("subagent", **{"x-claude-code-agent-type": "Plan"}), {"tools": [LS]}, "sub:Plan", "turn"),
        (claude("compaction"), {"tools": [LS]}, "main", "turn"),
        (claude("auxiliary"), {"tools": [SEARCH]}, "aux:web_search", "side"),
        (claude("auxiliary"), {"output_config": TITLE}, "aux:title", "side"),
        (claude("auxiliary"), {"max_tokens": 1}, "aux:quota", "side"),
        (
            claude("auxiliary", **{"x-claude-1p-request-class": "summary-extraction"}),
            {},
            "aux:summary-extraction",
            "side",
        ),
        (claude("auxiliary", **{"x-claude-1p-request-class": "main"}), {}, "aux:helper", "side"),
        ({}, {"max_tokens": 1}, "aux:quota", "side"),
        ({}, {"max_tokens": 1, "tools": [LS]}, None, "turn"),
        ({}, {"output_config": TITLE}, "aux:title", "side"),
        ({"x-session-id": "o1"}, {"system": "You are a title generator. …"}, "aux:title", "side"),
        ({}, {"tools": [LS]}, None, "turn"),
    ],
)
def test_agent_and_kind(headers: dict[str, str], body: dict[str, Any], agent: str | None, kind: str):
    hints = ask(headers, **body).hints
    assert (hints.agent, hints.kind) == (agent, kind)


def test_the_attribution_line_fills_in_what_headers_do_not_say():
    line = "x-anthropic-billing-header: cc_version=2; cc_is_subagent=true; cc_prev_req=req_9; cc_prompt_id=p9;"
    hints = ask(system=[{"type": "text", "text": line}], tools=[LS]).hints
    assert (hints.agent, hints.parent, hints.user_turn) == ("sub:unnamed", "req_9", "p9")


@pytest.mark.parametrize(
    ("user_id", "session"),
    [
        (NEW_ID, "s2"),
        (OLD_ID, "11111111-2222-3333-4444-555555555555"),
        ("u1", None),
        ("{broken", None),
        ('{"session_id": 5}', None),
        (None, None),
    ],
)
def test_the_session_in_metadata(user_id: str | None, session: str | None):
    assert ask(metadata={"user_id": user_id}).hints.session == session


def test_opencode_sub_agents_belong_to_their_parents_session():
    headers = {"user-agent": "opencode/1.18.33 x", "x-session-id": "child", "x-parent-session-id": "root"}
    hints = ask(headers, tools=[LS]).hints
    assert (hints.session, hints.agent, hints.harness) == ("root", "sub:child", "opencode")


@pytest.mark.parametrize(
    ("headers", "body", "beats"),
    [
        ({"user-agent": "QwenCode/0.24.4 (linux; x64)"}, {}, True),
        ({"user-agent": "claude-cli/0.24.4 (external, cli)"}, {}, True),
        ({"user-agent": "claude-cli/1.0.1 (external, cli)"}, {"metadata": {"user_id": OLD_ID}}, False),
        (CLAUDE, {}, False),
        ({"user-agent": "Anthropic/Python 2.15.0"}, {}, False),
    ],
    ids=["qwen", "qwen in disguise", "old claude code", "claude code", "sdk"],
)
def test_only_qwen_code_needs_more_than_pings(headers: dict[str, str], body: dict[str, Any], beats: bool):
    call = ask(headers, **body)
    assert call.extra.beats is beats
    assert (call.hints.harness == "qwen-code") is beats
