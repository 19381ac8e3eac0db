"""Faults of the engine and of the way to it."""

import asyncio
import time

import pytest

from polar_capture.engine import client, transport
from polar_capture.faults import FaultKind
from polar_capture.outcomes import Reason
from tests.double import Double, Step
from tests.unit.engine.build import chat, engine_on, fault_from, until


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, FaultKind.INVALID),
        (401, FaultKind.AUTHENTICATION),
        (404, FaultKind.NOT_FOUND),
        (422, FaultKind.INVALID),
        (500, FaultKind.UPSTREAM),
    ],
)
async def test_o_errors_04_a_permanent_fault_is_sent_once_and_passed_on(status, kind):
    async with Double([Step(status=status, error="bad tool schema")]) as double, engine_on(double) as engine:
        fault = await fault_from(engine, chat(max_tokens=64))
        assert (fault.kind, fault.message) == (kind, "bad tool schema")
        assert len(double.chats) == 1


@pytest.mark.parametrize(
    "step",
    [
        Step(html=True, status=502),
        Step(html=True, status=200),
        Step(body="not json"),
        Step(body={"object": "list"}),
        Step(missing=["choices"]),
        Step(body={"choices": []}),
        Step(status=302, headers={"location": "/login"}, body=""),
    ],
)
async def test_o_errors_06_what_is_no_answer_is_a_502_without_markup(step):
    async with Double([step]) as double, engine_on(double) as engine:
        fault = await fault_from(engine)
        assert fault.kind is FaultKind.UPSTREAM
        assert "<" not in fault.message
        assert len(double.chats) == 1


@pytest.mark.parametrize(
    ("status", "retry_after", "kind"), [(429, "7", FaultKind.RATE_LIMITED), (503, "3", FaultKind.UNAVAILABLE)]
)
async def test_o_errors_07_a_wait_longer_than_the_grace_is_passed_on_at_once(status, retry_after, kind):
    busy = Step(status=status, headers={"retry-after": retry_after}, error="busy")
    async with Double([busy]) as double, engine_on(double) as engine:
        fault = await fault_from(engine, deadline_grace=2.0)
        assert (fault.kind, fault.retry_after) == (kind, retry_after)
        assert len(double.chats) == 1


async def test_o_errors_07_a_busy_engine_is_tried_twice_more_inside_the_grace():
    async with Double([Step(status=503, error="busy", repeat=9)]) as double, engine_on(double) as engine:
        fault = await fault_from(engine, deadline_grace=5.0)
        assert (fault.kind, len(double.chats)) == (FaultKind.UNAVAILABLE, 3)
        await fault_from(engine, deadline_grace=0.0)
        assert len(double.chats) == 4


async def test_o_errors_07_a_short_wait_is_waited_for():
    busy = Step(status=429, headers={"retry-after": "0.1"}, error="busy", repeat=2)
    async with Double([busy]) as double, engine_on(double) as engine:
        generation = await engine.generate(chat())
        assert generation.completion.choices[0].message.content == "Hello."
        assert len(double.chats) == 3


async def test_o_errors_07_a_date_to_retry_after_is_passed_on():
    date = "Fri, 01 Jan 2100 00:00:00 GMT"
    step = Step(status=503, headers={"retry-after": date}, error="busy")
    async with Double([step]) as double, engine_on(double) as engine:
        assert (await fault_from(engine)).retry_after == date


async def test_o_errors_08_a_server_that_is_down_is_given_five_seconds_and_works_when_it_is_back(monkeypatch):
    monkeypatch.setattr(client, "RECONNECT_SECONDS", 0.5)
    async with Double() as double, engine_on(double) as engine:
        await double.stop()
        began = time.monotonic()
        fault = await fault_from(engine)
        assert fault.kind is FaultKind.UNAVAILABLE
        assert double.url in fault.message
        assert 0.5 <= time.monotonic() - began < 3
        await double.start()
        assert (await engine.generate(chat())).completion.choices[0].message.content == "Hello."


async def test_o_errors_08_a_server_that_comes_back_in_time_is_not_noticed():
    async with Double() as double, engine_on(double) as engine:
        await double.stop()
        waiting = asyncio.create_task(engine.generate(chat()))
        await asyncio.sleep(0.3)
        await double.start()
        assert (await waiting).completion.choices[0].message.content == "Hello."


@pytest.mark.parametrize("step", [Step(drop="before", delay=0.1), Step(drop="half"), Step(drop="half", trickle=0.2)])
async def test_o_capture_07_an_engine_that_dies_in_mid_call_is_a_502(step, monkeypatch):
    monkeypatch.setattr(transport, "STALE_SECONDS", 0.05)
    async with Double([step]) as double, engine_on(double) as engine:
        fault = await fault_from(engine)
        assert fault.kind is FaultKind.UPSTREAM
        assert "ended before its whole answer" in fault.message
        assert len(double.chats) == 1


async def test_o_capture_07_an_aborted_generation_is_returned_and_not_trainable():
    async with Double([Step(content="par", finish_reason="abort")]) as double, engine_on(double) as engine:
        generation = await engine.generate(chat())
        choice = generation.completion.choices[0]
        assert (choice.finish_reason, choice.message.content) == ("abort", "par")
        assert generation.check(choice)[0] is Reason.ABORTED


