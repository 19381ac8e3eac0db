"""Rules, breaker and told usage through a real proxy."""

import json
from pathlib import Path

import pytest

from tests.double import Double, Step
from tests.proxying import proxy

URL = "https://api.openai.com/v1/chat/completions"
BODY = {"model": "gpt-x", "messages": [{"role": "user", "content": "hi"}]}
RULES = """
[[rule]]
name = "titles are another model's"
when = {{ contains = "title" }}
upstream = "{url}"

[[rule]]
name = "no training on gpt-y"
when = {{ model = "gpt-y" }}
trainable = false
"""
OVERFLOW = (
    "This model's maximum context length is 100 tokens. However, you requested 10 output tokens and your prompt "
    "contains 200 input tokens, for a total of 210 tokens."
)


def asking(words: str, model: str = "gpt-x") -> dict:
    return {"model": model, "messages": [{"role": "user", "content": words}]}


@pytest.mark.asyncio
async def test_a_rule_sends_helpers_elsewhere_and_none_of_it_is_trained(tmp_path: Path) -> None:
    async with Double(lambda body, n: Step(content="small"), any_model=True) as small, Double(any_model=True) as big:
        file = tmp_path / "rules.toml"
        file.write_text(RULES.format(url=small.url))
        async with proxy(big.url, rules=file) as running:
            answers = []
            for body in (asking("write a title"), asking("work"), asking("work on", "gpt-y")):
                status, text, _ = await running.answer("POST", URL, json=body)
                assert status == 200
                answers.append(json.loads(text)["choices"][0]["message"]["content"])
            calls = await running.calls()
    assert answers == ["small", "Hello.", "Hello."]
    assert [(call["trainable"], call["reason"]) for call in calls] == [(False, "side"), (True, None), (False, "side")]
    assert calls[0]["upstream"] == small.url


@pytest.mark.asyncio
async def test_an_endless_overflow_is_refused_without_asking_the_engine() -> None:
    too_big = Double(lambda body, n: None if n == 0 else Step(status=400, error=OVERFLOW), any_model=True)
    async with too_big as vllm, proxy(vllm.url, overflow_limit=3) as running:
        found = [await running.answer("POST", URL, json=asking(f"try {n}")) for n in range(5)]
        other = await running.answer("POST", URL, json=BODY, session="s2")
        asked = sum("try" in str(request.body) for request in vllm.chats)
        calls = await running.calls()
    assert [status for status, _, _ in found] == [400] * 5
    assert ["stopped session s1" in text.decode() for _, text, _ in found] == [False] * 3 + [True] * 2
    assert b"context_length_exceeded" in found[0][1]
    assert b"context_length_exceeded" not in found[4][1]
    assert b"stopped" not in other[1]
    assert asked == 3
    assert [call["status"] for call in calls] == ["error"] * 5


@pytest.mark.asyncio
async def test_usage_is_told_against_the_assumed_window_and_recorded_as_it_is() -> None:
    async with Double(any_model=True, window=1000) as vllm, proxy(vllm.url, assumed_window=10_000) as running:
        _, text, _ = await running.answer("POST", URL, json=BODY)
        calls = await running.calls()
    assert json.loads(text)["usage"]["prompt_tokens"] == 10 * calls[0]["prompt_tokens"]
