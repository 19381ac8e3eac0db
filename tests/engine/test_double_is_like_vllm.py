"""The double answers in the real server's shapes: the same keys, the same kinds of values, the same words."""

import re

import aiohttp
import pytest

from tests.double import Double, Step
from tests.double.scale_out import PAGES

TOOLS = [{"type": "function", "function": {"name": "bash", "parameters": {"type": "object", "properties": {}}}}]
CALLING = {
    "messages": [{"role": "user", "content": "Please write polar into proof.txt, use the tool bash"}],
    "tools": TOOLS,
    "temperature": 0,
    "max_tokens": 200,
}
PLAIN = {"messages": [{"role": "user", "content": "hi"}], "temperature": 0, "max_tokens": 100}
IDS = {"return_token_ids": True, "logprobs": True, "top_logprobs": 1}
STEPS = {
    "call": Step(reasoning="\nI call the tool.\n", tool_calls=[{"name": "bash", "arguments": {"command": "ls"}}]),
    "plain": Step(reasoning="\nI greet.\n", content="Hello."),
}


async def ask(url: str, path: str, body: dict | None) -> tuple[int, dict]:
    async with (
        aiohttp.ClientSession() as session,
        session.request("POST" if body is not None else "GET", url + path, json=body) as response,
    ):
        return response.status, await response.json()


def shape(value, key=""):
    """The keys and kinds of values; of lists of equal things one; of free dictionaries nothing."""
    if isinstance(value, dict):
        return {k: shape(v, k) for k, v in value.items() if k not in ("permission", "root")}
    if isinstance(value, list):
        return [shape(value[0])] if value else []
    return "number" if isinstance(value, int | float) else type(value).__name__


@pytest.mark.parametrize(
    ("step", "body"),
    [("call", CALLING | IDS), ("plain", PLAIN | IDS), ("plain", PLAIN), ("plain", PLAIN | IDS | {"top_logprobs": 0})],
)
async def test_completions(vllm, step, body):
    async with Double([STEPS[step]]) as double:
        mine, real = await ask(double.url, "/v1/chat/completions", body), await ask(vllm, "/v1/chat/completions", body)
    assert mine[0] == real[0] == 200
    assert shape(mine[1]) == shape(real[1])


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/models", None),
        ("/version", None),
        ("/tokenize", PLAIN),
        ("/tokenize", {"prompt": "hi"}),
        ("/detokenize", {"tokens": [300, 301]}),
        ("/nothing", None),
    ],
)
async def test_other_pages(vllm, path, body):
    async with Double() as double:
        mine, real = await ask(double.url, path, body), await ask(vllm, path, body)
    assert (mine[0], shape(mine[1])) == (real[0], shape(real[1]))


def within(mine, real) -> bool:
    """Whether the real answer has all that the double's has, in the same kinds."""
    if isinstance(mine, dict) and isinstance(real, dict):
        return all(key in real and within(value, real[key]) for key, value in mine.items())
    if isinstance(mine, list) and isinstance(real, list):
        return not mine or not real or within(mine[0], real[0])
    return mine == real or "NoneType" in (mine, real)


@pytest.mark.parametrize(("step", "body"), [("call", CALLING | IDS), ("plain", PLAIN | IDS)])
async def test_the_pages_of_scale_out(vllm, step, body):
    async with Double([STEPS[step]], scale_out=True) as double:
        mine, real = [await by_pages(url, body) for url in (double.url, vllm)]
    for name, one, other in zip(PAGES, mine, real, strict=True):
        assert within(shape(one), shape(other)), name


async def test_an_end_token_is_left_in_a_derendered_text(vllm):
    """Where no thought is expected; so it must not be sent along."""
    body = PLAIN | IDS | {"tools": TOOLS, "chat_template_kwargs": {"enable_thinking": False}}
    async with Double(scale_out=True) as double:
        texts = [(await by_pages(url, body))[2]["choices"][0]["message"]["content"] for url in (double.url, vllm)]
    assert all(text.endswith("|>") for text in texts), texts


async def by_pages(url: str, body: dict) -> list[dict]:
    """The answers of /render, /generate and /derender, each for what the one before gave."""
    _, rendered = await ask(url, PAGES[0], body)
    _, generated = await ask(url, PAGES[1], rendered | {"return_token_ids": True})
    derendered = await ask(url, PAGES[2], {"generate_response": generated, "chat_request": body})
    assert derendered[0] == 200, derendered
    return [rendered, generated, derendered[1]]


@pytest.mark.parametrize(
    "body",
    [
        PLAIN | {"model": "nope"},
        PLAIN | {"max_tokens": 10**7},
        PLAIN | {"max_tokens": 0},
        PLAIN | {"tools": []},
        PLAIN | {"tool_choice": "auto"},
        PLAIN | {"messages": []},
        PLAIN | {"n": 2},
        {"messages": [{"role": "user", "content": "hello world " * 60_000}]},
    ],
    ids=lambda body: " ".join(sorted(body)),
)
async def test_refusals(vllm, body):
    window = (await ask(vllm, "/v1/models", None))[1]["data"][0]
    async with Double(window=window["max_model_len"], model=window["id"]) as double:
        mine, real = await ask(double.url, "/v1/chat/completions", body), await ask(vllm, "/v1/chat/completions", body)
    assert (mine[0], shape(mine[1])) == (real[0], shape(real[1]))
    said, meant = (answer[1]["error"]["message"] for answer in (mine, real))
    assert words(meant).startswith(words(said)[:60])
    assert mine[1]["error"]["param"] == real[1]["error"]["param"]


def words(message: str) -> str:
    return re.sub(r"\d+", "N", message)