async def test_a_kept_connection_that_died_is_replaced_once_and_unnoticed():
    async with Double() as double, engine_on(double) as engine:
        await engine.generate(chat())
        double.push(Step(), Step(drop="before"), Step(content="again"))
        double._used = 1
        assert (await engine.generate(chat())).completion.choices[0].message.content == "again"
        assert len(double.chats) == 3
        assert double.chats[2].peer != double.chats[1].peer


async def test_a_second_death_on_the_new_connection_is_a_fault():
    async with Double([Step(), Step(drop="before", repeat=9)]) as double, engine_on(double) as engine:
        await engine.generate(chat())
        assert (await fault_from(engine)).kind is FaultKind.UPSTREAM
        assert len(double.chats) == 3


async def test_after_a_500_no_connection_is_used_again():
    # close_after_500=False: the server would have kept it, so a new one was the client's own choice.
    async with Double([Step(), Step(status=500)], close_after_500=False) as double, engine_on(double) as engine:
        await engine.generate(chat())
        await fault_from(engine)
        await engine.generate(chat())
        kept, failed, fresh = (request.peer for request in double.chats)
        assert kept == failed != fresh


async def test_calls_in_flight_outlive_the_connections_that_a_500_retires():
    async with Double([Step(content="slow", delay=0.3), Step(status=500)]) as double, engine_on(double) as engine:
        slow = asyncio.create_task(engine.generate(chat()))
        await asyncio.sleep(0.05)
        await fault_from(engine)
        assert (await slow).completion.choices[0].message.content == "slow"


async def test_o_transport_05_a_cancelled_call_closes_its_connection():
    async with Double(lambda _body, _n: Step(delay=30)) as double, engine_on(double) as engine:
        calls = [asyncio.create_task(engine.generate(chat())) for _ in range(50)]
        await until(lambda: double.running == 50)
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
        await until(lambda: double.running == 0)
        assert all(request.disconnected_at is not None for request in double.chats)


async def test_a_server_that_serves_another_model_now_is_asked_again_once():
    async with Double(model="step-1") as double, engine_on(double) as engine:
        await engine.generate(chat())
        double.options.model = "step-2"
        generation = await engine.generate(chat())
        assert generation.completion.model == "step-2"
        assert [request.body["model"] for request in double.chats] == ["step-1", "step-1", "step-2"]


async def test_a_model_that_was_named_and_is_gone_is_a_404():
    async with Double(model="step-1") as double, engine_on(double, model="step-1") as engine:
        await engine.generate(chat())
        double.options.model = "step-2"
        fault = await fault_from(engine)
        assert (fault.kind, len(double.chats)) == (FaultKind.NOT_FOUND, 2)


async def test_the_name_that_the_client_asked_for_is_not_sent():
    async with Double() as double, engine_on(double) as engine:
        request = chat()
        request.model = "claude-opus-4"
        await engine.generate(request)
        assert double.chats[0].body["model"] == "toy"


async def test_a_down_engine_hands_its_sessions_to_another_at_once():
    async with Double() as first, Double() as second, engine_on(first, second) as engine:
        owner = (await engine.generate(chat(), session="s")).upstream
        down, other = (first, second) if owner == first.url else (second, first)
        await down.stop()
        began = time.monotonic()
        assert (await engine.generate(chat(), session="s")).upstream == other.url
        assert time.monotonic() - began < 2


async def test_what_is_no_http_is_a_502_that_quotes_nothing():
    async def babble(_reader, writer):
        writer.write(b"<html>not even HTTP</html>\r\n\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(babble, "127.0.0.1", 0)
    engine = client.Engine([f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"])
    fault = await fault_from(engine)
    assert fault.kind is FaultKind.UPSTREAM
    assert "html" not in fault.message
    await engine.close()
    server.close()


async def test_a_server_that_dies_behind_its_answer_loses_nothing():
    async with Double(weight_version="v7") as double, engine_on(double) as engine:
        await engine.start()
        telling = engine._servers.weights
        told = iter(["v7"])

        async def dies(upstream):
            for version in told:
                return version
            await double.stop()
            return await telling(upstream)

        engine._servers.weights = dies
        generation = await engine.generate(chat())
        assert generation.completion.choices[0].weight_versions == [{"version": "v7"}]


async def test_counting_moves_on_to_an_engine_that_is_up():
    async with Double() as first, Double() as second, engine_on(first, second) as engine:
        await first.stop()
        assert await engine.count(chat()) > 0
        assert [request.path for request in second.requests] == ["/tokenize"]


async def test_counting_faults_are_call_errors():
    async with Double() as double, engine_on(double) as engine:
        assert await engine.count(chat()) > 0
        await double.stop()
        with pytest.raises(client.CallError) as caught:
            await engine.count(chat())
        assert caught.value.fault.kind is FaultKind.UNAVAILABLE


async def test_an_api_key_is_sent():
    async with Double() as double, engine_on(double, api_key="secret") as engine:
        await engine.generate(chat())
        assert double.chats[0].headers["Authorization"] == "Bearer secret"
