"""Render → generate → derender on the real vLLM with `--enable-scale-out`: the chat endpoint's answers, token by token,
and exact continuation before a server whose chat requests take no ids."""

import asyncio
from collections import Counter
from typing import Any

import msgspec
import pytest

from polar_capture.chat import ChatRequest, Message, Sampling, Tool, ToolChoice
from polar_capture.engine.client import Engine, Generation
from tests.engine.continuation_stage import conversations, served_with
from tests.engine.test_continuation_on_vllm import Texts, check_chain, rescored, rows_of
from tests.proxying import proxy
from tools.engine.serve import Running

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

BASH = Tool(
    "bash",
    description="Run a command.",
    parameters={"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]},
    strict=True,
)
ORDER = "Write polar into proof.txt, use the tool bash"


def chat(text: str = ORDER, *, tools: bool = True, limit: int = 200, **fields: Any) -> ChatRequest:
    sampling = {"max_tokens": limit, "temperature": 0.0} | fields.pop("sampling", {})
    return ChatRequest(
        messages=[Message("user", text)], tools=[BASH] if tools else [], sampling=Sampling(**sampling), **fields
    )


REQUESTS = {
    "a call": chat(),
    "words": chat("Say a direction", tools=False),
    "without thinking": chat("Say a direction", thinking=False),
    "cut in the thought": chat(limit=4),
    "cut in the call": chat(limit=25),
    "by a seed": chat("Grüße aus Köln 🙂", sampling={"temperature": 1.0, "seed": 7}),
    "several": chat("Say a direction", sampling={"temperature": 1.0, "seed": 3, "n": 2}),
    "required": chat("Say a direction", tool_choice=ToolChoice("required")),
    "named": chat("Say a direction", tool_choice=ToolChoice("function", "bash")),
    "none": chat(tool_choice=ToolChoice("none")),
    "logprobs shown": chat("Say a direction", sampling={"top_logprobs": 2}),
    "a schema": chat(
        "Say a direction",
        tools=False,
        thinking=False,
        response_format={
            "type": "json_schema",
            "json_schema": {
                "name": "d",
                "schema": {"type": "object", "properties": {"d": {"enum": ["up", "down"]}}, "required": ["d"]},
            },
        },
    ),
}


async def sampled(url: str, request: ChatRequest) -> Generation:
    """The answer to a request, sampled from the ids of its render."""
    engine = Engine([url])
    try:
        await engine.start()
        return await engine.generate(request, prompt_ids=await engine.render(request))
    finally:
        await engine.close()


@pytest.mark.parametrize("name", REQUESTS)
async def test_it_answers_as_the_chat_endpoint_does(roles: Running, name: str):
    request = REQUESTS[name]
    async with (
        served_with(roles.url, "thinks") as chat_url,
        served_with(roles.url, "thinks", chat_takes_ids=False) as pages_url,
    ):
        by_chat, by_pages = [await sampled(url, request) for url in (chat_url, pages_url)]
    for found in (by_chat, by_pages):
        assert not found.ids_refused
    one, two = by_chat.completion, by_pages.completion
    assert one.prompt_token_ids is not None
    assert two.prompt_token_ids is not None
    assert one.prompt_token_ids.tolist() == two.prompt_token_ids.tolist()
    assert (one.usage.prompt_tokens, one.usage.completion_tokens) == (
        two.usage.prompt_tokens,
        two.usage.completion_tokens,
    )
    for mine, theirs in zip(one.choices, two.choices, strict=True):
        for call in (*mine.message.tool_calls, *theirs.message.tool_calls):
            call.id = ""
        assert theirs.logprobs == pytest.approx(mine.logprobs, abs=1e-4)
        for choice in (mine, theirs):
            choice.weight_versions = choice.logprobs = choice.logprobs_content = None  # told by /generate alone; above
        assert msgspec.to_builtins(mine) == msgspec.to_builtins(theirs)


async def test_the_start_finds_the_way_out_by_the_echo(roles: Running):
    for chat_takes_ids in (True, False):
        async with served_with(roles.url, "thinks", chat_takes_ids=chat_takes_ids) as url:
            engine = Engine([url])
            try:
                await engine.start()
                (upstream,) = engine._pool.upstreams
                assert (upstream.takes_prompt_ids, upstream.scale_out) == (True, not chat_takes_ids)
                engine.require_prompt_ids()
            finally:
                await engine.close()


async def test_conversations_are_continued_and_score_again_the_same(roles: Running):
    async with (
        served_with(roles.url, "thinks", chat_takes_ids=False) as url,
        proxy(url, continuation="exact") as running,
    ):
        sessions = await conversations(running, 24)
        rows = await rows_of(running, sessions)
        report, _ = await asyncio.to_thread(rescored, running, roles.url)
    by_id = {row["id"]: row for row in rows}
    outcomes = Counter(row["continuation"] for row in rows)
    print(f"\n{dict(outcomes)}; {report.rescored_tokens} tokens re-scored, worst {report.worst.difference:.2e}")
    assert outcomes["root"] == 24
    assert outcomes["exact"] > 48
    assert "fork:refused" not in outcomes
    assert "fork:echo_differs" not in outcomes
    async with served_with(roles.url, "thinks") as url:
        texts = Texts(url)
        for row in rows[::3]:
            if row["continuation"] == "exact":
                await asyncio.to_thread(check_chain, by_id, row, texts)
    assert report.holds, report.findings
    assert report.rescored_tokens == report.trained_tokens == sum(row["completion_tokens"] for row in rows)
