"""The whole proxy before a real vLLM: what is in the database is what the engine sampled, in the prompt that it saw."""

import asyncio
import json

import pytest
import requests

from tests.proxying import Proxy, proxy

MESSAGES = "https://api.anthropic.com/v1/messages"
TOOLS = [
    {
        "name": "bash",
        "description": "Run a command.",
        "input_schema": {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]},
    }
]


def ask(messages: list, **fields) -> dict:
    return {"model": "claude-sonnet-4-5", "max_tokens": 400, "messages": messages, "tools": TOOLS, **fields}


async def conversation(running: Proxy, *, stream: bool) -> None:
    """Two turns: a tool call of the model's, its result, the end."""
    messages: list = [{"role": "user", "content": "Write polar into proof.txt, use the tool bash"}]
    status, body, _ = await running.answer("POST", MESSAGES, json=ask(messages, temperature=0))
    assert status == 200, body
    content = json.loads(body)["content"]
    (use,) = [block for block in content if block["type"] == "tool_use"]
    result = {"type": "tool_result", "tool_use_id": use["id"], "content": "(no output)"}
    messages += [{"role": "assistant", "content": content}, {"role": "user", "content": [result]}]
    status, body, _ = await running.answer("POST", MESSAGES, json=ask(messages, temperature=0, stream=stream))
    assert status == 200, body


@pytest.mark.parametrize("stream", [True, False])
async def test_ids_logprobs_and_prompts_are_the_engines_own(vllm: str, stream: bool):
    async with proxy(vllm) as running:
        await conversation(running, stream=stream)
        rows = await running.calls()
    assert [row["finish_reason"] for row in rows] == ["tool_calls", "stop"]
    for row in rows:
        assert row["trainable"], row["reason"]
        assert len(row["completion_ids"]) == len(row["logprobs"]) == row["completion_tokens"]
        sent = json.loads(row["chat_request"])
        wanted = {name: sent[name] for name in ("model", "messages", "tools", "chat_template_kwargs") if name in sent}
        told = requests.post(f"{vllm}/tokenize", json=wanted, timeout=30).json()["tokens"]
        assert row["prompt_ids"] == told
    first, second = rows
    context = first["prompt_ids"] + first["completion_ids"]
    assert second["prompt_ids"][: len(context)] == context
    assert (second["parent_call_id"], second["prefix_len"]) == (first["id"], len(context))


def running_on(vllm: str) -> int:
    text = requests.get(f"{vllm}/metrics", timeout=10).text
    lines = [line for line in text.splitlines() if line.startswith("vllm:num_requests_running{")]
    return int(float(lines[0].rsplit(" ", 1)[1]))


def still_running(vllm: str) -> int:
    """The same once a token more has been sampled: vLLM writes its gauge after a step, and idle it takes none."""
    poke = {"prompt": "x", "max_tokens": 1, "temperature": 0}
    requests.post(f"{vllm}/v1/completions", json=poke, timeout=30).raise_for_status()
    return running_on(vllm)


@pytest.mark.parametrize("stream", [True, False])
async def test_o_transport_05_a_client_that_leaves_frees_the_engine(vllm: str, stream: bool):
    url = "https://api.openai.com/v1/chat/completions"
    body = {"model": "m", "max_tokens": 60_000, "temperature": 1.0, "stream": stream}
    body["messages"] = [{"role": "user", "content": "Say a direction"}]
    body["logit_bias"] = {"2": -100}  # the end of turn is forbidden: the tiny model talks until its window is full
    async with proxy(vllm, grace=0.2) as running:
        asked = asyncio.create_task(running.answer("POST", url, json=body))
        async with asyncio.timeout(60):
            while not await asyncio.to_thread(running_on, vllm):
                assert not asked.done(), await asked
                await asyncio.sleep(0.05)
        asked.cancel()
        await asyncio.gather(asked, return_exceptions=True)
        async with asyncio.timeout(40):
            while await asyncio.to_thread(still_running, vllm):
                await asyncio.sleep(0.1)
        rows = await running.calls()
    assert [row["status"] for row in rows] == ["aborted"]
