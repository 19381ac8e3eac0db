"""max_tokens fitted to the window, and prompts that do not fit it."""

import pytest

from polar_capture.faults import FaultKind
from tests.double import Double, Step
from tests.unit.engine.build import chat, engine_on, fault_from

OVERFLOW = "This model's maximum context length is 4096 tokens. However, your request has 5000 input tokens."
TRUNCATED = (
    "You passed 97 input tokens and requested 4000 output tokens. However, the model's context length is only 4096 "
    "tokens, resulting in a maximum input length of 96 tokens."
)


async def test_o_errors_01_an_overflow_carries_the_engines_numbers():
    step = Step(status=400, error=OVERFLOW)
    async with Double([step], window=4096) as double, engine_on(double) as engine:
        fault = await fault_from(engine, chat(max_tokens=64))
        assert (fault.kind, fault.prompt_tokens, fault.window) == (FaultKind.CONTEXT_OVERFLOW, 5000, 4096)
        assert len(double.chats) == 1


@pytest.mark.parametrize("limits", [{}, {"max_tokens": 64}, {"max_tokens": 10**6}])
async def test_o_errors_01_where_the_engine_tells_a_lower_bound_the_prompt_is_counted(limits):
    async with Double(window=100) as double, engine_on(double) as engine:
        request = chat("x" * 1000, **limits)
        fault = await fault_from(engine, request)
        assert (fault.kind, fault.window) == (FaultKind.CONTEXT_OVERFLOW, 100)
        assert fault.prompt_tokens == await engine.count(request) > 500


async def test_o_errors_03_more_output_than_the_window_is_fitted_with_one_more_attempt():
    async with Double(window=4096, reject_overrun=True) as double, engine_on(double) as engine:
        request = chat(max_tokens=32000)
        generation = await engine.generate(request)
        sent = double.chats[-1].body["max_tokens"]
        assert sent == 4096 - await engine.count(request) == generation.sampling["max_tokens"]
        assert generation.clamped
        assert len(double.chats) == 2


async def test_o_errors_03_a_server_that_insists_is_counted_for_from_then_on():
    async with Double(window=4096, reject_overrun=True) as double, engine_on(double) as engine:
        await engine.generate(chat(max_tokens=4000))
        await engine.generate(chat(max_tokens=32000))
        assert [request.status for request in double.chats] == [200, 400, 200]
        await engine.generate(chat(max_tokens=32000))
        assert double.chats[-1].status == 200
        assert len(double.chats) == 4


async def test_o_errors_03_vllm_that_cuts_at_the_window_needs_no_second_attempt():
    async with Double(window=4096) as double, engine_on(double) as engine:
        generation = await engine.generate(chat(max_tokens=32000))
        assert double.chats[0].body["max_tokens"] == 4095
        assert generation.clamped
        assert len(double.chats) == 1


async def test_o_errors_03_a_window_that_was_not_told_is_learnt_from_the_refusal():
    async with Double(window=4096) as double, engine_on(double) as engine:
        await engine._servers.list_models(engine._pool.upstreams[0])
        engine._pool.upstreams[0].models = []
        generation = await engine.generate(chat(max_tokens=32000))
        assert generation.clamped
        assert len(double.chats) == 2


async def test_o_errors_03_a_truncated_count_is_not_believed():
    async with Double([Step(status=400, error=TRUNCATED)], window=4096) as double, engine_on(double) as engine:
        request = chat("y" * 500, max_tokens=4000)
        generation = await engine.generate(request)
        assert generation.sampling["max_tokens"] == 4096 - await engine.count(request) < 4000


async def test_o_errors_03_the_second_refusal_is_passed_on():
    step = Step(status=400, error=TRUNCATED, repeat=9)
    async with Double([step], window=4096) as double, engine_on(double) as engine:
        await fault_from(engine, chat(max_tokens=4000))
        assert len(double.chats) == 2


async def test_without_max_tokens_none_is_sent():
    async with Double(window=4096) as double, engine_on(double) as engine:
        generation = await engine.generate(chat())
        assert "max_tokens" not in double.chats[0].body
        assert not generation.clamped
        assert generation.limit == 4096 - len(generation.completion.prompt_token_ids)


@pytest.mark.parametrize(("asked", "clamped"), [(64, False), (4090, True)])
async def test_a_limit_that_the_window_cuts_silently_counts_as_clamped(asked, clamped):
    async with Double(window=4096) as double, engine_on(double) as engine:
        generation = await engine.generate(chat(max_tokens=asked))
        assert (generation.sampling["max_tokens"], generation.clamped) == (asked, clamped)


async def test_max_tokens_0_is_the_clients_fault():
    async with Double() as double, engine_on(double) as engine:
        fault = await fault_from(engine, chat(max_tokens=0))
        assert (fault.kind, fault.param, len(double.chats)) == (FaultKind.INVALID, "max_tokens", 1)
