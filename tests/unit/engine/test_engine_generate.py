"""What a generation holds."""

import msgspec
import pytest

from polar_capture.chat import ChatRequest, Message, Sampling, Tool
from polar_capture.outcomes import Reason, Warning
from tests.double import Double, Step, toy
from tests.unit.engine.build import chat, engine_on, fault_from


async def test_ids_logprobs_and_what_was_sent():
    step = Step(reasoning="hm", tool_calls=[{"name": "ls", "arguments": '{"dir":"."}'}])
    async with Double([step]) as double, engine_on(double) as engine:
        request = chat(max_tokens=64, temperature=0.5)
        request.tools = [Tool("ls")]
        generation = await engine.generate(request)
        choice = generation.completion.choices[0]
        assert choice.token_ids == toy.answer_ids("hm", None, [("ls", '{"dir":"."}')], end=True)
        assert len(choice.logprobs) == len(choice.token_ids) == generation.completion.usage.completion_tokens
        assert generation.completion.prompt_token_ids.tolist() == toy.render(double.chats[0].body)
        assert len(generation.completion.prompt_token_ids) == await engine.count(request)
        assert msgspec.json.decode(generation.body_sent) == double.chats[0].body
        assert generation.sampling.items() <= double.chats[0].body.items()
        assert (generation.upstream, generation.check(choice)) == (double.url, (None, []))
        assert generation.upstream_ms > 0


async def test_a_turn_that_is_echoed_extends_the_one_before():
    async with (
        Double([Step(reasoning="hm", content="one"), Step(content="two")]) as double,
        engine_on(double) as engine,
    ):
        request = chat()
        first = (await engine.generate(request)).completion
        request.messages += [first.choices[0].message, Message("user", "go on")]
        second = (await engine.generate(request)).completion
        context = first.prompt_token_ids.tolist() + first.choices[0].token_ids
        assert second.prompt_token_ids.tolist()[: len(context)] == context


@pytest.mark.parametrize(("honoured", "prompt"), [(True, [1, 7, 9]), (False, None)])
async def test_exact_prompt_ids_are_used_by_servers_that_know_them(honoured, prompt):
    async with Double(honour_prompt_ids=honoured) as double, engine_on(double) as engine:
        completion = (await engine.generate(chat(), prompt_ids=[1, 7, 9])).completion
        assert completion.prompt_token_ids.tolist() == (prompt or toy.render(double.chats[0].body))


async def test_prompt_ids_are_not_in_the_body_that_is_kept():
    async with Double() as double, engine_on(double) as engine:
        generation = await engine.generate(chat(), prompt_ids=[1, 7, 9])
        assert generation.completion.prompt_token_ids.tolist() == [1, 7, 9]
        assert b"kv_transfer_params" not in generation.body_sent
        assert not generation.ids_refused


async def test_where_the_ids_are_refused_the_messages_are_asked_alone():
    def refuses(body, _number):
        return Step(status=400, error="Token id 9 is out of vocabulary") if "kv_transfer_params" in body else None

    async with Double(refuses) as double, engine_on(double) as engine:
        generation = await engine.generate(chat(), prompt_ids=[1, 7, 9])
        assert generation.ids_refused
        assert generation.completion.prompt_token_ids.tolist() == toy.render(double.chats[0].body)
        assert len(double.chats) == 2


async def test_another_refusal_is_not_asked_again_without_the_ids():
    async with (
        Double([Step(status=400, error="Grammar error: Invalid type: foo")]) as double,
        engine_on(double) as engine,
    ):
        assert (await fault_from(engine, prompt_ids=[1, 7, 9])).message == "Grammar error: Invalid type: foo"
        assert len(double.chats) == 1


async def test_a_render_is_the_prompt_of_the_same_chat():
    async with Double() as double, engine_on(double) as engine:
        request = chat("What is it?")
        prompt = (await engine.generate(request)).completion.prompt_token_ids.tolist()
        assert await engine.render(request) == prompt
        closed = await engine.render(request, add_generation_prompt=False)
        assert prompt[: len(closed)] == closed
        assert len(prompt) > len(closed)


