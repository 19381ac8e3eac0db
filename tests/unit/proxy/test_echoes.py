"""A turn that a harness says back in its own way is, for the engine, the turn that was sampled."""

import itertools
import json

import pytest

from tests.double import Double, Step
from tests.echoes import HARNESSES, shared
from tests.proxying import proxy

TEXT = "  I look.\u2028 e\u0301 👍 \n "
THOUGHT = "\nHm, \u2029 let me see.  "
ARGUMENTS = '{ "timeout":1000.0,\n "command":"\\u0068\\/ ls -l 👍"}'
STEPS = [
    Step(TEXT, reasoning=THOUGHT, tool_calls=[{"name": "bash", "arguments": ARGUMENTS}]),
    Step("Done. ", reasoning=THOUGHT),
    Step("Bye."),
]


@pytest.mark.parametrize("mode", ["off", "auto"])
@pytest.mark.parametrize("harness", HARNESSES)
async def test_an_echoed_turn_is_rendered_as_it_was_sampled(harness: str, mode: str):
    api, echo = HARNESSES[harness]
    async with Double() as vllm, proxy(vllm.url, continuation=mode) as running:
        vllm.push(*STEPS)
        history = api.asked("Use the tool.")
        for _ in STEPS:
            status, body, _ = await running.answer("POST", api.url, json=api.body(history, "bash"))
            assert status == 200, body
            answer = json.loads(body)
            history += api.echoed(answer, echo)
            history += api.results(answer, "a.txt") or api.asked("And now?")
        rows = await running.calls()
        sent = vllm.chats[-1].body["messages"]
    first, second = [message for message in sent if message["role"] == "assistant"]
    assert (first["content"], first["reasoning"]) == (TEXT, THOUGHT)
    assert first["tool_calls"][0]["function"]["arguments"] == ARGUMENTS
    assert (second["content"], second["reasoning"]) == ("Done. ", THOUGHT)
    for before, row in itertools.pairwise(rows):
        context = before["prompt_ids"] + before["completion_ids"]
        assert row["parent_call_id"] == before["id"]
        if mode == "auto":
            assert row["continuation"] == "exact"
            assert row["prompt_ids"][: len(context)] == context
        assert row["prefix_len"] == shared(context, row["prompt_ids"])
