"""Whose call is it, over the wire (DESIGN §5)."""

import json

import aiohttp
import pytest

from tests.double import Double
from tests.proxying import proxy
from tests.unit.proxy.dialect_calls import CALLS

URL, BODY = CALLS["anthropic"].asking("hi")


async def test_o_merge_09_each_marker_names_its_own_session():
    markers = {
        "A": {"headers": {"x-claude-code-session-id": "A"}},
        "B": {"headers": {"x-claude-code-session-id": "B"}},
        "E": {"headers": {"x-session-id": "E"}},
        "G": {"json": BODY | {"metadata": {"user_id": '{"session_id":"G"}'}}},
        "P": {"headers": {"x-polar-session": "P", "x-claude-code-session-id": "A"}},
    }
    async with Double() as vllm, proxy(vllm.url) as running:
        for _ in range(2):
            for options in markers.values():
                assert (await running.answer("POST", URL, session=None, **({"json": BODY} | options)))[0] == 200
        for session in markers:
            assert len(await running.calls(session)) == 2


async def test_the_proxy_user_wins_over_everything():
    async with Double() as vllm, proxy(vllm.url) as running:
        headers = {"x-polar-session": "other", "x-claude-code-session-id": "third"}
        await running.answer("POST", URL, json=BODY, session="first", headers=headers)
        assert len(await running.calls("first")) == 1


async def test_an_echoed_id_finds_the_session_again():
    async with Double() as vllm, proxy(vllm.url) as running:
        url, body = CALLS["openai_responses"].asking("hi")
        _, answer, _ = await running.answer("POST", url, json=body, session="owner")
        echoed = json.loads(answer)["output"]
        history = [{"role": "user", "content": "hi"}, *echoed, {"role": "user", "content": "more"}]
        assert (await running.answer("POST", url, json=body | {"input": history}, session=None))[0] == 200
        assert len(await running.calls("owner")) == 2


async def test_a_call_of_nobody_is_answered_with_a_warning_and_refused_when_strict():
    async with Double() as vllm, proxy(vllm.url) as running:
        assert (await running.answer("POST", URL, json=BODY, session=None))[0] == 200
        sessions = [row["session_id"] for row in running.runtime.store.sessions()]
        assert len(sessions) == 1
        assert sessions[0].startswith("unattributed-")
        (row,) = await running.calls(sessions[0])
        assert "unattributed" in row["warnings"]
    async with Double() as vllm, proxy(vllm.url, strict_sessions=True) as running:
        status, answer, _ = await running.answer("POST", URL, json=BODY, session=None)
        assert status == 403
        assert "HTTPS_PROXY" in json.loads(answer)["error"]["message"]
        assert (await running.answer("POST", URL, json=BODY, session="named"))[0] == 200


async def test_a_key_is_wanted_where_one_is_set():
    async with Double() as vllm, proxy(vllm.url, key="k3y") as running:
        with pytest.raises(aiohttp.ClientHttpProxyError) as refused:
            await running.answer("POST", URL, json=BODY, session="s1")
        assert refused.value.status == 407
        with pytest.raises(aiohttp.ClientHttpProxyError):
            await running.answer("POST", URL, json=BODY, session="s1:wrong")
        assert (await running.answer("POST", URL, json=BODY, session="s1:k3y"))[0] == 200
        assert len(await running.calls("s1")) == 1


async def test_a_bad_session_name_is_refused_with_the_rule():
    async with Double() as vllm, proxy(vllm.url) as running:
        auth = aiohttp.BasicAuth("not valid!", "")
        with pytest.raises(aiohttp.ClientHttpProxyError) as refused:
            async with running.client.post(URL, json=BODY, proxy=running.url, proxy_auth=auth, ssl=running.ssl):
                pass
        assert refused.value.status == 400


async def test_the_base_url_gateway_names_sessions_by_path_and_by_key():
    async with Double() as vllm, proxy(vllm.url, gateway_port=0, key="k3y") as running:
        base = f"http://127.0.0.1:{running.runtime.gateway_port}"

        async def ask(path, headers):
            async with running.client.post(base + path, json=BODY, headers=headers) as response:
                return response.status, await response.json()

        assert (await ask("/v1/messages", {}))[0] == 401
        status, answer = await ask("/v1/messages", {"x-api-key": "wrong"})
        assert (status, answer["error"]["type"]) == (401, "authentication_error")
        assert (await ask("/s/H/v1/messages", {"x-api-key": "k3y"}))[0] == 200
        assert (await ask("/v1/messages", {"authorization": "Bearer mine:k3y"}))[0] == 200
        assert (await ask("/s/no%20good/v1/messages", {"x-api-key": "k3y"}))[0] == 400
        (row,) = await running.calls("H")
        assert row["delivered"] is None, "nobody reports the delivery there"
        assert len(await running.calls("mine")) == 1
