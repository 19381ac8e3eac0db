"""Sampling while the last of a plan is proved: nothing is kept of what was sampled from ids that prove wrong."""

import asyncio

import numpy as np
import pytest

from polar_capture.continuation.plans import Plan, sampled
from polar_capture.continuation.reasons import EXACT, Fork
from polar_capture.faults import CallError, Fault, FaultKind
from tests.double import Double, Step
from tests.proxying import proxy
from tests.unit.continuation.builders import begun, closed, counted, strips
from tests.unit.continuation.test_lineages import Client, continues, user

PLAIN = np.array([1, 2], np.int32)


class Engine:
    """Notes what it is asked; answers behind `seconds`."""

    def __init__(self, seconds: float = 0.0, fault: CallError | None = None) -> None:
        self.asked: list[list[int] | None] = []
        self.cancelled = 0
        self._seconds, self._fault = seconds, fault

    async def generate(self, ids: list[int] | None) -> str:
        self.asked.append(ids)
        try:
            await asyncio.sleep(self._seconds)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        if self._fault is not None and ids is not None:
            raise self._fault
        return "by ids" if ids else "plainly"


def plan(found, engine: Engine | None = None) -> Plan:
    async def check():
        await asyncio.sleep(0.01)
        assert engine is None or engine.asked, "the engine samples meanwhile"
        if isinstance(found, CallError):
            raise found
        return found

    return Plan(EXACT, [7, 8], check=check)


FAULT = CallError(Fault(FaultKind.UPSTREAM, "no render today"))


async def test_the_engine_samples_while_the_plan_is_proved():
    engine = Engine(0.02)
    settled, answer = await sampled(plan(PLAIN, engine), engine.generate)
    assert (settled.outcome, settled.prompt_ids, settled.check, answer) == (EXACT, [7, 8], None, "by ids")
    assert settled.plain is PLAIN
    assert engine.asked == [[7, 8]]


@pytest.mark.parametrize(("found", "outcome"), [(Fork.TEMPLATE, Fork.TEMPLATE), (FAULT, Fork.RENDER_FAILED)])
@pytest.mark.parametrize("seconds", [0.0, 60.0])
async def test_what_was_sampled_from_wrong_ids_is_thrown_away(found, outcome, seconds):
    engine = Engine(seconds)

    async def generate(ids: list[int] | None) -> str:
        return await engine.generate(ids) if ids else "plainly"

    settled, answer = await sampled(plan(found), generate)
    assert (settled.outcome, settled.prompt_ids, answer) == (outcome.stored, None, "plainly")
    assert engine.cancelled == (seconds > 0)


async def test_a_fault_of_sampling_from_wrong_ids_is_nobodys():
    engine = Engine(fault=FAULT)
    settled, answer = await sampled(plan(Fork.TEMPLATE), engine.generate)
    assert (settled.outcome, answer) == (Fork.TEMPLATE.stored, "plainly")


async def test_a_fault_of_sampling_is_the_calls():
    with pytest.raises(CallError, match="no render today"):
        await sampled(plan(PLAIN), Engine(fault=FAULT).generate)


async def test_a_client_that_leaves_ends_the_sampling():
    engine = Engine(60.0)
    work = asyncio.create_task(sampled(plan(PLAIN), engine.generate))
    await asyncio.sleep(0.005)
    work.cancel()
    await asyncio.gather(work, return_exceptions=True)
    await asyncio.sleep(0)
    assert (work.cancelled(), engine.cancelled) == (True, 1)


@pytest.mark.parametrize(
    ("render", "keeps", "later"), [(closed, True, [False, True, True]), (strips, False, [False] * 3)]
)
async def test_a_template_is_proved_once_before_a_plan_is_trusted(render, keeps, later):
    talk = await begun(render, keep_thinking=keeps)
    found = []
    for _ in range(3):
        talk.say("go")
        found.append((await talk.planned())[1].check is not None)
        await talk.ask()
    assert found == later


async def test_a_refusal_takes_the_trust_away():
    talk = await begun()
    for _ in range(2):
        talk.say("go")
        assert await talk.ask() == EXACT
    talk.engine.template = counted
    talk.say("go")
    assert (await talk.ask()).startswith("fork:")
    talk.say("go")
    assert (await talk.planned())[1].check is None


async def test_through_the_proxy_a_template_that_changes_costs_a_generation_and_no_row():
    async with Double(lambda _body, _number: Step(content="fine")) as vllm, proxy(vllm.url) as running:
        client = Client(running, user("hi"))
        for _ in range(3):
            await client.ask()
            client.says("go")
        asked = len(vllm.chats)
        plainly = vllm._render
        vllm._render = lambda body: [1] * (len(body["messages"]) > 3) + plainly(body)  # type: ignore[method-assign]
        await client.ask()
        assert len(vllm.chats) == asked + 2
        client.says("go")
        await client.ask()
        rows = await running.calls()
    assert [row["continuation"] for row in rows] == ["root", EXACT, EXACT, Fork.NOT_APPEND_ONLY.stored, EXACT]
    assert rows[3]["prompt_ids"][:2] == [1, 1], "the row holds the render that was sampled from"
    assert continues(rows[4], rows[3])
