"""Continuation through a real proxy, in every dialect, before servers that take prompt ids and servers that do not."""

import asyncio
import itertools
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from polar_capture.continuation.reasons import Fork
from polar_capture.outcomes import Warning
from tests.double import Double, Script, Step
from tests.double import running as double_process
from tests.double.scale_out import PAGES
from tests.proxying import Proxy, proxy
from tests.unit.process.serving import environment

CHAT = "https://api.openai.com/v1/chat/completions"
MESSAGES = "https://api.anthropic.com/v1/messages"
RESPONSES = "https://api.openai.com/v1/responses"
GENERATE = PAGES[1]
GOOGLE = "https://generativelanguage.googleapis.com/v1beta/models/m:generateContent"
LS = {"type": "object", "properties": {"dir": {"type": "string"}}}
STEPS = [
    Step(reasoning="I list.", tool_calls=[{"name": "ls", "arguments": '{"dir":"."}'}], content=None),
    Step(reasoning="It is there.", content="Done.\n"),
    Step(content="Bye."),
]


async def post(running: Proxy, url: str, body: dict[str, Any], **options: Any) -> dict[str, Any]:
    status, answer, _ = await running.answer("POST", url, json=body, **options)
    assert status == 200, answer
    return json.loads(answer)


async def by_chat(running: Proxy) -> None:
    tools = [{"type": "function", "function": {"name": "ls", "parameters": LS}}]
    said: list[dict[str, Any]] = [{"role": "user", "content": "hi"}]
    answer = (await post(running, CHAT, {"model": "m", "messages": said, "tools": tools}))["choices"][0]["message"]
    call = answer["tool_calls"][0]
    call["function"]["arguments"] = '{ "dir" : "." }'
    said += [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": call["id"], "content": "a.txt"},
    ]
    answer = (await post(running, CHAT, {"model": "m", "messages": said, "tools": tools}))["choices"][0]["message"]
    said += [{"role": "assistant", "content": answer["content"].strip()}, {"role": "user", "content": "bye"}]
    await post(running, CHAT, {"model": "m", "messages": said, "tools": tools})


