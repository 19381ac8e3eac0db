"""What requests tell of their place: session, lineage, kind, parent, and which harness sent them."""

import json
from typing import Any

import pytest

from polar_capture.dialects.base import Hints
from tests.unit.dialects.openai_responses.build import ask

CODEX = {"user-agent": "codex_exec/0.171.0 (Debian 12.0.0; x86_64) xterm", "session-id": "S", "thread-id": "T"}


def codex(headers: dict[str, str] | None = None, **told: Any) -> dict[str, str]:
    told = {"session_id": "S", "thread_id": "T", "turn_id": "U", "agent_name": "/root", "request_kind": "turn", **told}
    return {**CODEX, "x-codex-turn-metadata": json.dumps(told), **(headers or {})}


@pytest.mark.parametrize(
    ("headers", "body", "expected"),
    [
        ({}, {}, Hints()),
        ({}, {"prompt_cache_key": "k"}, Hints(session="k")),
        ({}, {"previous_response_id": "resp_1"}, Hints(parent="resp_1")),
        ({"x-stainless-retry-count": "2"}, {}, Hints(attempt=2)),
        (
            codex(thread_id="S"),
            {"prompt_cache_key": "S"},
            Hints(session="S", agent="main", user_turn="U", harness="codex", harness_version="0.171.0"),
        ),
        (
            codex({"x-openai-subagent": "collab_spawn"}, agent_name="/root/x", root_turn_id="R"),
            {},
            Hints(session="S", agent="sub:T", user_turn="R", harness="codex", harness_version="0.171.0"),
        ),
        (
            codex({"x-openai-subagent": "review"}),
            {},
            Hints(session="S", agent="aux:review", user_turn="U", harness="codex", harness_version="0.171.0"),
        ),
        (
            codex(request_kind="compaction"),
            {},
            Hints(
                session="S", agent="main", user_turn="U", compaction=True, harness="codex", harness_version="0.171.0"
            ),
        ),
        (CODEX, {}, Hints(session="S", agent="sub:T", harness="codex", harness_version="0.171.0")),
        (
            {**CODEX, "x-codex-turn-metadata": "no json"},
            {},
            Hints(session="S", agent="sub:T", harness="codex", harness_version="0.171.0"),
        ),
        (
            {"user-agent": "QwenCode/0.24.4 (linux; x64)"},
            {"prompt_cache_key": "qwen-code:abc"},
            Hints(session="abc", agent="main", harness="qwen-code", harness_version="0.24.4"),
        ),
        (
            {"user-agent": "QwenCode/0.24.4 (linux; x64)"},
            {"prompt_cache_key": "qwen-code:abc:general-call_1"},
            Hints(session="abc", agent="sub:general-call_1", harness="qwen-code", harness_version="0.24.4"),
        ),
        (
            {"user-agent": "pi/1.6.0 (linux; node/v22; x64)", "session-id": "p"},
            {"prompt_cache_key": "p"},
            Hints(session="p", harness="pi", harness_version="1.6.0"),
        ),
        (
            {"user-agent": "opencode/1.18.33 (linux)", "x-session-id": "c", "x-parent-session-id": "p"},
            {"prompt_cache_key": "c"},
            Hints(session="p", agent="sub:c", harness="opencode", harness_version="1.18.33"),
        ),
    ],
)
def test_hints(headers: dict[str, str], body: dict[str, Any], expected: Hints) -> None:
    assert ask(headers, **body).hints == expected


def test_on_a_socket_the_message_goes_before_the_headers_of_the_upgrade() -> None:
    now = {"x-codex-turn-metadata": json.dumps({"turn_id": "NEW", "request_kind": "turn"}), "turn_id": "NEW"}
    headers = codex({}, turn_id="OLD", request_kind="compaction", thread_id="S")
    hints = ask(headers, client_metadata=now).hints
    assert (hints.user_turn, hints.compaction, hints.agent) == ("NEW", False, "main")


@pytest.mark.parametrize(
    "metadata", [5, "x", [], {"x-codex-turn-metadata": 5}, {"x-codex-turn-metadata": "[]", "turn_id": 7}]
)
def test_damaged_metadata_says_nothing(metadata: Any) -> None:
    assert ask(client_metadata=metadata).hints == Hints()
