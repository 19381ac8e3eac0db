"""A program that an agent's own tool starts shares the agent's proxy user; its calls are told apart and not trained."""

from typing import Any

import pytest

from tests.double import Double, Step
from tests.proxying import proxy

MESSAGES = "https://api.anthropic.com/v1/messages"
CHAT = "https://api.openai.com/v1/chat/completions"
TOOL = {"name": "Bash", "description": "run", "input_schema": {"type": "object", "properties": {}}}


def claude(own: str) -> dict[str, str]:
    return {
        "user-agent": "claude-cli/2.1.332 (external, sdk-cli)",
        "anthropic-version": "2023-06-01",
        "x-claude-code-session-id": own,
        "x-claude-code-request-class": "main",
    }


def asks(words: str) -> dict[str, Any]:
    return {
        "model": "claude-x",
        "max_tokens": 50,
        "messages": [{"role": "user", "content": words}],
        "tools": [TOOL],
        "metadata": {"user_id": "u"},
    }


@pytest.mark.parametrize("waiting", [True, False])
async def test_what_an_agents_tool_starts_is_nested_and_what_follows_it_is_not(waiting: bool) -> None:
    first = Step(content=None, tool_calls=[{"name": "Bash", "arguments": {}}]) if waiting else Step()
    # The proxy's own probe is the double's first call.
    async with Double(lambda body, n: first if n == 1 else None, any_model=True) as vllm, proxy(vllm.url) as running:
        await running.answer("POST", MESSAGES, json=asks("outer"), headers=claude("own-1"))
        await running.answer("POST", MESSAGES, json=asks("other"), headers=claude("own-2"))
        chat = {"model": "gpt-x", "messages": [{"role": "user", "content": "from a script"}]}
        await running.answer("POST", CHAT, json=chat, headers={"user-agent": "OpenAI/Python 3.57.0"})
        calls = await running.calls()
    kinds = [(call["kind"], call["trainable"], call["reason"]) for call in calls]
    nested = ("nested", False, "nested")
    assert kinds == [("turn", True, None), nested if waiting else ("turn", True, None), nested]
    assert [call["agent"] for call in calls] == ["main", "sub:claude-code" if waiting else "main", "sub:program"]