@pytest.mark.parametrize("missing", ["prompt_token_ids", "token_ids"])
async def test_o_capture_03_missing_ids_stay_missing_and_nothing_is_tokenised(missing):
    async with Double([Step(missing=[missing])]) as double, engine_on(double) as engine:
        generation = await engine.generate(chat())
        choice = generation.completion.choices[0]
        assert generation.completion.prompt_token_ids is None or choice.token_ids is None
        assert generation.check(choice)[0] is Reason.IDS_MISSING
        assert not [r for r in double.requests if r.path == "/tokenize"]


@pytest.mark.parametrize(
    ("step", "reason"),
    [
        (Step(fewer_logprobs=1), Reason.LENGTH_MISMATCH),
        (Step(missing=["logprobs"]), Reason.LOGPROBS_MISSING),
        (Step(logprobs=[-0.1, -9999.0]), Reason.LOGPROB_INVALID),
        (Step(token_ids=[21, -1]), Reason.IDS_MISSING),
        (Step(weight_versions=[{"version": "v7", "start": 0, "end": 2}, {"version": "v8"}]), Reason.MIXED_POLICY),
    ],
)
async def test_an_unsound_answer_is_returned_with_its_reason(step, reason):
    async with Double([step]) as double, engine_on(double) as engine:
        generation = await engine.generate(chat())
        assert generation.completion.choices[0].message.content == "Hello."
        assert generation.check(generation.completion.choices[0])[0] is reason


async def test_o_capture_08_versions_before_and_after_are_told_apart():
    async with Double(weight_version="v7") as double, engine_on(double) as engine:
        await engine.start()
        steady = await engine.generate(chat())

        def updates(_body, _number):
            double.options.weight_version = "v8"
            return Step()

        double._choose = updates
        mixed = await engine.generate(chat())
        after = await engine.generate(chat())
    told = [[v["version"] for v in g.completion.choices[0].weight_versions] for g in (steady, mixed, after)]
    assert told == [["v7"], ["v7", "v8"], ["v8"]]
    reasons = [g.check(g.completion.choices[0])[0] for g in (steady, mixed, after)]
    assert reasons == [None, Reason.MIXED_POLICY, None]


async def test_o_capture_08_a_server_that_tells_versions_itself_is_believed():
    spans = [{"version": "v8", "start": 0, "end": 4}]
    async with Double([Step(weight_versions=spans)], weight_version="v7") as double, engine_on(double) as engine:
        assert await engine.weight_version() == "v7"
        assert (await engine.generate(chat())).completion.choices[0].weight_versions == spans
        double.options.weight_version = None
        assert await engine.weight_version() is None


async def test_o_capture_09_zeros_are_kept_and_told():
    async with Double([Step(content="x" * 20, logprobs=[0.0])]) as double, engine_on(double) as engine:
        generation = await engine.generate(chat())
        choice = generation.completion.choices[0]
        assert set(choice.logprobs) == {0.0}
        assert generation.check(choice) == (None, [Warning.LOGPROBS_ALL_ZERO])


async def test_a_call_cut_right_behind_its_end_is_told_by_its_last_id():
    step = Step(tool_calls=[{"name": "ls", "arguments": {}}], repeat=2)
    whole = len(toy.answer_ids(None, None, [("ls", "{}")], end=True))
    async with Double([Step(), step]) as double, engine_on(double) as engine:
        await engine.generate(chat(max_tokens=64))  # shows the id that ends a turn
        ended = await engine.generate(chat(max_tokens=whole))
        cut = await engine.generate(chat(max_tokens=whole - 1))
        assert ended.check(ended.completion.choices[0]) == (None, [])
        assert cut.completion.choices[0].finish_reason == "tool_calls"
        assert cut.check(cut.completion.choices[0]) == (None, [Warning.CUT_TOOL_CALL])


async def test_several_choices_are_each_sound():
    async with Double() as double, engine_on(double) as engine:
        generation = await engine.generate(ChatRequest(messages=[Message("user", "hi")], sampling=Sampling(n=2)))
        assert [generation.check(choice) for choice in generation.completion.choices] == [(None, [])] * 2


async def test_overrides_are_sent_and_recorded():
    async with Double() as double, engine_on(double, sampling={"temperature": 1.0}) as engine:
        generation = await engine.generate(chat(temperature=0.2))
        assert double.chats[0].body["temperature"] == generation.sampling["temperature"] == 1.0


async def test_detokenize_is_for_people():
    async with Double() as double, engine_on(double) as engine:
        assert await engine.detokenize([toy.START, *toy.encode("user")]) == "<|start|>user"
