"""Prompt ids by render → generate → derender: the same answers as by chat requests, and every step's refusals."""

from typing import Any

import msgspec
import pytest

from polar_capture.chat import ChatRequest, Message, Sampling, Tool, ToolChoice
from polar_capture.engine.client import Engine, Generation
from polar_capture.engine.probe import NoPromptIds
from polar_capture.faults import CallError, FaultKind
from polar_capture.outcomes import Reason
from tests.double import Double, Step
from tests.double.scale_out import PAGES

RENDER, GENERATE, DERENDER = PAGES
IDS = [1, 3, 300, 301, 2, 3]
CALL = {"name": "ls", "arguments": {"dir": "."}}
STEPS = {
    "words": Step(reasoning="hm", content="Hello."),
    "call": Step(reasoning="hm", content="I look.", tool_calls=[CALL]),
    "two calls": Step(content=None, tool_calls=[CALL, {"name": "cat", "arguments": {"file": "ü"}}]),
    "cut": Step(content="Hello, this is long"),
    "cut in a thought": Step(reasoning="I was thinking of it", content=None),
    "versions": Step(weight_versions=[{"version": "step-7", "start": 0, "end": 4}]),
}


def chat(**fields: Any) -> ChatRequest:
    return ChatRequest(messages=[Message("user", "hi")], tools=[Tool("ls"), Tool("cat")], **fields)


def old(*steps: Step, **options: Any) -> Double:
    """A server whose chat requests take no ids."""
    return Double(list(steps), honour_prompt_ids=False, scale_out=True, **options)


async def sampled(double: Double, request: ChatRequest, *steps: Step, ids: list[int] | None = IDS) -> Generation:
    """The answer to one request; `steps` are what the server says after its check."""
    engine = Engine([double.url])
    try:
        await engine.start()
        double.script.steps.clear()
        double._used = 0
        double.push(*steps)
        return await engine.generate(request, prompt_ids=ids)
    finally:
        await engine.close()


def paths(double: Double) -> list[str]:
    return [r.path for r in double.requests if r.path in (*PAGES, "/v1/chat/completions")]


def same(one: Generation, other: Generation) -> None:
    assert one.completion.prompt_token_ids is not None
    assert one.completion.prompt_token_ids.tolist() == IDS == other.completion.prompt_token_ids.tolist()
    assert one.completion.usage == other.completion.usage
    assert (one.limit, one.clamped, one.sampling) == (other.limit, other.clamped, other.sampling)
    for mine, theirs in zip(one.completion.choices, other.completion.choices, strict=True):
        for call in (*mine.message.tool_calls, *theirs.message.tool_calls):
            call.id = ""  # /derender mints others
        assert msgspec.to_builtins(mine) == msgspec.to_builtins(theirs)


@pytest.mark.parametrize("name", STEPS)
@pytest.mark.parametrize("shown", [None, 0, 2])
async def test_an_answer_is_the_one_that_a_chat_request_gives(name, shown):
    limit = 5 if name.startswith("cut") else 64
    request = chat(sampling=Sampling(max_tokens=limit, temperature=1.0, top_logprobs=shown))
    async with old() as two, Double() as one:
        by_pages, by_chat = [await sampled(double, request, STEPS[name]) for double in (two, one)]
        assert paths(two)[-3:] == [*PAGES]
        assert paths(one)[-1] == "/v1/chat/completions"
    if shown == 2:  # the double shows the sampled token again and again, /derender just once
        for choice in (*by_pages.completion.choices, *by_chat.completion.choices):
            choice.logprobs_content = None
    same(by_pages, by_chat)
    assert by_pages.check(by_pages.completion.choices[0]) == by_chat.check(by_chat.completion.choices[0])


@pytest.mark.parametrize(
    ("choice", "finish"),
    [(None, "tool_calls"), (ToolChoice("required"), "tool_calls"), (ToolChoice("function", "ls"), "stop")],
)
async def test_the_finish_reason_of_a_call_is_the_chat_endpoints(choice, finish):
    async with old() as double:
        found = await sampled(double, chat(tool_choice=choice), STEPS["call"])
    assert found.completion.choices[0].finish_reason == finish


async def test_several_choices():
    request = chat(sampling=Sampling(n=2, temperature=1.0))
    async with old() as double:
        found = await sampled(double, request, STEPS["call"])
    assert [c.message.tool_calls[0].name for c in found.completion.choices] == ["ls", "ls"]


