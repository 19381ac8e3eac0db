"""The double itself: its template is append-only, its faults are what they say."""

import aiohttp
import pytest
import requests
from hypothesis import given
from hypothesis import strategies as st

from tests.double import Double, Script, Step, running, toy

text = st.text(st.characters(codec="utf-8"), max_size=20)
turn = st.tuples(st.none() | text, text, st.lists(st.dictionaries(text, text, max_size=2), max_size=2))


@given(st.lists(turn, min_size=1, max_size=4), st.booleans())
def test_a_turn_echoed_as_sampled_extends_prompt_and_completion(turns, thinks):
    body = {"messages": [{"role": "user", "content": "hi"}], "chat_template_kwargs": {"enable_thinking": thinks}}
    for reasoning, content, calls in turns:
        thought = reasoning if thinks else None
        sampled = [("ls", toy.arguments_text(arguments)) for arguments in calls]
        context = toy.render(body) + toy.answer_ids(thought, content, sampled, end=True)
        functions = [{"function": {"name": name, "arguments": arguments}} for name, arguments in sampled]
        body["messages"] += [
            {"role": "assistant", "content": content, "reasoning": thought, "tool_calls": functions},
            {"role": "user", "content": "go on"},
        ]
        assert toy.render(body)[: len(context)] == context


@given(text)
def test_the_tokenizer_gives_back_every_text(value):
    assert toy.decode(toy.encode(value)) == value


@given(st.none() | text.filter(bool), text, st.lists(st.dictionaries(text, text, max_size=2), max_size=2))
def test_sampled_ids_are_parsed_to_what_was_sampled(reasoning, content, calls):
    sampled = [("ls", toy.arguments_text(arguments)) for arguments in calls]
    parsed = toy.parse(toy.answer_ids(reasoning, content, sampled, end=True))
    assert parsed == (reasoning, content or None, sampled)


async def ask(double: Double, **fields):
    body = {"model": "toy", "messages": [{"role": "user", "content": "hi"}], "return_token_ids": True, "logprobs": True}
    async with (
        aiohttp.ClientSession() as session,
        session.post(double.url + "/v1/chat/completions", json=body | fields) as response,
    ):
        return await response.json()


async def test_steps_are_used_in_order_and_then_the_default_answers():
    async with Double([Step(content="one", repeat=2), Step(content="two")]) as double:
        said = [(await ask(double))["choices"][0]["message"]["content"] for _ in range(4)]
    assert said == ["one", "one", "two", "Hello."]


async def test_max_tokens_cuts_an_answer():
    whole = toy.answer_ids(None, None, [("ls", "{}")], end=True)
    async with Double([Step(content="abcdef"), Step(tool_calls=[{"name": "ls", "arguments": {}}])]) as double:
        cut = (await ask(double, max_tokens=2))["choices"][0]
        behind = (await ask(double, max_tokens=len(whole) - 1))["choices"][0]
    assert (cut["message"]["content"], cut["finish_reason"], len(cut["token_ids"])) == ("abcd", "length", 2)
    assert (behind["finish_reason"], behind["token_ids"][-1]) == ("tool_calls", toy.END_CALL)


@pytest.mark.parametrize(
    ("options", "fields"),
    [
        ({"system_first": True}, {"messages": [{"role": "user", "content": "a"}, {"role": "system", "content": "b"}]}),
        ({"alternation": True}, {"messages": [{"role": "user", "content": "a"}, {"role": "user", "content": "b"}]}),
        ({"known_keys": True}, {"cache_control": {}}),
        ({"window": 4096, "reject_overrun": True}, {"max_tokens": 4095}),
        ({"window": 4096}, {"max_tokens": 4097}),
        ({}, {"tools": []}),
        ({}, {"model": "other"}),
        ({}, {"stream_options": {"include_usage": True}}),
    ],
)
async def test_a_strict_double_refuses(options, fields):
    async with Double(**options) as double:
        assert "error" in await ask(double, **fields)


def test_the_process_plays_a_script_and_keeps_a_log():
    with running(Script(steps=[Step(content="scripted")])) as double:
        body = {"messages": [{"role": "user", "content": "hi"}]}
        answer = requests.post(double.url + "/v1/chat/completions", json=body, timeout=10).json()
        assert answer["choices"][0]["message"]["content"] == "scripted"
        assert double.chats()[0].body == body
