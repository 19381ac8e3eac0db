"""What is continued, what forks and why: conversations with small templates, and no server."""

import asyncio

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polar_capture.chat import Choice, Completion, MediaPart, Message, Usage
from polar_capture.continuation.planner import Plan, Planner
from polar_capture.continuation.reasons import EXACT, OFF, ROOT, Fork
from polar_capture.faults import CallError, FaultKind
from tests.unit.continuation.builders import (
    ANSWER,
    END,
    OTHER_END,
    RESULT,
    USER,
    Answered,
    Conversation,
    FakeEngine,
    calling,
    closed,
    counted,
    grouped,
    ids,
    late_tools,
    marked,
    nothing_stored,
    roles,
    strips,
    tool,
)


async def conversation(render=closed, **options) -> Conversation:
    """One that has had its first answer."""
    talk = Conversation(FakeEngine(render), **options)
    talk.say("hi")
    assert await talk.ask(Message("assistant", "hello", reasoning="hm")) == ROOT
    return talk


async def test_the_next_prompt_is_context_and_tail():
    talk = await conversation()
    talk.say("go")
    assert await talk.ask() == EXACT
    tail = [ord("\n"), USER, *ids("go"), END, ord("\n"), ANSWER]
    assert talk.prompts[1] == talk.contexts[0] + tail


async def test_the_prompt_keeps_what_was_sampled_even_where_the_client_says_it_otherwise():
    talk = await conversation()
    talk.chat.messages[-1].content = "  hello\n"
    talk.say("go")
    assert await talk.ask() == EXACT
    assert talk.prompts[1][: len(talk.contexts[0])] == talk.contexts[0]


async def test_tool_results_and_questions_behind_a_call():
    talk = Conversation(FakeEngine())
    talk.chat.tools = [tool("ls"), tool("cat")]
    talk.say("hi")
    await talk.ask(calling("ls", "cat", reasoning="two"), finish="tool_calls")
    for text in ("a.txt", "its text"):
        talk.say(text, "tool")
    talk.say("and?")
    assert await talk.ask(calling("ls"), finish="tool_calls") == EXACT
    talk.say("b.txt", "tool")
    assert await talk.ask() == EXACT
    assert talk.prompts[2][: len(talk.contexts[1])] == talk.contexts[1]


async def test_thoughts_stay_in_the_context_of_a_template_that_drops_them():
    talk = await conversation(strips)
    talk.say("go")
    assert await talk.ask(Message("assistant", "yes", reasoning="again")) == EXACT
    assert ids("(hm)hello") == talk.prompts[1][len(talk.prompts[0]) :][:9]
    talk.say("more")
    assert await talk.ask() == EXACT
    assert talk.prompts[2][: len(talk.contexts[1])] == talk.contexts[1]


async def test_the_thoughts_of_a_whole_tool_loop_stay():
    talk = Conversation(FakeEngine(strips))
    talk.say("hi")
    for _ in range(3):
        await talk.ask(calling("ls", reasoning="let me see"), finish="tool_calls")
        talk.say("a.txt", "tool")
    await talk.ask(Message("assistant", "done", reasoning="enough"))
    talk.say("next")  # here the template drops four thoughts at once
    await talk.ask()
    assert talk.outcomes == [ROOT, EXACT, EXACT, EXACT, EXACT]


async def test_with_the_templates_way_a_dropped_thought_forks_and_the_rest_is_continued():
    talk = Conversation(FakeEngine(strips), keep_thinking=False)
    talk.say("hi")
    await talk.ask(calling("ls", reasoning="let me see"), finish="tool_calls")
    talk.say("a.txt", "tool")
    await talk.ask("done")
    talk.say("next")  # drops the thought before the last answer
    await talk.ask(Message("assistant", "yes", reasoning="hm"))
    talk.say("next")  # drops the last answer's own
    await talk.ask("no")
    talk.say("next")  # drops none
    await talk.ask()
    stripped = Fork.THINKING_STRIPPED.stored
    assert talk.outcomes == [ROOT, EXACT, stripped, stripped, EXACT]


async def test_a_sampled_mark_of_the_next_role_ends_the_answer():
    talk = Conversation(FakeEngine(roles))
    talk.say("hi")
    await talk.ask(calling("ls"), end=RESULT, finish="tool_calls")
    talk.say("a.txt", "tool")
    assert await talk.ask("fine", end=USER) == EXACT
    assert talk.prompts[1] == talk.contexts[0] + [*ids("a.txt"), ANSWER]
    talk.say("go")
    assert await talk.ask("fine", end=USER) == EXACT
    talk.say("a.txt", "tool")
    assert await talk.ask() == Fork.END_OF_TURN.stored


