"""Conversations of a forgetful harness with any of the templates here, through the whole proxy, on one vLLM."""

import asyncio
import contextlib
import json
import os
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from random import Random
from typing import Any

import aiohttp
from aiohttp import web

from tests.proxying import Proxy
from tools.engine.make_driver_model import recipe_hash
from tools.engine.serve import PYTHON, ROOT, Running, driver_model, engine

HERE = Path(__file__).parent
TEMPLATES = HERE / "templates"
URL = "https://api.openai.com/v1/chat/completions"
BASH = {
    "type": "function",
    "function": {
        "name": "bash",
        "description": "Run a command.",
        "parameters": {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]},
    },
}


@contextlib.contextmanager
def roles_engine(*flags: str) -> Iterator[Running]:
    """A vLLM that takes the template from the request; POLAR_ROLES_URL names one that runs already. `flags` are vLLM's,
    beside."""
    url = os.environ.get("POLAR_ROLES_URL")
    if url:
        yield Running(url, "roles")
        return
    model = ROOT / ".cache" / "models" / f"roles-{recipe_hash()}"
    if not (model / "config.json").exists():
        subprocess.run([PYTHON, HERE / "roles_model.py", driver_model(), model], check=True)
    inherited = os.environ.pop("POLAR_ENGINE_URL", None)
    try:
        with engine(model=model, name="roles", flags=["--trust-request-chat-template", *flags]) as running:
            yield running
    finally:
        if inherited is not None:
            os.environ["POLAR_ENGINE_URL"] = inherited


@contextlib.asynccontextmanager
async def served_with(upstream: str, template: str, *, chat_takes_ids: bool = True) -> AsyncIterator[str]:
    """The URL of a server that is `upstream` with the template of that name or file. Without `chat_takes_ids` its chat
    requests ignore prompt ids, as those of vLLM 0.31 do."""
    text = (TEMPLATES / f"{template.removesuffix('.jinja')}.jinja").read_text()
    with_template = ("/tokenize", "/v1/chat/completions", "/v1/chat/completions/render")

    async def forward(request: web.Request) -> web.Response:
        body = await request.read()
        if request.method == "POST" and request.path in with_template:
            asked = json.loads(body) | {"chat_template": text}
            if not chat_takes_ids:
                asked.pop("kv_transfer_params", None)
            body = json.dumps(asked).encode()
        headers = {"content-type": "application/json"}
        async with client.request(request.method, upstream + request.path, data=body, headers=headers) as answer:
            return web.Response(body=await answer.read(), status=answer.status, content_type=answer.content_type)

    app = web.Application(client_max_size=2**28)
    app.router.add_route("*", "/{path:.*}", forward)
    runner = web.AppRunner(app, access_log=None)
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as client:
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        try:
            yield f"http://127.0.0.1:{runner.addresses[0][1]}"
        finally:
            await runner.cleanup()


TASKS = (
    "Write a direction, use the tool bash",
    "Say a direction",
    "Write polar into proof.txt, use the tool bash",
    "Grüße aus Köln, sag etwas 🙂",
    "日本語で答えてください\n\n\tÀ bientôt",
    "Hello, what is it?",
)
RESULTS = ("(no output)", "proof.txt  \n\n", "Fehler: Datei »ä« fehlt 🙁", '{"ok": true, "n": 1.0}', "a" * 300)


async def ask(running: Proxy, session: str, messages: list[dict[str, Any]], **fields: Any) -> dict[str, Any]:
    """One turn; the sampled message as the client got it."""
    body = {"model": "m", "messages": messages, "temperature": 1.0, "max_tokens": 200} | fields
    status, answer, _ = await running.answer("POST", URL, json=body, session=session)
    assert status == 200, answer
    return json.loads(answer)["choices"][0]["message"]


def echoed(message: dict[str, Any], random: Random) -> dict[str, Any]:
    """What a harness gives back of a turn: without its thought, stripped, its arguments dumped in another way."""
    echo: dict[str, Any] = {"role": "assistant", "content": message["content"]}
    if isinstance(message["content"], str) and random.random() < 0.5:
        echo["content"] = message["content"].strip()
    if message.get("reasoning") and random.random() < 0.3:
        echo["reasoning_content"] = message["reasoning"]
    if message.get("tool_calls"):
        calls = json.loads(json.dumps(message["tool_calls"]))
        for call in calls:
            with contextlib.suppress(ValueError):
                arguments = json.loads(call["function"]["arguments"])
                call["function"]["arguments"] = json.dumps(arguments, ensure_ascii=random.random() < 0.5, indent=1)
        echo["tool_calls"] = calls
    return echo


async def converse(running: Proxy, session: str, seed: int, turns: int, **fields: Any) -> None:
    """A random conversation of so many calls, never edited."""
    random = Random(seed)
    messages: list[dict[str, Any]] = []
    if random.random() < 0.5:
        messages.append({"role": "system", "content": "You work with files.\n" * random.randint(1, 5)})
    messages.append({"role": "user", "content": random.choice(TASKS)})
    fields = fields | ({"tools": [BASH]} if random.random() < 0.8 else {})
    if random.random() < 0.3:
        fields["chat_template_kwargs"] = {"enable_thinking": False}
    for _ in range(turns):
        limit = random.choice([200, 200, 200, 7, 25])
        answer = await ask(running, session, messages, **({"max_tokens": limit} | fields))
        messages.append(echoed(answer, random))
        for call in answer.get("tool_calls") or []:
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": random.choice(RESULTS)})
        if not answer.get("tool_calls") or random.random() < 0.15:
            messages.append({"role": "user", "content": random.choice(TASKS)})


async def conversations(running: Proxy, count: int, *, turns: int = 4, width: int = 8, **fields: Any) -> list[str]:
    """So many random conversations, `width` at a time; their sessions."""
    sessions = [f"c{number}" for number in range(count)]
    gate = asyncio.Semaphore(width)

    async def one(number: int) -> None:
        async with gate:
            await converse(running, sessions[number], number, turns, **fields)

    await asyncio.gather(*map(one, range(count)))
    return sessions
