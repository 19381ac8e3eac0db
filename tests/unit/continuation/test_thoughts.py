"""Thoughts that were cut: closed by the template's own ids where two derivations agree, else a fork."""

import numpy as np
import pytest

from polar_capture.chat import ChatRequest, Message
from polar_capture.continuation.reasons import EXACT, Fork
from polar_capture.continuation.tails import Ids
from polar_capture.continuation.thoughts import Closing, closed, closing
from tests.unit.continuation.builders import (
    ANSWER,
    END,
    ROLES,
    USER,
    Conversation,
    FakeEngine,
    ids,
    opened_thoughts,
    roles,
    said,
    strips,
)
from tests.unit.continuation.builders import closed as keeps

CUT = Message("assistant", None, reasoning="I was thi")


async def cut_in_a_thought(render, answer=CUT, *, sampled=None, **options) -> Conversation:
    """A turn that was cut inside its thought, and the next question."""
    talk = Conversation(FakeEngine(render), **options)
    talk.say("hi")
    await talk.ask(answer, end=None, finish="length", sampled=sampled or ids(f"({answer.reasoning}"))
    talk.say("go")
    await talk.ask()
    return talk


@pytest.mark.parametrize(("render", "end"), [(keeps, [END, ord("\n")]), (strips, [END, ord("\n")]), (roles, [])])
async def test_a_cut_thought_is_closed_by_the_templates_own_ids(render, end):
    talk = await cut_in_a_thought(render)
    assert talk.outcomes[1] == EXACT
    assert talk.prompts[1] == talk.contexts[0] + [ord(")"), *end, USER, *ids("go"), *talk.prompts[1][-len(end) - 1 :]]
    assert talk.prompts[1][-1] == ANSWER


async def test_the_conversation_goes_on_behind_it():
    talk = await cut_in_a_thought(strips)
    for _ in range(2):
        talk.say("on")
        await talk.ask(Message("assistant", "yes", reasoning="hm"))
    assert talk.outcomes[1:] == [EXACT] * 3
    assert talk.prompts[3][: len(talk.contexts[2])] == talk.contexts[2]


async def test_a_template_that_shows_the_last_answers_thought_alone():
    def last(chat: ChatRequest, opens: bool) -> list[int]:
        shown = max((i for i, m in enumerate(chat.messages) if m.role == "assistant"), default=-1)
        out: list[int] = []
        for index, message in enumerate(chat.messages):
            out += [ROLES[message.role], *said(message, thought=index == shown), END]
        return [*out, ANSWER] if opens else out

    talk = Conversation(FakeEngine(last))
    for _ in range(3):
        talk.say("go")
        await talk.ask(CUT, end=None, finish="length", sampled=ids("(I was thi"))
    assert talk.outcomes[1:] == [EXACT, EXACT]


async def test_a_thought_whose_mark_stands_in_the_prompt():
    talk = await cut_in_a_thought(opened_thoughts, sampled=ids("I was thi"))
    assert talk.outcomes[1] == EXACT
    assert talk.prompts[1][len(talk.contexts[0]) :][:2] == [ord(")"), END]


async def test_what_was_sampled_of_the_mark_is_not_written_again():
    talk = await cut_in_a_thought(keeps, sampled=ids("(I was thi)"))
    assert talk.outcomes[1] == EXACT
    assert talk.prompts[1][len(talk.contexts[0]) :][:2] == [END, ord("\n")]


async def test_other_ids_of_the_same_thought_are_closed_too():
    one_token = 0x200000
    talk = await cut_in_a_thought(keeps, sampled=[*ids("(I was "), one_token])
    assert talk.outcomes[1] == EXACT
    assert talk.prompts[1][len(talk.contexts[0]) :][:2] == [ord(")"), END]


async def test_a_mark_among_other_ids_of_the_same_thought_is_not_closed_twice():
    one_token = 0x200000
    talk = await cut_in_a_thought(keeps, sampled=[*ids("(I was "), one_token, ord(")")])
    assert talk.outcomes[1] == Fork.CUT_THOUGHT.stored


async def test_a_template_without_thoughts_closes_such_an_answer_as_any_other():
    def silent(chat: ChatRequest, opens: bool) -> list[int]:
        out: list[int] = []
        for message in chat.messages:
            out += [ROLES[message.role], *said(message, thought=False), END]
        return [*out, ANSWER] if opens else out

    talk = await cut_in_a_thought(silent)
    assert talk.outcomes[1] == EXACT
    assert talk.prompts[1][len(talk.contexts[0]) :][:2] == [END, USER]


async def test_a_template_that_shows_long_conversations_otherwise_closes_none():
    def at_first_silent(chat: ChatRequest, opens: bool) -> list[int]:
        out: list[int] = []
        for message in chat.messages:
            out += [ROLES[message.role], *said(message, thought=chat.messages[0].content == "hi"), END]
        return [*out, ANSWER] if opens else out

    talk = await cut_in_a_thought(at_first_silent)
    assert talk.outcomes[1].startswith("fork:")