async def test_answers_behind_tool_results_that_have_no_mark_of_their_own():
    talk = Conversation(FakeEngine(grouped))
    talk.say("hi")
    await talk.ask(calling("ls"), finish="tool_calls")
    talk.say("a.txt", "tool")
    assert await talk.ask() == EXACT
    talk.say("go")
    assert await talk.ask() == EXACT
    talk.say("go on")
    assert await talk.ask() == EXACT


@pytest.mark.parametrize("finish", ["length", "tool_calls"])
async def test_a_cut_answer_is_closed_by_the_templates_own_ids(finish):
    talk = Conversation(FakeEngine())
    talk.say("hi")
    answer = Message("assistant", "I was ab") if finish == "length" else calling("ls")
    await talk.ask(answer, end=None, finish=finish, limit=8 if finish == "length" else 13)
    talk.say("go", "user" if finish == "length" else "tool")
    assert await talk.ask() == EXACT
    tail = talk.prompts[1][len(talk.contexts[0]) :]
    assert tail[:2] == [END, ord("\n")]


@pytest.mark.parametrize(
    ("answer", "how", "fork"),
    [
        ("so STOP", {"end": None, "stop": "STOP"}, Fork.STOP_STRING),
        ("so", {"end": OTHER_END}, Fork.END_OF_TURN),
        ("so", {"end": OTHER_END, "stop": OTHER_END}, Fork.END_OF_TURN),
        (calling("ls"), {"end": None, "finish": "tool_calls", "limit": 500}, Fork.END_OF_TURN),
    ],
)
async def test_an_answer_that_did_not_end_as_the_template_ends_one(answer, how, fork):
    talk = Conversation(FakeEngine())
    talk.say("hi")
    await talk.ask(answer, **how)
    talk.say("go")
    assert await talk.ask() == fork.stored


async def test_an_end_token_that_the_server_names_is_no_stop_string():
    talk = Conversation(FakeEngine())
    talk.say("hi")
    await talk.ask("so", stop=END)
    talk.say("go")
    assert await talk.ask() == EXACT


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


def switch_thinking(talk):
    talk.chat.thinking = False


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
        (switch_thinking, Fork.OPTIONS_CHANGED),
        (insert_unsampled, Fork.UNSAMPLED_TURN),
        (drop_new, Fork.NOTHING_NEW),
        (prefill, Fork.PREFILL),
        (picture, Fork.MULTIMODAL),
        (join, Fork.TURNS_JOINED),
    ],
)
async def test_an_edited_conversation_forks(edit, fork):
    talk = await conversation()
    talk.say("go")
    edit(talk)
    assert (await talk.plan())[1].outcome == fork.stored
    assert not [chat for chat in talk.engine.renders if len(chat.messages) > 3], "nothing long is rendered in vain"


async def test_a_compacted_conversation_is_a_root_of_its_own():
    talk = await conversation()
    talk.chat.messages = [Message("user", "Summary: they said hello. Go on.")]
    assert await talk.ask() == ROOT
    talk.say("go")
    assert await talk.ask() == EXACT


async def test_a_fork_is_continued_in_its_turn():
    talk = await conversation()
    talk.say("go")
    edit_first(talk)
    await talk.ask()
    talk.say("on")
    assert await talk.ask() == EXACT
    assert talk.prompts[2][: len(talk.contexts[1])] == talk.contexts[1]


async def test_branches_of_one_turn_are_both_continued():
    talk = await conversation()
    base = list(talk.chat.messages)
    for text in ("left", "right"):
        talk.chat.messages = [*base, Message("user", text)]
        assert await talk.ask() == EXACT
    assert talk.prompts[1][: len(talk.contexts[0])] == talk.prompts[2][: len(talk.contexts[0])] == talk.contexts[0]


async def test_agents_that_said_the_same_words_are_told_apart_by_what_they_were_asked():
    talk = Conversation(FakeEngine())
    for question in ("one", "two", "three"):
        talk.chat.messages = [Message("user", question)]
        await talk.ask("done")
    for place, question in reversed(list(enumerate(("one", "two", "three")))):
        talk.chat.messages = [Message("user", question), Message("assistant", "done"), Message("user", "go")]
        assert await talk.ask("good", echo=False) == EXACT
        assert talk.prompts[-1][: len(talk.contexts[place])] == talk.contexts[place]


