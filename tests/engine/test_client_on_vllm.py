"""The engine client against the real vLLM: what the double can only pretend."""

import asyncio
import re
from collections.abc import Callable

import aiohttp
import msgspec
import pytest

from polar_capture.chat import ChatRequest, Message, Sampling, Tool, ToolCall, ToolChoice
from polar_capture.engine.answers import decode
from polar_capture.engine.client import Engine
from polar_capture.engine.wire import Abilities, chat_body, tokenize_body
from polar_capture.faults import FaultKind
from polar_capture.outcomes import Warning
from tests.unit.engine.build import chat, engine_on, fault_from

BASH = Tool("bash", "Run a command.", {"type": "object", "properties": {"command": {"type": "string"}}})
TASK = "Please write polar into proof.txt, use the tool bash"


def calling(**sampling) -> ChatRequest:
    return ChatRequest(
        messages=[Message("user", TASK)],
        tools=[BASH],
        sampling=Sampling(**{"temperature": 0.0, "max_tokens": 200} | sampling),
    )


async def tokens(engine: Engine, request: ChatRequest) -> list[int]:
    """What /tokenize makes of a request."""
    upstream = engine._pool.upstreams[0]
    body = tokenize_body(request, model=engine.model, can=upstream.can)
    reply = await engine._transport.exchange("POST", upstream.url + "/tokenize", body)
    return msgspec.json.decode(reply.body)["tokens"]


class Real:
    """A server for `engine_on`."""

    def __init__(self, url: str) -> None:
        self.url = url


@pytest.fixture
async def engine(vllm):
    async with engine_on(Real(vllm)) as client:
        await client.start()
        yield client


async def test_the_check_finds_out_what_the_server_is(engine):
    upstream = engine._pool.upstreams[0]
    assert engine.model
    assert engine.window >= 4096
    assert engine.logprobs_mode == "raw_logprobs"
    assert upstream.version
    assert upstream.can.reasoning_only


@pytest.mark.parametrize("thinking", [None, True, False])
@pytest.mark.parametrize("tools", [[], [BASH]])
async def test_ids_logprobs_and_counts_agree(engine, thinking, tools):
    request = calling()
    request.thinking, request.tools = thinking, tools
    generation = await engine.generate(request)
    completion, choice = generation.completion, generation.completion.choices[0]
    assert len(choice.token_ids) == len(choice.logprobs) == completion.usage.completion_tokens > 0
    assert completion.prompt_token_ids.tolist() == await tokens(engine, request)
    assert len(completion.prompt_token_ids) == await engine.count(request) == completion.usage.prompt_tokens
    assert generation.check(choice) == (None, [])
    assert (choice.message.reasoning is None) == (thinking is False)


async def test_a_turn_given_back_as_it_came_extends_prompt_and_completion(engine):
    request = calling()
    first = (await engine.generate(request)).completion
    answer = first.choices[0].message
    assert answer.tool_calls
    request.messages += [answer, Message("tool", "", tool_call_id=answer.tool_calls[0].id)]
    second = (await engine.generate(request)).completion
    context = first.prompt_token_ids.tolist() + first.choices[0].token_ids
    assert second.prompt_token_ids.tolist()[: len(context)] == context
    assert "Done." in second.choices[0].message.content


@pytest.mark.parametrize("effort", [None, "low", "xhigh", "none", "ultra"])
async def test_an_effort_gives_the_same_prompt_in_chat_and_in_tokenize(engine, effort):
    request = calling(max_tokens=1)
    request.effort = effort
    completion = (await engine.generate(request)).completion
    assert completion.prompt_token_ids.tolist() == await tokens(engine, request)


async def test_reasoning_under_both_names_renders_the_same_ids(engine):
    history = [Message("user", "hi"), Message("assistant", "x", reasoning="I think."), Message("user", "go")]
    url = engine._pool.upstreams[0].url + "/v1/chat/completions"
    prompts = []
    for can in (Abilities(), Abilities(reasoning_only=True)):
        body = chat_body(ChatRequest(messages=history), model=engine.model, sampling={"max_tokens": 1}, can=can)
        prompts.append(decode((await engine._transport.exchange("POST", url, body)).body).prompt_token_ids.tolist())
    assert prompts[0] == prompts[1]
    assert "I think." in await engine.detokenize(prompts[0])


async def test_the_prompt_can_be_given_as_ids(engine):
    ids = await tokens(engine, calling())
    generation = await engine.generate(chat("something else", temperature=0.0, max_tokens=60), prompt_ids=ids)
    assert generation.completion.prompt_token_ids.tolist() == ids
    assert (
        generation.completion.choices[0].token_ids == (await engine.generate(calling())).completion.choices[0].token_ids
    )


async def test_o_errors_03_more_output_than_the_window_is_answered(engine):
    generation = await engine.generate(calling(max_tokens=10**7))
    assert generation.clamped
    assert generation.sampling["max_tokens"] < engine.window
    assert generation.completion.choices[0].finish_reason == "tool_calls"


@pytest.mark.parametrize("limits", [{}, {"max_tokens": 10}, {"max_tokens": 10**7}])
async def test_o_errors_01_an_overflow_tells_the_exact_size(engine, limits):
    request = chat("hello world " * engine.window, **limits)
    fault = await fault_from(engine, request)
    assert (fault.kind, fault.window) == (FaultKind.CONTEXT_OVERFLOW, engine.window)
    assert fault.prompt_tokens == await engine.count(request) > engine.window


