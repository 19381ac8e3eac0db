"""The main job in small: two turns through a real proxy, exact tokens in the database."""

import json

from tests.double import Double, Step
from tests.proxying import proxy

CHAT = "https://api.openai.com/v1/chat/completions"


async def test_two_turns_are_captured_exactly_and_chained():
    steps = [
        Step(reasoning="I list.", tool_calls=[{"name": "ls", "arguments": {"dir": "."}}]),
        Step(content="Done."),
    ]
    tools = [{"type": "function", "function": {"name": "ls", "parameters": {"type": "object", "properties": {}}}}]
    async with Double() as vllm, proxy(vllm.url) as running:
        vllm.push(*steps)  # after the start: its probe takes an answer too
        messages = [{"role": "user", "content": "hi"}]
        status, body, _ = await running.answer(
            "POST", CHAT, json={"model": "gpt-9", "messages": messages, "tools": tools}
        )
        assert status == 200
        message = json.loads(body)["choices"][0]["message"]
        call = message["tool_calls"][0]
        messages += [message, {"role": "tool", "tool_call_id": call["id"], "content": "a.txt"}]
        status, body, _ = await running.answer(
            "POST", CHAT, json={"model": "gpt-9", "messages": messages, "tools": tools, "stream": True}
        )
        assert status == 200
        assert b"Done." in body
        first, second = await running.calls()
    for row in (first, second):
        assert row["status"] == "ok"
        assert row["trainable"], row
        assert row["delivered"] is True
        assert row["prompt_ids"]
        assert len(row["completion_ids"]) == len(row["logprobs"]) == row["completion_tokens"]
    context = first["prompt_ids"] + first["completion_ids"]
    assert second["prompt_ids"][: len(context)] == context
    assert (second["parent_call_id"], second["prefix_len"]) == (first["id"], len(context))
    assert [row["seq"] for row in (first, second)] == [0, 1]
    assert [row["streamed"] for row in (first, second)] == [False, True]