async def test_of_several_choices_none_is_continued():
    talk = await conversation()
    talk.say("go")
    _, plan = await talk.plan()
    several = answered(talk.prompts[0])
    several.completion.choices *= 2
    talk.planner.remember("call-1", plan, EXACT, np.array([1], np.int32), several)
    talk.turns.add("call-1", [Message("assistant", "x"), Message("assistant", "y")], ["id-call-1"])
    talk.chat.messages += [Message("assistant", "y", echo=["id-call-1"]), Message("user", "and?")]
    assert await talk.ask() == Fork.PARENT_NOT_KEPT.stored


async def test_ids_that_fill_the_window_are_not_sent():
    talk = await conversation(strips)
    talk.engine.window = len(talk.contexts[0]) + 5
    talk.say("go")
    assert await talk.ask() == Fork.WINDOW.stored


async def test_without_renders_the_call_goes_on_plainly():
    talk = await conversation()
    talk.engine.fails = True
    talk.say("go")
    assert await talk.ask() == Fork.RENDER_FAILED.stored


async def test_the_whole_conversation_is_rendered_once_a_turn():
    talk = await conversation()
    for turn in range(4):
        talk.engine.renders.clear()
        talk.say(f"go {turn}")
        await talk.ask()
        whole = [chat for chat in talk.engine.renders if chat.messages[0].content == "hi"]
        assert len(talk.engine.renders) == (7 if turn == 0 else 3)
        assert len(whole) == 1


async def test_another_template_is_noticed_and_learned():
    talk = await conversation()
    talk.say("go")
    await talk.ask()
    talk.engine.template = roles
    talk.say("go")
    assert await talk.ask(end=USER) in (Fork.TEMPLATE.stored, Fork.NOT_APPEND_ONLY.stored)
    talk.say("go")
    assert await talk.ask(end=USER) == EXACT


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
    talk = await conversation()
    talk.say("go")
    _, plan = await talk.plan()
    other = answered([1, 2, 3])
    assert talk.planner.settle(plan, other) == Fork.ECHO_DIFFERS.stored
    assert "reports others (3)" in caplog.text
    assert await talk.ask() == OFF


async def test_refused_ids_are_a_fork_and_no_distrust():
    talk = await conversation()
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


# --- the invariant -------------------------------------------------------------------------------------------------

words = st.text(alphabet="ab\n ü🙂", max_size=6)
answers = st.builds(
    lambda content, thought, names: calling(*names, content=content or None, reasoning=thought or None),
    words,
    words,
    st.lists(st.sampled_from(["ls", "cat"]), max_size=2),
)
turns = st.lists(st.tuples(answers, st.booleans(), words.map(lambda text: text + "q"), st.booleans()), max_size=5)


@given(st.sampled_from([closed, roles, strips, grouped, counted, late_tools, marked]), turns, st.booleans())
@settings(max_examples=300, deadline=None)
def test_a_prompt_is_the_plain_render_or_the_context_and_a_tail_of_the_template(render, spoken, keeps):
    """Whatever is said: an exact prompt begins with the parent's context, and what follows ends the plain render."""

    async def talk_it_over():
        talk = Conversation(FakeEngine(render), keep_thinking=keeps)
        talk.chat.tools = [tool("ls"), tool("cat")]
        talk.say("hi")
        for answer, cut, question, asks in spoken:
            finish = "length" if cut else "tool_calls" if answer.tool_calls else "stop"
            await talk.ask(answer, end=None if cut else END, finish=finish)
            for _ in answer.tool_calls:
                talk.say("result", "tool")
            if asks or not answer.tool_calls:
                talk.say(question)
            chat, plan = await talk.plan()
            if plan.prompt_ids is None:
                continue
            tail = plan.prompt_ids[len(talk.contexts[-1]) :]
            plain = talk.engine.template(chat, True)
            assert plan.prompt_ids[: len(talk.contexts[-1])] == talk.contexts[-1]
            assert tail
            assert plain[-len(tail) :] == tail
            assert render not in (counted, marked)
            if not any(message.reasoning for message in chat.messages):
                assert plan.prompt_ids == plain

    asyncio.run(talk_it_over())
