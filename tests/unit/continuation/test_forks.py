"""Why a call is not continued: edits, faults and limits; and what the engine makes of a plan."""

import numpy as np
import pytest

from polar_capture.chat import Choice, Completion, MediaPart, Message, Usage
from polar_capture.continuation.planner import Planner
from polar_capture.continuation.plans import Plan
from polar_capture.continuation.reasons import EXACT, OFF, ROOT, Fork
from polar_capture.faults import CallError, FaultKind
from tests.unit.continuation.builders import (
    Answered,
    Conversation,
    FakeEngine,
    begun,
    calling,
    counted,
    ids,
    late_tools,
    marked,
    nothing_stored,
    strips,
    tool,
)


@pytest.mark.parametrize("render", [counted, late_tools, marked])
async def test_a_template_that_is_not_append_only_always_forks(render):
    talk = Conversation(FakeEngine(render))
    talk.chat.tools = [tool("ls")]
    talk.say("hi")
    for _ in range(3):
        await talk.ask(Message("assistant", "fine", reasoning="hm"))
        talk.say("go")
    assert set(talk.outcomes[1:]) <= {Fork.NOT_APPEND_ONLY.stored, Fork.TEMPLATE.stored}


def edit_first(talk):
    talk.chat.messages[0].content = "hi!"


def edit_answer(talk):
    talk.chat.messages[1].content = "hello, changed"


def drop_first(talk):
    del talk.chat.messages[0]


def add_tool(talk):
    talk.chat.tools = [tool("ls")]


def add_system(talk):
    talk.chat.messages.insert(0, Message("system", "Be brief."))


def insert_unsampled(talk):
    talk.chat.messages += [Message("assistant", "by someone else"), Message("user", "?")]


def drop_new(talk):
    del talk.chat.messages[2:]


def prefill(talk):
    talk.chat.messages.append(Message("assistant", "It is"))
    talk.chat.continue_final = True


def picture(talk):
    talk.chat.messages[-1].content = [MediaPart("image_url", {"url": "data:image/png;base64,AA"})]


def join(talk):
    talk.chat.messages.insert(1, Message("assistant", "before that"))


@pytest.mark.parametrize(
    ("edit", "fork"),
    [
        (edit_first, Fork.HISTORY_EDITED),
        (drop_first, Fork.HISTORY_EDITED),
        (edit_answer, Fork.TURN_EDITED),
        (add_tool, Fork.TOOLS_CHANGED),
        (add_system, Fork.SYSTEM_CHANGED),
        (insert_unsampled, Fork.UNSAMPLED_TURN),
        (drop_new, Fork.NOTHING_NEW),
        (prefill, Fork.PREFILL),
        (picture, Fork.MULTIMODAL),
        (join, Fork.TURNS_JOINED),
    ],
)
async def test_an_edited_conversation_forks(edit, fork):
    talk = await begun()
    talk.say("go")
    edit(talk)
    assert (await talk.plan())[1].outcome == fork.stored
    assert not [chat for chat in talk.engine.renders if len(chat.messages) > 3], "nothing long is rendered in vain"


async def test_options_that_render_the_same_are_no_other_options():
    def thinks_by_default(chat, opens):
        return strips(chat, opens) + (ids("()") if opens and chat.thinking is False else [])

    talk = Conversation(FakeEngine(thinks_by_default))
    for thinking in (True, None, None, False, True):
        talk.chat.thinking = thinking
        talk.say("go")
        await talk.ask(calling("ls"), finish="tool_calls")
        talk.say("a.txt", "tool")
    changed = Fork.OPTIONS_CHANGED.stored
    assert talk.outcomes == [ROOT, EXACT, EXACT, changed, changed]


async def test_a_compacted_conversation_is_a_root_of_its_own():
    talk = await begun()
    talk.chat.messages = [Message("user", "Summary: they said hello. Go on.")]
    assert await talk.ask() == ROOT
    talk.say("go")
    assert await talk.ask() == EXACT


async def test_a_fork_is_continued_in_its_turn():
    talk = await begun()
    talk.say("go")
    edit_first(talk)
    await talk.ask()
    talk.say("on")
    assert await talk.ask() == EXACT
    assert talk.prompts[2][: len(talk.contexts[1])] == talk.contexts[1]


async def test_of_several_choices_none_is_continued():
    talk = await begun()
    talk.say("go")
    _, plan = await talk.plan()
    several = answered(talk.prompts[0])
    several.completion.choices *= 2
    talk.planner.remember("call-1", plan, EXACT, np.array([1], np.int32), several)
    talk.turns.add("call-1", [Message("assistant", "x"), Message("assistant", "y")], ["id-call-1"])
    talk.chat.messages += [Message("assistant", "y", echo=["id-call-1"]), Message("user", "and?")]
    assert await talk.ask() == Fork.PARENT_NOT_KEPT.stored


async def test_ids_that_fill_the_window_are_not_sent():
    talk = await begun(strips)
    talk.engine.window = len(talk.contexts[0]) + 5
    talk.say("go")
    assert await talk.ask() == Fork.WINDOW.stored


async def test_without_renders_the_call_goes_on_plainly():
    talk = await begun()
    talk.engine.fails = True
    talk.say("go")
    assert await talk.ask() == Fork.RENDER_FAILED.stored


# --- what the engine makes of it -----------------------------------------------------------------------------------


async def test_off_asks_nothing():
    talk = Conversation(FakeEngine(), mode="off")
    talk.say("hi")
    await talk.ask()
    talk.say("go")
    await talk.ask()
    assert (talk.outcomes, talk.engine.renders) == ([OFF, OFF], [])


async def test_auto_is_off_and_exact_is_refused_where_the_engine_cannot():
    engine = FakeEngine(takes=False)
    talk = Conversation(engine)
    talk.say("hi")
    assert await talk.ask() == OFF
    talk = Conversation(engine, mode="exact")
    talk.say("hi")
    with pytest.raises(CallError, match="--continuation exact needs") as refused:
        await talk.ask()
    assert refused.value.fault.kind is FaultKind.UNAVAILABLE


async def test_an_echo_that_differs_is_no_exact_turn_and_the_last_one_that_is_tried(caplog):
    talk = await begun()
    talk.say("go")
    _, plan = await talk.plan()
    other = answered([1, 2, 3])
    assert talk.planner.settle(plan, other) == Fork.ECHO_DIFFERS.stored
    assert "reports others (3)" in caplog.text
    assert await talk.ask() == OFF


async def test_refused_ids_are_a_fork_and_no_distrust():
    talk = await begun()
    talk.say("go")
    _, plan = await talk.plan()
    other = answered([1, 2, 3])
    other.ids_refused = True
    assert talk.planner.settle(plan, other) == Fork.REFUSED.stored
    assert talk.engine.takes


def answered(prompt: list[int]) -> Answered:
    choice = Choice(0, Message("assistant", "x"), "stop", None, [1], [-0.1])
    return Answered(Completion([choice], Usage(), "m", prompt))


def test_plans_without_ids_keep_their_outcome():
    planner = Planner(FakeEngine(), nothing_stored)
    assert planner.settle(Plan("fork:window"), None) == "fork:window"