async def test_a_call_cut_by_max_tokens_is_told(engine):
    whole = len((await engine.generate(calling())).completion.choices[0].token_ids)
    behind = await engine.generate(calling(max_tokens=whole - 1))
    inside = await engine.generate(calling(max_tokens=whole - 5))
    finishes = [g.completion.choices[0].finish_reason for g in (behind, inside)]
    assert finishes == ["tool_calls", "length"]
    for generation in (behind, inside):
        assert generation.check(generation.completion.choices[0]) == (None, [Warning.CUT_TOOL_CALL])


async def running_requests(url: str) -> float:
    async with aiohttp.ClientSession() as session, session.get(url + "/metrics") as response:
        found = re.findall(r"^vllm:num_requests_running\{.*\} ([\d.]+)$", await response.text(), re.MULTILINE)
        return sum(map(float, found))


async def reaches(url: str, condition: Callable[[float], bool], seconds: float = 20.0) -> bool:
    for _ in range(int(seconds * 10)):
        if condition(await running_requests(url)):
            return True
        await asyncio.sleep(0.1)
    return False


async def test_o_transport_05_a_cancelled_call_is_aborted_by_vllm(engine, vllm):
    ending = (await engine.generate(chat(temperature=0.0, max_tokens=60))).completion.choices[0].token_ids[-1]
    endless = chat(max_tokens=engine.window - 1000, logit_bias={str(ending): -100.0})
    assert await reaches(vllm, lambda running: running == 0)
    calls = [asyncio.create_task(engine.generate(endless)) for _ in range(3)]
    assert await reaches(vllm, lambda running: running >= 3)
    for call in calls:
        call.cancel()
    assert await reaches(vllm, lambda running: running == 0, seconds=5.0)
    assert all(call.cancelled() for call in calls)


@pytest.mark.parametrize("text", ["cut \ud83d", "a\x00b", "\u2028", "😀"], ids=ascii)
async def test_every_text_is_taken(engine, text):
    request = chat(text, max_tokens=1)
    generation = await engine.generate(request)
    assert generation.completion.prompt_token_ids.tolist() == await tokens(engine, request)


@pytest.mark.parametrize("arguments", ["", "{", "[1]", '{"command":"ls"}'])
async def test_o_req_chat_05_replayed_arguments_of_every_kind_are_taken(engine, arguments):
    request = calling(max_tokens=1)
    call = ToolCall("c1", "bash", arguments)
    request.messages += [Message("assistant", None, tool_calls=[call]), Message("tool", "", tool_call_id="c1")]
    assert (await engine.generate(request)).completion.prompt_token_ids.tolist() == await tokens(engine, request)


@pytest.mark.parametrize(
    "choice", [ToolChoice("auto"), ToolChoice("none"), ToolChoice("required"), ToolChoice("function", "bash")]
)
async def test_every_tool_choice_is_taken(engine, choice):
    request = calling()
    # Strict and finite: a call that is forced on a tiny model would else be any JSON, for as long as it likes.
    schema = {"type": "object", "properties": {"command": {"enum": ["ls", "pwd"]}}, "required": ["command"]}
    request.tools = [Tool("bash", "Run a command.", {**schema, "additionalProperties": False}, strict=True)]
    request.tool_choice = choice
    generation = await engine.generate(request)
    answer = generation.completion.choices[0]
    assert bool(answer.message.tool_calls) == (choice.mode != "none")
    assert generation.check(answer)[0] is None


async def test_every_sampling_parameter_is_taken(engine):
    asked = Sampling(
        temperature=0.7,
        top_p=0.9,
        top_k=20,
        min_p=0.01,
        presence_penalty=0.1,
        frequency_penalty=0.1,
        repetition_penalty=1.05,
        stop=["zzz"],
        logit_bias={"5": 1.0},
        max_tokens=5,
        n=2,
        top_logprobs=2,
    )
    generation = await engine.generate(ChatRequest(messages=[Message("user", "hi")], sampling=asked))
    first, second = generation.completion.choices
    assert (generation.check(first)[0], generation.check(second)[0]) == (None, None)
    shown = msgspec.json.decode(first.logprobs_content)
    assert [entry["logprob"] for entry in shown] == first.logprobs
    assert len(shown[0]["top_logprobs"]) >= 2


async def test_prefill_continues_the_last_message(engine):
    request = chat(max_tokens=5)
    request.messages.append(Message("assistant", "I can"))
    request.continue_final = True
    completion = (await engine.generate(request)).completion
    assert completion.prompt_token_ids.tolist() == await tokens(engine, request)
    assert (await engine.detokenize(completion.prompt_token_ids.tolist())).endswith("I can")


async def test_o_errors_04_a_bad_schema_is_the_clients_fault(engine):
    request = chat(max_tokens=5)
    request.response_format = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "foo"}}}
    assert (await fault_from(engine, request)).kind is FaultKind.INVALID


async def test_the_weights_that_sampled_are_named_where_the_server_tells(engine):
    version = await engine.weight_version()
    told = (await engine.generate(chat(max_tokens=2))).completion.choices[0].weight_versions
    assert told == (None if version is None else [{"version": version}])