async def by_messages(running: Proxy) -> None:
    body: dict[str, Any] = {"model": "m", "max_tokens": 64, "tools": [{"name": "ls", "input_schema": LS}]}
    said: list[dict[str, Any]] = [{"role": "user", "content": "hi"}]
    content = (await post(running, MESSAGES, body | {"messages": said}))["content"]
    use = next(block for block in content if block["type"] == "tool_use")
    said += [
        {"role": "assistant", "content": [block for block in content if block["type"] != "thinking"]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": use["id"], "content": "a.txt"}]},
    ]
    said.append({"role": "assistant", "content": (await post(running, MESSAGES, body | {"messages": said}))["content"]})
    said.append({"role": "user", "content": [{"type": "text", "text": "bye"}]})
    await post(running, MESSAGES, body | {"messages": said})


async def by_responses(running: Proxy) -> None:
    body: dict[str, Any] = {"model": "m", "tools": [{"type": "function", "name": "ls", "parameters": LS}]}
    said: list[dict[str, Any]] = [{"role": "user", "content": "hi"}]
    output = (await post(running, RESPONSES, body | {"input": said}))["output"]
    call = next(item for item in output if item["type"] == "function_call")
    said += [*output, {"type": "function_call_output", "call_id": call["call_id"], "output": "a.txt"}]
    said += (await post(running, RESPONSES, body | {"input": said}))["output"]
    await post(running, RESPONSES, body | {"input": [*said, {"role": "user", "content": "bye"}]})


async def by_response_id(running: Proxy) -> None:
    body: dict[str, Any] = {"model": "m", "tools": [{"type": "function", "name": "ls", "parameters": LS}]}
    first = await post(running, RESPONSES, body | {"input": "hi"})
    call = next(item for item in first["output"] if item["type"] == "function_call")
    result = {"type": "function_call_output", "call_id": call["call_id"], "output": "a.txt"}
    second = await post(running, RESPONSES, body | {"input": [result], "previous_response_id": first["id"]})
    await post(running, RESPONSES, body | {"input": "bye", "previous_response_id": second["id"]})


async def by_google(running: Proxy) -> None:
    body: dict[str, Any] = {"tools": [{"functionDeclarations": [{"name": "ls", "parameters": LS}]}]}
    said: list[dict[str, Any]] = [{"role": "user", "parts": [{"text": "hi"}]}]
    content = (await post(running, GOOGLE, body | {"contents": said}))["candidates"][0]["content"]
    result = {"functionResponse": {"name": "ls", "response": {"output": "a.txt"}}}
    said += [content, {"role": "user", "parts": [result]}]
    said.append((await post(running, GOOGLE, body | {"contents": said}))["candidates"][0]["content"])
    await post(running, GOOGLE, body | {"contents": [*said, {"role": "user", "parts": [{"text": "bye"}]}]})


@pytest.mark.parametrize("strips_thinking", [False, True])
@pytest.mark.parametrize("talk", [by_chat, by_messages, by_responses, by_response_id, by_google])
async def test_every_dialect_is_continued(talk, strips_thinking):
    async with Double(strips_thinking=strips_thinking) as vllm, proxy(vllm.url) as running:
        vllm.push(*STEPS)
        await talk(running)
        rows = await running.calls()
        sent = [chat.body.get("kv_transfer_params") for chat in vllm.chats[1:]]
    assert [row["continuation"] for row in rows] == ["root", "exact", "exact"]
    for before, row, ids in zip(rows, rows[1:], sent[1:], strict=False):
        context = before["prompt_ids"] + before["completion_ids"]
        assert row["prompt_ids"][: len(context)] == context
        assert (row["parent_call_id"], row["prefix_len"]) == (before["id"], len(context))
        assert ids == {"prompt_token_ids": row["prompt_ids"]}
        assert row["trainable"]
        assert not row["warnings"]
        assert b"prompt_token_ids" not in row["chat_request"]


@pytest.mark.parametrize("talk", [by_chat, by_messages, by_responses, by_response_id, by_google])
async def test_every_dialect_is_continued_by_the_second_route(talk):
    async with Double(honour_prompt_ids=False, scale_out=True, strips_thinking=True) as vllm:
        async with proxy(vllm.url, continuation="exact") as running:
            vllm.push(*STEPS)
            await talk(running)
            rows = await running.calls()
        sent = [r.body["token_ids"] for r in vllm.requests if r.path == GENERATE][1:]
    assert [row["continuation"] for row in rows] == ["root", "exact", "exact"]
    assert [row["finish_reason"] for row in rows] == ["tool_calls", "stop", "stop"]
    assert sent == [row["prompt_ids"] for row in rows[1:]]
    for before, row in itertools.pairwise(rows):
        context = before["prompt_ids"] + before["completion_ids"]
        assert row["prompt_ids"][: len(context)] == context
        assert (row["parent_call_id"], row["prefix_len"], row["trainable"]) == (before["id"], len(context), True)
        assert not row["warnings"]


async def test_a_second_route_that_begins_to_echo_other_ids_is_found_out():
    async with Double(honour_prompt_ids=False, scale_out=True) as vllm, proxy(vllm.url) as running:
        vllm.push(*STEPS)
        vllm.options.honour_generate_ids = False
        await by_chat(running)
        rows = await running.calls()
    assert [row["continuation"] for row in rows] == ["root", Fork.ECHO_DIFFERS.stored, "off"]
    assert Warning.PROMPT_IDS_IGNORED in rows[1]["warnings"]


async def test_a_second_route_that_is_taken_away_is_a_fork():
    async with Double(honour_prompt_ids=False, scale_out=True) as vllm, proxy(vllm.url) as running:
        vllm.push(*STEPS)
        vllm.options.scale_out = False
        await by_chat(running)
        rows = await running.calls()
    assert [row["continuation"] for row in rows] == ["root", *[Fork.REFUSED.stored] * 2]
    assert all(row["trainable"] for row in rows)


async def test_the_start_takes_one_generation():
    async with Double() as vllm, proxy(vllm.url):
        assert len(vllm.chats) == 1


async def test_an_old_server_is_not_asked_for_renders():
    async with Double(honour_prompt_ids=False) as vllm, proxy(vllm.url) as running:
        vllm.push(*STEPS)
        await by_chat(running)
        rows = await running.calls()
        assert [r.path for r in vllm.requests].count("/tokenize") == 0
    assert [row["continuation"] for row in rows] == ["off"] * 3


def test_exact_is_status_4_before_an_old_server(tmp_path: Path):
    script = Script()
    script.options.honour_prompt_ids = False
    with double_process(script) as vllm:
        command = [sys.executable, "-m", "polar_capture", "serve", "--port", "0", "--upstream", vllm.url]
        command += ["--continuation", "exact", "--db", str(tmp_path / "a.db"), "--home", str(tmp_path / "home")]
        done = subprocess.run(command, capture_output=True, text=True, env=environment(), timeout=120)
    assert done.returncode == 4
    assert "--continuation exact needs" in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


async def test_exact_runs_before_a_server_that_can():
    async with Double() as vllm, proxy(vllm.url, continuation="exact") as running:
        vllm.push(*STEPS)
        await by_chat(running)
        assert [row["continuation"] for row in await running.calls()] == ["root", "exact", "exact"]


async def test_a_server_that_stops_taking_ids_is_found_out_by_its_echo():
    async with Double() as vllm, proxy(vllm.url) as running:
        vllm.push(*STEPS)
        vllm.options.honour_prompt_ids = False
        await by_chat(running)
        rows = await running.calls()
    assert [row["continuation"] for row in rows] == ["root", Fork.ECHO_DIFFERS.stored, "off"]
    assert [Warning.PROMPT_IDS_IGNORED in row["warnings"] for row in rows] == [False, True, False]
    assert all(row["trainable"] for row in rows), "what was sampled is recorded with the prompt that the engine reports"


async def test_ids_that_are_refused_are_followed_by_the_messages():
    def refusing(body: dict[str, Any], number: int) -> Step | None:
        refused = number > 0 and "kv_transfer_params" in body
        return Step(status=400, error="Token id 7 is out of vocabulary") if refused else None

    async with Double(refusing) as vllm, proxy(vllm.url) as running:
        said = [{"role": "user", "content": "hi"}]
        for _ in range(2):
            answer = (await post(running, CHAT, {"model": "m", "messages": said}))["choices"][0]["message"]
            said += [{"role": "assistant", "content": answer["content"]}, {"role": "user", "content": "go"}]
        rows = await running.calls()
    assert [row["continuation"] for row in rows] == ["root", Fork.REFUSED.stored]


async def test_a_session_goes_on_in_a_new_process(tmp_path):
    db = f"sqlite:///{tmp_path}/polar.db"
    said: list[dict[str, Any]] = [{"role": "user", "content": "hi"}]
    async with Double(strips_thinking=True) as vllm:
        for number in range(3):
            async with proxy(vllm.url, db=db) as running:
                vllm.script.default = Step(reasoning="hm", content=f"answer {number}")
                answer = (await post(running, CHAT, {"model": "m", "messages": said}))["choices"][0]["message"]
                said += [{"role": "assistant", "content": answer["content"]}, {"role": "user", "content": "go"}]
                rows = await running.calls()
    assert [row["continuation"] for row in rows] == ["root", "exact", "exact"]


async def test_parallel_agents_with_equal_words_are_continued_each_by_its_own():
    async with Double() as vllm, proxy(vllm.url) as running:

        async def agent(name: str) -> None:
            said = [{"role": "user", "content": f"you are {name}"}]
            for _ in range(3):
                answer = (await post(running, CHAT, {"model": "m", "messages": said}))["choices"][0]["message"]
                said += [{"role": "assistant", "content": answer["content"]}, {"role": "user", "content": "go"}]

        await asyncio.gather(*(agent(name) for name in "abcd"))
        rows = await running.calls()
    outcomes = [row["continuation"] for row in rows]
    assert (outcomes.count("root"), outcomes.count("exact")) == (4, 8)


async def test_pictures_fork():
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
    async with Double() as vllm, proxy(vllm.url) as running:
        said: list[dict[str, Any]] = [{"role": "user", "content": "hi"}]
        answer = (await post(running, CHAT, {"model": "m", "messages": said}))["choices"][0]["message"]
        said += [{"role": "assistant", "content": answer["content"]}, {"role": "user", "content": [picture]}]
        await post(running, CHAT, {"model": "m", "messages": said})
        rows = await running.calls()
    assert [row["continuation"] for row in rows] == ["root", Fork.MULTIMODAL.stored]


async def test_metrics_count_outcomes():
    async with Double() as vllm, proxy(vllm.url) as running:
        vllm.push(*STEPS)
        await by_chat(running)
        text = running.runtime.metrics()
    assert 'polar_continuations_total{outcome="exact"} 2' in text
    assert 'polar_continuations_total{outcome="root"} 1' in text
