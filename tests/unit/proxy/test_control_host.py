"""The control host: open pages, guarded pages, and what an agent can't do with it."""

import asyncio
import json

import pytest

from tests.double import Double, Step
from tests.proxying import TOKEN, proxy
from tests.unit.proxy.dialect_calls import CALLS

BEARER = {"authorization": f"Bearer {TOKEN}"}


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_open_pages_answer_everyone(scheme):
    async with Double() as vllm, proxy(vllm.url, egress="block") as running:
        status, body, _ = await running.answer("GET", f"{scheme}://polar.capture/health")
        assert (status, json.loads(body)["status"]) == (200, "ok")
        status, body, _ = await running.answer("GET", f"{scheme}://polar.capture/ca.pem")
        assert (status, body) == (200, running.ca.read_bytes())
        status, body, _ = await running.answer("GET", f"{scheme}://polar.capture/")
        assert status == 200
        assert running.url.encode() in body


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "/sessions", None),
        ("POST", "/sessions", {"id": "mine"}),
        ("GET", "/sessions/s1", None),
        ("PATCH", "/sessions/s1", {"status": "completed"}),
        ("POST", "/sessions/s1/rewards", {"value": 1.0}),
        ("POST", "/policy", {"version": 3}),
        ("POST", "/pause", None),
        ("POST", "/resume", None),
        ("GET", "/metrics", None),
    ],
)
@pytest.mark.parametrize("headers", [{}, {"authorization": "Bearer guess"}, {"authorization": TOKEN}])
async def test_guarded_pages_want_the_token_everywhere(method, path, body, headers):
    async with Double() as vllm, proxy(vllm.url) as running:
        url, call = CALLS["openai_chat"].asking("hi")
        await running.answer("POST", url, json=call)
        for base in ("http://polar.capture", "https://polar.capture"):
            status, answer, _ = await running.answer(method, base + path, json=body, headers=headers)
            assert status == 401
            assert b"s1" not in answer
        control = f"http://127.0.0.1:{running.runtime.control_port}"
        async with running.client.request(method, control + path, json=body, headers=headers) as response:
            assert response.status == 401
        assert running.runtime.policy.current.version == 0
        assert not running.runtime.policy.paused
        assert running.runtime.store.rewards("s1") == []


async def test_a_trainer_makes_sessions_rewards_them_and_ends_them():
    async with Double() as vllm, proxy(vllm.url) as running:
        control = f"http://127.0.0.1:{running.runtime.control_port}"

        async def ask(method, path, body=None):
            async with running.client.request(method, control + path, json=body, headers=BEARER) as response:
                return response.status, await response.json()

        new = {"id": "r1", "task_id": "t", "group_id": "g", "sample_index": 2, "metadata": {"a": 1}}
        status, row = await ask("POST", "/sessions", new)
        assert status == 201
        assert {k: row[k] for k in ("id", "task_id", "group_id", "sample_index", "metadata", "status")} == new | {
            "status": "open"
        }
        status, row = await ask("POST", "/sessions", {})
        assert (status, bool(row["id"])) == (201, True)
        url, call = CALLS["openai_chat"].asking("hi")
        await running.answer("POST", url, json=call, session="r1")
        (turn,) = await running.calls("r1")
        status, reward = await ask("POST", "/sessions/r1/rewards", {"value": 0.5, "comment": "ok"})
        assert (status, bool(reward["id"])) == (201, True)
        assert (await ask("POST", "/sessions/r1/rewards", {"value": 1, "name": "style", "call_id": turn["id"]}))[
            0
        ] == 201
        assert (await ask("POST", "/sessions/r1/rewards", {"value": 1, "call_id": "nope"}))[0] == 404
        assert (await ask("POST", "/sessions/nope/rewards", {"value": 1}))[0] == 404
        assert (await ask("POST", "/sessions/r1/rewards", {"value": "x"}))[0] == 400
        assert (await ask("POST", "/sessions", {"id": "not valid!"}))[0] == 400
        assert (await ask("PATCH", "/sessions/nope", {"status": "failed"}))[0] == 404
        assert (await ask("PATCH", "/sessions/r1", {"status": "nonsense"}))[0] == 400
        status, row = await ask("PATCH", "/sessions/r1", {"status": "completed", "metadata": {"b": 2}})
        assert (status, row["status"], row["metadata"]) == (200, "completed", {"a": 1, "b": 2})
        assert row["ended_at"] is not None
        await running.answer("POST", url, json=call, session="r1")
        late = (await running.calls("r1"))[-1]
        assert (late["status"], late["trainable"], late["reason"]) == ("ok", False, "late_call")
        status, rows = await ask("GET", "/sessions")
        assert (status, len(rows)) == (200, 2)
        values = {reward["name"]: reward["value"] for reward in running.runtime.store.rewards("r1")}
    assert values == {"outcome": 0.5, "style": 1.0}


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/policy", {"version": 2**63}),
        ("POST", "/sessions", {"sample_index": 2**63}),
        ("PATCH", "/sessions/s1", {"sample_index": -(2**63) - 1}),
        ("PATCH", "/sessions/s1", {"id": "another"}),
    ],
)
async def test_what_no_row_could_hold_is_refused(method, path, body):
    async with Double() as vllm, proxy(vllm.url) as running:
        url, call = CALLS["openai_chat"].asking("hi")
        await running.answer("POST", url, json=call)
        status, answer, _ = await running.answer(method, f"http://polar.capture{path}", json=body, headers=BEARER)
        assert status == 400, answer
        assert (await running.answer("POST", url, json=call))[0] == 200
        assert [row["trainable"] for row in await running.calls()] == [True, True]


