"""What is continued, what forks and why: conversations with small templates, and no server."""

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polar_capture.chat import Message
from polar_capture.continuation.reasons import EXACT, ROOT, Fork
from tests.unit.continuation.builders import (
    ANSWER,
    END,
    OTHER_END,
    RESULT,
    USER,
    Conversation,
    FakeEngine,
    begun,
    calling,
    closed,
    counted,
    grouped,
    ids,
    late_tools,
    marked,
    opened_thoughts,
    roles,
    said,
    strips,
    tool,
)


async def test_the_next_prompt_is_context_and_tail():
    talk = await begun()
    talk.say("go")
    assert await talk.ask() == EXACT
    tail = [ord("\n"), USER, *ids("go"), END, ord("\n"), ANSWER]
    assert talk.prompts[1] == talk.contexts[0] + tail


async def test_the_prompt_keeps_what_was_sampled_even_where_the_client_says_it_otherwise():
    talk = await begun()
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
    talk = await begun(strips)
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


async def test_branches_of_one_turn_are_both_continued():
    talk = await begun()
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


async def test_the_whole_conversation_is_rendered_once_a_turn():
    talk = await begun()
    for turn in range(4):
        talk.engine.renders.clear()
        talk.say(f"go {turn}")
        await talk.ask()
        whole = [chat for chat in talk.engine.renders if chat.messages[0].content == "hi"]
        assert len(talk.engine.renders) == (7 if turn == 0 else 3)
        assert len(whole) == 1


async def test_another_template_is_noticed_and_learned():
    talk = await begun()
    talk.say("go")
    await talk.ask()
    talk.engine.template = roles
    talk.say("go")
    assert await talk.ask(end=USER) in (Fork.TEMPLATE.stored, Fork.NOT_APPEND_ONLY.stored)
    talk.say("go")
    assert await talk.ask(end=USER) == EXACT


# --- the invariant -------------------------------------------------------------------------------------------------

words = st.text(alphabet="ab\n ü🙂", max_size=6)
answers = st.builds(
    lambda content, thought, names: calling(*names, content=content or None, reasoning=thought or None),
    words,
    words,
    st.lists(st.sampled_from(["ls", "cat"]), max_size=2),
)
cuts = st.none() | st.integers(1, 20)
turns = st.lists(st.tuples(answers, cuts, words.map(lambda text: text + "q"), st.booleans()), max_size=5)


def cut_off(answer: Message, length: int) -> tuple[Message, list[int]]:
    """What a server makes of an answer that is cut behind so many ids, and these."""
    sampled = said(answer)[: max(1, length)]
    text = "".join(map(chr, sampled))
    thought, closed_it, words_said = text[1:].partition(")") if text.startswith("(") else ("", ")", text)
    return Message("assistant", (words_said or None) if closed_it else None, reasoning=thought or None), sampled


@given(
    st.sampled_from([closed, roles, strips, grouped, opened_thoughts, counted, late_tools, marked]),
    turns,
    st.booleans(),
)
@settings(max_examples=400, deadline=None)
def test_a_prompt_is_the_plain_render_or_the_context_and_a_tail_of_the_template(render, spoken, keeps):
    """Whatever is said, and wherever it is cut: an exact prompt begins with the parent's context, what follows ends the
    plain render, but for the end of a thought that the template drops, and each thought is closed once."""
    opened = render is opened_thoughts

    async def talk_it_over():
        talk = Conversation(FakeEngine(render), keep_thinking=keeps)
        talk.chat.tools = [tool("ls"), tool("cat")]
        talk.say("hi")
        for answer, cut, question, asks in spoken:
            if cut is None:
                finish = "tool_calls" if answer.tool_calls else "stop"
                sampled = [*said(answer), END]
            else:
                finish = "length"
                answer, sampled = cut_off(answer, cut)
            if opened:  # the prompt holds the mark that opens a thought
                sampled = sampled[1:] if sampled[:1] == [ord("(")] else [ord(")"), *sampled]
            if not sampled:
                continue
            await talk.ask(answer, finish=finish, sampled=sampled)
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
            hidden = render is strips or not answer.reasoning
            ends = tail[1:] if tail[0] == ord(")") and hidden else tail
            assert plain[len(plain) - len(ends) :] == ends
            assert render not in (counted, marked)
            assert plan.prompt_ids.count(ord("(")) == plan.prompt_ids.count(ord(")")) + opened
            if not any(message.reasoning for message in chat.messages) and cut is None:
                assert len(plan.prompt_ids) >= len(plain)

    asyncio.run(talk_it_over())