@pytest.mark.parametrize(("sampled", "outcome"), [("(", EXACT), ("~", Fork.CUT_THOUGHT.stored)])
async def test_where_nothing_is_thought_yet_the_mark_must_have_been_sampled(sampled, outcome):
    talk = await cut_in_a_thought(keeps, Message("assistant", None), sampled=ids(sampled))
    assert talk.outcomes[1] == outcome


async def test_the_templates_way_with_thoughts_comes_first():
    talk = await cut_in_a_thought(strips, keep_thinking=False)
    assert talk.outcomes[1] == Fork.THINKING_STRIPPED.stored


async def test_it_costs_three_renders_of_the_conversation_and_four_short_ones_once():
    talk = Conversation(FakeEngine(keeps))
    counts = []
    for _ in range(3):
        talk.say("hi" if not talk.outcomes else "go")
        talk.engine.renders.clear()
        await talk.ask(CUT, end=None, finish="length", sampled=ids("(I was thi"))
        counts.append(len(talk.engine.renders))
    assert talk.outcomes == ["root", EXACT, EXACT]
    assert counts == [0, 7 + 7, 3 + 3]


# --- by hand -------------------------------------------------------------------------------------------------------

LEAD = [1, 2, 3]
OPEN, SHUT, STOP, LINE, DOT, DOT_LINE, LETTER = 20, 21, 22, 23, 24, 25, 26


def array(*values: int) -> Ids:
    return np.array(values, np.int32)


def thought(*words: int) -> Ids:
    return array(*LEAD, 9, OPEN, *words, LINE, SHUT, STOP)


def words(word: int) -> Ids:
    return array(*LEAD, 9, word, STOP)


KNOWN = closing(array(*LEAD), thought(30), thought(31), words(30), words(31))
HEAD, AFTER = array(5, 6), array(STOP, 1, 40, 9)


def test_a_closing_is_what_two_thoughts_end_with_alike():
    assert isinstance(KNOWN, Closing)
    assert KNOWN.opens.tolist() == [9, OPEN]
    assert KNOWN.closes.tolist() == [LINE, SHUT, STOP]
    assert (KNOWN.mark.tolist(), KNOWN.end) == ([LINE, SHUT], 1)


@pytest.mark.parametrize(
    ("renders", "fork"),
    [
        ((array(7), thought(30), thought(31), words(30), words(31)), Fork.NOT_APPEND_ONLY),
        ((array(*LEAD), words(30), words(31), words(30), words(31)), Fork.CUT_THOUGHT),
    ],
)
def test_renders_that_show_no_mark_give_no_closing(renders, fork):
    assert closing(*renders) is fork


def close(sampled: list[int], rendered: list[int], lettered: list[int], after: Ids = AFTER):
    """`rendered` and `lettered` are what stands between the thought's mark and the end of turn."""
    assert isinstance(KNOWN, Closing)
    whole, longer = (array(*HEAD, 9, OPEN, *part, STOP) for part in (rendered, lettered))
    found = closed(KNOWN, HEAD, array(9), array(*sampled), whole, longer, after)
    return found if isinstance(found, Fork) else found.tolist()


@pytest.mark.parametrize(
    ("sampled", "rendered", "lettered", "mark"),
    [
        ([OPEN, 50], [50, LINE, SHUT], [50, LETTER, LINE, SHUT], [LINE, SHUT]),
        ([OPEN, 50, LINE], [50, LINE, SHUT], [50, LINE, LETTER, LINE, SHUT], [SHUT]),
        ([OPEN, 50, LINE, SHUT], [50, LINE, SHUT], [50, LETTER, LINE, SHUT], []),
        # The tokenizer joins a full stop and the newline behind it.
        ([OPEN, 50, DOT_LINE], [50, DOT_LINE, SHUT], [50, DOT_LINE, LETTER, LINE, SHUT], [SHUT]),
        ([OPEN, 50, DOT], [50, DOT_LINE, SHUT], [50, DOT, LETTER, LINE, SHUT], [LINE, SHUT]),
        # Other ids for the same words.
        ([OPEN, 51, 52], [50, LINE, SHUT], [50, LETTER, LINE, SHUT], [LINE, SHUT]),
        ([OPEN, 51, 52, SHUT], [50, LINE, SHUT], [50, LETTER, LINE, SHUT], Fork.CUT_THOUGHT),
        # The two derivations disagree.
        ([OPEN, 50], [50, SHUT, LINE], [50, LETTER, SHUT, LINE], Fork.CUT_THOUGHT),
        ([OPEN, 51], [50, LINE, SHUT], [50, LETTER, SHUT], Fork.CUT_THOUGHT),
        # No id of the mark is the mark's alone.
        ([OPEN, 51], [LINE, SHUT, LINE, SHUT], [SHUT, LINE, LETTER, LINE, SHUT], Fork.CUT_THOUGHT),
    ],
)
def test_a_mark_is_the_rest_of_the_render_or_what_follows_a_letter(sampled, rendered, lettered, mark):
    assert close(sampled, rendered, lettered) == mark


def test_a_last_answer_that_ends_in_its_own_way_is_not_closed():
    found = close([OPEN, 50], [50, LINE, SHUT], [50, LETTER, LINE, SHUT], array(LINE, 1, 40, 9))
    assert found is Fork.CUT_THOUGHT