async def test_an_abort_before_the_first_token_is_not_derendered():
    async with old() as double:
        found = await sampled(double, chat(), Step(finish_reason="abort", token_ids=[], content=None))
        assert paths(double)[-1] == GENERATE
    (choice,) = found.completion.choices
    assert (choice.finish_reason, choice.token_ids, choice.message.content) == ("abort", [], None)
    assert found.check(choice)[0] is Reason.ABORTED


async def test_what_may_be_sampled_is_fitted_to_the_ids_and_not_to_the_render():
    ids = IDS * 30
    async with old(window=200) as double:
        await sampled(double, chat(sampling=Sampling(max_tokens=60)), ids=ids)
        asked = next(r.body for r in double.requests[::-1] if r.path == GENERATE)
    assert asked["sampling_params"]["max_tokens"] == 200 - len(ids)
    assert asked["token_ids"] == ids
    assert asked["return_token_ids"] is True
    assert "token_offsets" not in asked


async def test_calls_without_ids_stay_chat_requests():
    async with old() as double:
        await sampled(double, chat(), ids=None)
        assert paths(double)[-1] == "/v1/chat/completions"


async def test_stop_strings_are_left_to_the_chat_endpoint():
    async with old() as double:
        found = await sampled(double, chat(sampling=Sampling(stop=["x"])))
        assert paths(double)[-1] == "/v1/chat/completions"
        assert "kv_transfer_params" not in double.chats[-1].body
    assert found.ids_refused


# --- the check at the start ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "takes", "by_pages"),
    [
        ({}, True, False),
        ({"scale_out": True}, True, False),
        ({"honour_prompt_ids": False, "scale_out": True}, True, True),
        ({"honour_prompt_ids": False}, False, False),
        ({"honour_prompt_ids": False, "scale_out": True, "honour_generate_ids": False}, False, False),
    ],
)
async def test_the_start_finds_out_which_way_works_by_the_echo(options, takes, by_pages):
    async with Double(**options) as double:
        engine = Engine([double.url])
        try:
            await engine.start()
            (upstream,) = engine._pool.upstreams
            assert (upstream.takes_prompt_ids, upstream.scale_out) == (takes, by_pages)
            assert engine.takes_prompt_ids() == (double.url if takes else None)
            if takes:
                engine.require_prompt_ids()
            else:
                with pytest.raises(NoPromptIds, match="--enable-scale-out"):
                    engine.require_prompt_ids()
        finally:
            await engine.close()


async def test_a_server_that_has_the_pages_no_more_is_asked_with_the_messages():
    async with old() as double:
        engine = Engine([double.url])
        try:
            await engine.start()
            double.options.scale_out = False
            found = await engine.generate(chat(), prompt_ids=IDS)
        finally:
            await engine.close()
    assert found.ids_refused


# --- refusals of a step --------------------------------------------------------------------------------------------


async def test_ids_that_generate_refuses_are_followed_by_the_messages():
    def out_of_vocabulary(body: dict[str, Any], number: int) -> Step | None:
        return Step(status=400, error="Token id 7 is out of vocabulary") if number > 1 and "generate" in body else None

    async with Double(out_of_vocabulary, honour_prompt_ids=False, scale_out=True) as double:
        engine = Engine([double.url])
        try:
            await engine.start()
            assert not (await engine.generate(chat())).ids_refused
            assert (await engine.generate(chat(), prompt_ids=IDS)).ids_refused
        finally:
            await engine.close()


@pytest.mark.parametrize(
    ("step", "kind"),
    [
        (Step(status=500, error="EngineCore encountered an issue."), FaultKind.UPSTREAM),
        (Step(status=503, error="busy"), FaultKind.UNAVAILABLE),
        (Step(body={"choices": "none"}), FaultKind.UPSTREAM),
        (Step(drop="half"), FaultKind.UPSTREAM),
    ],
)
async def test_a_fault_of_a_step_is_the_calls_fault(step, kind):
    step.repeat = 9
    async with old() as double:
        with pytest.raises(CallError) as raised:
            await sampled(double, chat(), step)
    assert raised.value.fault.kind is kind


async def test_a_prompt_beyond_the_window_is_told_as_such():
    long = msgspec.structs.replace(chat(), messages=[Message("user", "hi " * 500)])
    async with old(window=200) as double:
        with pytest.raises(CallError) as raised:
            await sampled(double, long, ids=IDS * 100)
    assert raised.value.fault.kind is FaultKind.CONTEXT_OVERFLOW
