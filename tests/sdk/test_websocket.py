"""Responses over a WebSocket, by the official SDKs' own connections and by a plain client."""

import json
from typing import Any

import aiohttp
import pytest
from mitmproxy import ctx

from tests.double import Double, Step
from tests.proxying import proxy
from tests.sdk.javascript import Node
from tests.sdk.openai_client import async_client, sync_client
from tests.sdk.scenarios import ARGUMENTS, PARAMETERS, SCENARIOS, TEXT, THOUGHTS
from tests.sdk.stage import Stage

URL = "wss://api.openai.com/v1/responses"
LS: Any = {"type": "function", "name": "ls", "parameters": PARAMETERS, "strict": False}


def wired(stage: Stage, session: str) -> dict[str, Any]:
    return {"proxy": stage.via(session), "ssl": stage.tls}


def test_two_turns_over_one_connection(stage: Stage) -> None:
    client = sync_client(stage, "unused")
    with client.responses.connect(websocket_connection_options=wired(stage, "ws-sync")) as connection:
        connection.response.create(model="gpt-9", input=SCENARIOS["tool"].asked.prompt, tools=[LS])
        first, types = _answer(connection)
        assert types[0] == "response.created"
        assert first.output_text == TEXT
        (call,) = [item for item in first.output if item.type == "function_call"]
        assert call.arguments == ARGUMENTS
        result: Any = [
            {"type": "function_call_output", "call_id": call.call_id, "output": "a.txt"},
            {"role": "user", "content": SCENARIOS["text"].asked.prompt},
        ]
        connection.response.create(model="gpt-9", input=result, tools=[LS], previous_response_id=first.id)
        second, _ = _answer(connection)
        assert second.output_text == "Hello there."
    older, newer = stage.calls("ws-sync", 2, settled=False)
    assert newer["parent_call_id"] == older["id"]
    assert (older["status"], newer["status"]) == ("ok", "ok")
    assert older["delivered"] is True, "its echo says that it has arrived"
    echoed = next(m for m in stage.double.chats[-1].body["messages"] if m["role"] == "assistant")
    assert (echoed["content"], echoed["reasoning"]) == (TEXT, THOUGHTS)


async def test_the_async_connection(stage: Stage) -> None:
    client = async_client(stage, "unused")
    connecting = client.responses.connect(websocket_connection_options=wired(stage, "ws-async"))
    async with connecting as connection:
        await connection.response.create(model="gpt-9", input=SCENARIOS["late"].asked.prompt)
        async for event in connection:
            if event.type == "response.completed":
                break
    assert event.response.output_text == TEXT


def test_the_javascript_connection(stage: Stage, node: Node) -> None:
    inputs = [SCENARIOS["odd"].asked.prompt, SCENARIOS["text"].asked.prompt]
    result = node.run({"job": "socket", "session": "ws-js", "inputs": inputs})
    first, second = result["answers"]
    assert (first["text"], first["thinking"], second["text"]) == (TEXT, THOUGHTS, "Hello there.")
    older, newer = stage.calls("ws-js", 2, settled=False)
    assert newer["parent_call_id"] == older["id"]


def _answer(connection: Any) -> tuple[Any, list[str]]:
    types = []
    for event in connection:
        types.append(event.type)
        if event.type in ("response.completed", "response.incomplete", "response.failed"):
            return event.response, types
    raise AssertionError(f"the connection ended after {types}")


async def _frames(socket: aiohttp.ClientWebSocketResponse, **frame: Any) -> list[dict[str, Any]]:
    """Send one `response.create` and read up to its end."""
    await socket.send_json({"type": "response.create", "model": "gpt-9", **frame})
    frames: list[dict[str, Any]] = []
    while not frames or frames[-1]["type"] not in ("response.completed", "response.failed", "error"):
        frames.append(json.loads(await socket.receive_str(timeout=20)))
    return frames


async def test_codex_prewarms_goes_on_and_is_told_of_an_unknown_response() -> None:
    async with Double() as vllm, proxy(vllm.url) as running:
        asked = len(vllm.chats)
        async with running.client.ws_connect(URL, proxy=running.via("s1"), ssl=running.ssl) as socket:
            prewarm = await _frames(socket, input=[], generate=False)
            assert [frame["type"] for frame in prewarm] == [
                "response.created",
                "response.in_progress",
                "response.completed",
            ]
            assert len(vllm.chats) == asked, "a prewarm generates nothing"
            warm = prewarm[-1]["response"]["id"]
            first = await _frames(socket, input="hi", previous_response_id=warm)
            assert first[-1]["response"]["output"][0]["content"][0]["text"] == "Hello."
            lost = await _frames(socket, input="hi", previous_response_id="resp_lost")
            assert lost[-1]["type"] == "error"
            assert lost[-1]["error"]["code"] == "previous_response_not_found"
            again = await _frames(socket, input="hi")
            assert again[-1]["type"] == "response.completed", "the connection stays usable"
        rows = await running.calls()
    assert [row["status"] for row in rows] == ["ok", "ok"]


@pytest.mark.parametrize("good_bye", [True, False])
async def test_a_turn_has_arrived_when_its_client_goes_on_or_leaves_behind_it(good_bye: bool) -> None:
    """Codex hangs up behind its last turn. What is kept for viewing of a long socket is less than was sent."""
    async with Double() as vllm, proxy(vllm.url) as running:
        ctx.options.update(polar_keep_flows=2)
        async with running.client.ws_connect(URL, proxy=running.via("s1"), ssl=running.ssl) as socket:
            first = await _frames(socket, input="hi")
            # No words of ours are echoed here: the frame itself tells.
            await _frames(socket, input="and a question of its own")
            assert first[-1]["type"] == "response.completed"
            if not good_bye:
                socket._conn.transport.abort()
        for _ in range(100):
            found = [row["delivered"] for row in await running.calls()]
            if found == [True, True]:
                break
    assert found == [True, True]


async def test_o_transport_05_a_socket_that_is_closed_frees_the_engine() -> None:
    async with Double() as vllm, proxy(vllm.url) as running:
        vllm.push(Step(delay=60))
        async with running.client.ws_connect(URL, proxy=running.via("s1"), ssl=running.ssl) as socket:
            await socket.send_json({"type": "response.create", "model": "gpt-9", "input": "hi"})
            assert json.loads(await socket.receive_str(timeout=20))["type"] == "response.created"
        for _ in range(100):
            rows = await running.calls()
            if rows and vllm.chats[-1].disconnected_at:
                break
        assert vllm.chats[-1].disconnected_at
    assert [row["status"] for row in rows] == ["aborted"]


async def test_o_transport_02_websockets_are_switched_off_by_an_option() -> None:
    async with Double() as vllm, proxy(vllm.url, websockets=False) as running:
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await running.client.ws_connect(URL, proxy=running.via("s1"), ssl=running.ssl)
        assert refused.value.status == 426
        status, body, _ = await running.answer(
            "POST", "https://api.openai.com/v1/responses", json={"model": "m", "input": "hi"}
        )
        assert (status, json.loads(body)["status"]) == (200, "completed")
