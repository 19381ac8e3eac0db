"""Nothing leaves: a hook that raises, other hosts, this machine's own ports."""

import json

import aiohttp
import pytest
from mitmproxy.test import tflow

from polar_capture import server
from tests.double import Double
from tests.proxying import proxy
from tests.unit.proxy.dialect_calls import CALLS


@pytest.mark.parametrize("dialect", CALLS)
async def test_a_hook_that_raises_is_an_error_of_the_dialect_and_goes_nowhere(dialect, monkeypatch):
    dialled = []
    monkeypatch.setattr(server.GatewayServer, "expect", lambda *_: 1 / 0)
    async with Double() as vllm, proxy(vllm.url) as running:
        original = running.addon.server_connect

        async def watched(data):
            dialled.append(data.server.address)
            await original(data)

        running.addon.server_connect = watched
        url, body = CALLS[dialect].asking("hi")
        status, answer, headers = await running.answer("POST", url, json=body)
    assert status == 500
    assert headers["content-type"].startswith("application/json")
    assert json.loads(answer)["error"]["message"]
    assert dialled == []


@pytest.mark.parametrize("host", ["api.anthropic.com", "chatgpt.com", "api.openai.com", "statsig.anthropic.com"])
async def test_the_second_lock_refuses_every_provider_address(host):
    async with Double() as vllm, proxy(vllm.url) as running:
        flow = tflow.tflow()

        class Data:
            server = flow.server_conn

        Data.server.address = (host, 443)
        Data.server.error = None
        await running.addon.server_connect(Data)
        assert host in Data.server.error


async def test_even_without_the_request_hook_the_provider_is_not_reached(monkeypatch):
    async with Double() as vllm, proxy(vllm.url) as running:
        monkeypatch.setattr(running.addon, "request", lambda flow: None)
        url, body = CALLS["anthropic"].asking("hi")
        status, answer, _ = await running.answer("POST", url, json=body)
    assert status == 502
    assert b"never connects to api.anthropic.com" in answer


@pytest.mark.parametrize(
    "target",
    ["http://127.0.0.1:{port}/", "http://localhost:{port}/", "http://0x7f000001:{port}/", "http://[::1]:{port}/"],
)
async def test_this_machine_is_not_reached_through_the_proxy(target):
    async with Double() as vllm, proxy(vllm.url) as running:
        for port in (running.port, running.runtime.control_port, int(vllm.url.rpartition(":")[2])):
            url = target.format(port=port)
            async with running.client.get(url, proxy=running.via()) as response:
                assert response.status == 403
            with pytest.raises(aiohttp.ClientHttpProxyError) as refused:
                await running.answer("GET", url.replace("http://", "https://"))
            assert refused.value.status == 403


async def test_blocked_egress_refuses_other_hosts_before_any_name_is_looked_up():
    async with Double() as vllm, proxy(vllm.url, egress="block") as running:
        with pytest.raises(aiohttp.ClientHttpProxyError) as refused:
            await running.answer("GET", "https://github.com/")
        assert refused.value.status == 403
        async with running.client.get("http://github.com/", proxy=running.via()) as response:
            assert response.status == 403
        url, body = CALLS["anthropic"].asking("hi")
        assert (await running.answer("POST", url, json=body))[0] == 200


async def test_the_gateways_own_port_takes_calls_of_the_proxy_only():
    async with Double() as vllm, proxy(vllm.url) as running:
        url = f"http://127.0.0.1:{running.runtime.port}/v1/messages"
        for headers in ({}, {server.FLOW_HEADER: "guess.flow"}):
            async with running.client.post(url, json={}, headers=headers) as response:
                assert response.status == 403


async def test_credentials_never_reach_engine_or_store():
    secret = "sk-ant-very-secret"
    async with Double() as vllm, proxy(vllm.url) as running:
        url, body = CALLS["anthropic"].asking("hi")
        headers = {"x-api-key": secret, "authorization": f"Bearer {secret}", "cookie": f"a={secret}"}
        assert (await running.answer("POST", url, json=body, headers=headers))[0] == 200
        (row,) = await running.calls()
        assert secret not in str(row)
        assert secret not in str(vllm.chats[-1])
