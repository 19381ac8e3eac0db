"""Everything an engine can do wrong: a clear error in the dialect's shape, a row that says so, nothing lost."""

import json

import pytest

from tests.double import Double, Step
from tests.proxying import proxy
from tests.unit.proxy.dialect_calls import CALLS

URL, BODY = CALLS["openai_chat"].asking("hi")


@pytest.mark.parametrize(
    ("step", "status"),
    [
        (Step(status=500, error="EngineCore encountered an issue."), 502),
        (Step(html=True, status=502), 502),
        (Step(html=True, status=200), 502),
        (Step(body="{}"), 502),
        (Step(drop="half"), 502),
        (Step(missing=["choices"]), 502),
        (Step(status=400, error="bad tool schema"), 400),
    ],
    ids=["500", "html 502", "html 200", "empty object", "cut in the body", "no choices", "400"],
)
async def test_o_errors_04_and_06_faults_keep_their_status_and_leave_a_row(step, status):
    async with Double() as vllm, proxy(vllm.url) as running:
        vllm.push(step, step)
        got, body, _ = await running.answer("POST", URL, json=BODY)
        assert got == status
        error = json.loads(body)["error"]
        assert error["message"]
        assert "<html" not in error["message"].lower()
        (row,) = await running.calls()
        assert (row["status"], row["trainable"], row["http_status"]) == ("error", False, status)
        assert row["error"] == error["message"]
        assert row["completion_ids"] is None
        vllm.push(Step(content="Fine."))
        assert (await running.answer("POST", URL, json=BODY))[0] in (200, status)


@pytest.mark.parametrize(
    ("step", "reason"),
    [
        (Step(missing=["token_ids"]), "ids_missing"),
        (Step(missing=["prompt_token_ids"]), "ids_missing"),
        (Step(missing=["logprobs"]), "logprobs_missing"),
        (Step(fewer_logprobs=1), "length_mismatch"),
        (Step(logprobs=[-9999.0]), "logprob_invalid"),
        (Step(logprobs=[0.5]), "logprob_invalid"),
    ],
)
async def test_o_capture_03_an_answer_without_sound_ids_is_delivered_and_not_trainable(step, reason):
    async with Double() as vllm, proxy(vllm.url) as running:
        vllm.push(step)
        status, body, _ = await running.answer("POST", URL, json=BODY)
        assert (status, b"Hello." in body) == (200, True)
        (row,) = await running.calls()
    assert (row["status"], row["trainable"], row["reason"]) == ("ok", False, reason)
    if "token_ids" in step.missing:
        assert row["completion_ids"] is None
    if "prompt_token_ids" in step.missing:
        assert row["prompt_ids"] is None


BUSY = {
    "openai_chat": ("rate_limit_exceeded", "service_unavailable"),
    "anthropic": ("rate_limit_error", "api_error"),
    "openai_responses": ("rate_limit_exceeded", "server_error"),
    "google": ("RESOURCE_EXHAUSTED", "UNAVAILABLE"),
}
"""How each dialect names a rate limit and an overload. At Anthropic's overloaded_error Claude Code would give up."""


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("dialect", CALLS)
async def test_o_errors_07_rate_limit_and_overload_keep_their_status_and_wait(dialect, stream):
    url, body = CALLS[dialect].asking("hi", stream=stream)
    async with Double() as vllm, proxy(vllm.url) as running:
        for status, wait in ((429, "7"), (503, "3"), (529, "4")):
            vllm.push(Step(status=status, error="busy", headers={"retry-after": wait}))
            got, answer, headers = await running.answer("POST", url, json=body)
            assert (got, headers["retry-after"]) == (min(status, 503), wait)
            assert BUSY[dialect][status > 429] in answer.decode()
            assert "busy" in json.loads(answer)["error"]["message"]


async def test_o_errors_01_a_count_never_contradicts_the_engines_own():
    refusal = (
        "This model's maximum context length is 4096 tokens. However, your prompt contains at least 4097 input tokens"
    )
    url, body = CALLS["anthropic"].asking("hi")
    async with Double() as vllm, proxy(vllm.url) as running:
        vllm.push(Step(status=400, error=refusal))
        _, answer, _ = await running.answer("POST", url, json=body)
        assert json.loads(answer)["error"]["message"] == "prompt is too long: 4097 tokens > 4096 maximum"


async def test_o_capture_07_an_aborted_generation_is_no_answer():
    async with Double() as vllm, proxy(vllm.url) as running:
        vllm.push(Step(content="par", finish_reason="abort"))
        status, body, _ = await running.answer("POST", URL, json=BODY)
        assert status == 429, "to be tried again"
        assert json.loads(body)["error"]["message"]
        (row,) = await running.calls()
    assert (row["status"], row["trainable"], row["reason"], row["finish_reason"]) == (
        "aborted",
        False,
        "aborted",
        "abort",
    )


async def test_o_errors_08_an_engine_that_is_down_is_said_soon_and_found_again():
    async with Double() as vllm, proxy(vllm.url) as running:
        await vllm.stop()
        status, body, _ = await running.answer("POST", URL, json=BODY)
        assert status == 503
        assert "no engine can be reached" in json.loads(body)["error"]["message"]
        await vllm.start()
        for _ in range(20):
            status, _, _ = await running.answer("POST", URL, json=BODY)
            if status == 200:
                break
        assert status == 200
        rows = await running.calls()
    assert [row["status"] for row in rows][:1] == ["error"]
    assert rows[-1]["status"] == "ok"


async def test_an_engine_that_is_down_at_the_start_is_only_a_warning():
    vllm = Double()
    async with vllm:
        url = vllm.url
        await vllm.stop()
        async with proxy(url) as running:
            await vllm.start()
            for _ in range(20):
                status, _, _ = await running.answer("POST", URL, json=BODY)
                if status == 200:
                    break
            assert status == 200


async def test_an_unknown_model_is_served_by_the_one_model_and_recorded():
    async with Double() as vllm, proxy(vllm.url) as running:
        status, body, _ = await running.answer("POST", URL, json=BODY | {"model": "gpt-99"})
        assert status == 200
        assert json.loads(body)["model"]
        (row,) = await running.calls()
    assert (row["model_requested"], row["model_served"]) == ("gpt-99", "toy")