async def test_a_session_that_is_opened_again_has_not_ended():
    async with Double() as vllm, proxy(vllm.url) as running:
        url, call = CALLS["openai_chat"].asking("hi")
        for state in ("completed", "open"):
            await running.answer("POST", url, json=call)
            _, body, _ = await running.answer(
                "PATCH", "http://polar.capture/sessions/s1", json={"status": state}, headers=BEARER
            )
            row = json.loads(body)
            assert (row["status"], row["ended_at"] is None) == (state, state == "open")
        await running.answer("POST", url, json=call)
        assert [row["reason"] for row in await running.calls()] == [None, "late_call", None]


async def test_health_answers_a_probe_by_head():
    async with Double() as vllm, proxy(vllm.url) as running:
        assert (await running.answer("HEAD", "http://polar.capture/health"))[0] == 200
        assert (await running.answer("HEAD", "http://polar.capture/sessions"))[0] == 401


async def test_o_capture_08_policy_versions_are_recorded_and_only_go_up():
    async with Double() as vllm, proxy(vllm.url) as running:

        async def control(path, body=None):
            return await running.answer("POST", f"https://polar.capture{path}", json=body, headers=BEARER)

        url, call = CALLS["openai_chat"].asking("hi")
        assert (await control("/policy", {"version": 7, "label": "step-7"}))[0] == 200
        assert (await control("/policy", {"version": 6}))[0] == 409
        await running.answer("POST", url, json=call)
        rows = await running.calls()
        assert (rows[0]["policy_version"], rows[0]["policy_label"]) == (7, "step-7")


async def test_a_version_that_changes_while_a_call_runs_is_mixed():
    async with Double() as vllm, proxy(vllm.url) as running:
        url, call = CALLS["openai_chat"].asking("hi")
        vllm.push(Step(delay=0.6))
        asked = asyncio.create_task(running.answer("POST", url, json=call))
        await asyncio.sleep(0.3)
        await running.answer("POST", "https://polar.capture/policy", json={"version": 1}, headers=BEARER)
        assert (await asked)[0] == 200
        (row,) = await running.calls()
    assert (row["policy_version"], row["trainable"], row["reason"]) == (0, False, "mixed_policy")


async def test_pause_holds_new_calls_and_resume_lets_them_go():
    async with Double() as vllm, proxy(vllm.url) as running:
        url, call = CALLS["openai_chat"].asking("hi")
        await running.answer("POST", "https://polar.capture/pause", headers=BEARER)
        asked = asyncio.create_task(running.answer("POST", url, json=call))
        await asyncio.sleep(0.4)
        assert not asked.done()
        await running.answer("POST", "https://polar.capture/policy", json={"version": 2}, headers=BEARER)
        await running.answer("POST", "https://polar.capture/resume", headers=BEARER)
        assert (await asked)[0] == 200
        (row,) = await running.calls()
    assert (row["policy_version"], row["trainable"]) == (2, True)


async def test_metrics_count_calls_and_tokens():
    async with Double() as vllm, proxy(vllm.url) as running:
        url, call = CALLS["openai_chat"].asking("hi")
        await running.answer("POST", url, json=call)
        _, text, headers = await running.answer("GET", "https://polar.capture/metrics", headers=BEARER)
    assert headers["content-type"].startswith("text/plain")
    assert 'polar_calls_total{status="ok"} 1' in text.decode()
