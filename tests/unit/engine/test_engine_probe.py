"""The start-up check."""

import pytest

from polar_capture.engine.client import Engine
from polar_capture.engine.probe import ModelNotServed, NoPromptIds, NoTokenIds
from tests.double import Double, Step
from tests.unit.engine.build import until


async def started(double: Double, **options) -> Engine:
    engine = Engine([double.url], **options)
    try:
        await engine.start()
    finally:
        await engine.close()
    return engine


async def test_model_window_and_logprobs_mode_are_found_out():
    async with Double(model="toy", window=4096) as double:
        engine = await started(double)
        assert (engine.model, engine.window, engine.logprobs_mode) == ("toy", 4096, "raw_logprobs")
        assert [(card.id, card.window) for card in engine.models()] == [("toy", 4096)]
        assert len(double.chats) == 1
        double.options.logprobs_mode = "processed_logprobs"
        assert (await started(double)).logprobs_mode == "processed_logprobs"


async def test_an_old_server_without_ids_is_refused_with_version_and_remedy():
    async with Double(return_ids=False, version="0.9.1") as double:
        with pytest.raises(
            NoTokenIds, match=r"vLLM 0\.9\.1.*ignores return_token_ids.*serve the model with vLLM 0\.11"
        ):
            await started(double)


@pytest.mark.parametrize("missing", ["prompt_token_ids", "token_ids", "logprobs"])
async def test_a_server_that_leaves_something_out_is_refused(missing):
    async with Double([Step(missing=[missing])]) as double:
        with pytest.raises(NoTokenIds):
            await started(double)


async def test_logits_in_place_of_logprobs_are_refused():
    async with Double([Step(logprobs=[17.5])]) as double:
        with pytest.raises(NoTokenIds, match="--logprobs-mode"):
            await started(double)


async def test_a_server_that_refuses_logit_bias_is_asked_greedily():
    def refuses(body, _number):
        return Step(status=400, error="logit_bias is not supported") if "logit_bias" in body else None

    async with Double(refuses, logprobs_mode="processed_logprobs") as double:
        assert (await started(double)).logprobs_mode == "processed_logprobs"


async def test_the_model_that_was_named_must_be_served():
    async with Double(model="toy", aliases=["lora"]) as double:
        assert (await started(double, model="lora")).model == "lora"
        assert [card.id for card in (await started(double, model="lora")).models()] == ["lora"]
        with pytest.raises(ModelNotServed, match="does not serve 'other': it serves toy, lora"):
            await started(double, model="other")


@pytest.mark.parametrize("step", [Step(status=400, error="no"), Step(html=True), Step(html=True, status=404)])
async def test_a_refused_probe_is_an_error_in_the_log_and_no_more(step, caplog):
    async with Double(lambda _body, _n: step) as double:
        engine = await started(double)
    assert engine.logprobs_mode is None
    assert "failed its check" in caplog.text


async def test_a_server_that_is_down_at_the_start_is_checked_when_it_is_up(caplog):
    double = Double(window=4096)
    await double.start()
    await double.stop()
    engine = Engine([double.url])
    engine._pool._interval = 0.01
    await engine.start()
    assert "is down" in caplog.text
    assert (engine.model, engine.logprobs_mode) == (None, None)
    await double.start()
    await until(lambda: engine.logprobs_mode is not None)
    assert (engine.model, engine.window) == ("toy", 4096)
    await engine.close()
    await double.stop()


@pytest.mark.parametrize("honours", [True, False])
async def test_one_generation_also_tells_whether_prompt_ids_are_taken(honours):
    async with Double(honour_prompt_ids=honours) as double:
        engine = await started(double)
        assert engine.takes_prompt_ids() == (double.url if honours else None)
        assert len(double.chats) == 1
        if honours:
            engine.require_prompt_ids()
        else:
            with pytest.raises(NoPromptIds, match=r"vLLM 0\.32\.0.*--continuation exact needs.*--continuation auto"):
                engine.require_prompt_ids()


@pytest.mark.parametrize(
    "step",
    [
        Step(status=400, error="kv_transfer_params: Extra inputs are not permitted"),
        Step(prompt_token_ids=[1, 2, 3]),
    ],
)
async def test_a_server_that_refuses_prompt_ids_or_echoes_others_does_not_take_them(step):
    async with Double(lambda body, _n: step if "kv_transfer_params" in body else None) as double:
        engine = await started(double)
        assert engine.takes_prompt_ids() is None
        assert engine.logprobs_mode == "raw_logprobs"


async def test_an_engine_that_answered_for_other_ids_gets_none_any_more():
    async with Double() as good, Double() as bad:
        engine = Engine([good.url, bad.url])
        try:
            await engine.start()
            engine.distrust_prompt_ids(bad.url)
            taken = {engine.takes_prompt_ids(f"s{n}") for n in range(50)}
        finally:
            await engine.close()
        assert taken == {good.url, None}


async def test_an_engine_that_is_down_is_not_said_to_lack_anything():
    engine = Engine(["http://127.0.0.1:9"])
    try:
        await engine.start()
        engine.require_prompt_ids()
        assert engine.takes_prompt_ids() is None
    finally:
        await engine.close()
