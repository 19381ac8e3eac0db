"""The store fails while calls go on (o-capture-06), and a proxy that is started again goes on where it was."""

import json
from concurrent.futures import Future

import pytest
import sqlalchemy as sa

from polar_capture.store.records import StoreUnavailable
from tests.double import Double, Step
from tests.proxying import proxy
from tests.unit.proxy.dialect_calls import CALLS

URL, BODY = CALLS["openai_chat"].asking("hi")


async def test_o_capture_06_a_store_and_spool_that_fail_are_said_and_nothing_is_delivered_unrecorded(monkeypatch):
    async with Double() as vllm, proxy(vllm.url) as running:
        assert (await running.answer("POST", URL, json=BODY))[0] == 200
        recorder = running.runtime.gateway.recorder
        commit = recorder.call

        def refuse(records):
            future: Future[None] = Future()
            future.set_exception(StoreUnavailable("disk full: free some space"))
            return future

        monkeypatch.setattr(recorder, "call", refuse)
        status, body, headers = await running.answer("POST", URL, json=BODY)
        assert status == 503
        assert "could not be recorded" in json.loads(body)["error"]["message"]
        assert headers["retry-after"]
        monkeypatch.setattr(recorder, "call", commit)
        assert (await running.answer("POST", URL, json=BODY))[0] == 200
        rows = await running.calls()
    assert [row["seq"] for row in rows] == [0, 2], "the gap in the numbers names the call that was not kept"


@pytest.mark.parametrize("dialect", ["anthropic", "openai_chat"])
async def test_a_proxy_started_again_goes_on_with_numbers_parents_and_restored_turns(tmp_path, dialect):
    db = f"sqlite:///{tmp_path}/kept.db"
    url, body = CALLS[dialect].asking("hi")
    async with Double() as vllm:
        async with proxy(vllm.url, db=db) as running:
            vllm.push(Step(reasoning="I greet. ", content="Hello.  "))
            _, answer, _ = await running.answer("POST", url, json=body)
            (first,) = await running.calls()
        reply = json.loads(answer)
        if dialect == "anthropic":
            echo = {"role": "assistant", "content": [{"type": "text", "text": "Hello."}]}
            assert reply["content"][-1]["text"] == "Hello.  "
        else:
            echo = {"role": "assistant", "content": "Hello."}
        body["messages"] += [echo, {"role": "user", "content": "more"}]
        async with proxy(vllm.url, db=db) as running:
            assert (await running.answer("POST", url, json=body))[0] == 200
            _, second = await running.calls()
    context = first["prompt_ids"] + first["completion_ids"]
    assert second["seq"] == 1
    assert (second["parent_call_id"], second["prefix_len"]) == (first["id"], len(context))
    assert second["prompt_ids"][: len(context)] == context


async def test_an_unknown_session_waits_for_the_database_and_a_known_one_goes_on(monkeypatch):
    async with Double() as vllm, proxy(vllm.url) as running:
        assert (await running.answer("POST", URL, json=BODY))[0] == 200

        def away(*_: object, **__: object):
            raise sa.exc.OperationalError("SELECT", {}, Exception("gone"))

        with monkeypatch.context() as outage:
            outage.setattr(type(running.runtime.store), "session", away)
            status, answer, headers = await running.answer("POST", URL, json=BODY, session="new")
            assert status == 503
            assert "cannot be looked up" in json.loads(answer)["error"]["message"]
            assert headers["retry-after"]
            assert (await running.answer("POST", URL, json=BODY))[0] == 200
        assert (await running.answer("POST", URL, json=BODY, session="new"))[0] == 200
        assert [len(await running.calls(session)) for session in ("s1", "new")] == [2, 1]
