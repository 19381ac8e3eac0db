"""Every member of `outcomes.Break`, by what the two conversations say and by the tokens alone."""

import pytest

from polar_capture.outcomes import Break
from tests.unit.trajectories.builders import END, build, call, opening, said, then

U = ("user", "fix it")
A = {"role": "assistant", "content": "done"}
THINKING = {**A, "reasoning": "hm"}
TOOL = ("tool", "out")
FIRST = opening(20, 21, 22, 23)
TURN = [50, 51, END]


def called(arguments):
    return {"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "f", "arguments": arguments}}]}


def one_break(first, second, **conversations):
    """The break of the second call, given (prompt, completion) of both and what they said."""
    kinds = [
        row if not isinstance(row, tuple) else call(f"c{i}", row[0], row[1]) for i, row in enumerate((first, second))
    ]
    samples, report = build(*kinds, conversations={f"c{k[-1]}": v for k, v in conversations.items()})
    found = [(b.break_, b.at, b.tokens) for s in samples for b in s.breaks if b.call_id == "c1"]
    assert sum(report.breaks.values()) == 1
    return found[0] if found else next(iter(report.breaks))


CHANGED_COPY = [*FIRST, 50, 59, END, *then(60)]
BY_MESSAGES = {
    Break.RETOKENISED: (CHANGED_COPY, said(U, answer=A), said(U, A, TOOL)),
    Break.THINKING_DROPPED: ([*FIRST, 51, END, *then(60)], said(U, answer=THINKING), said(U, A, TOOL)),
    Break.ARGUMENTS_RESERIALISED: (
        CHANGED_COPY,
        said(U, answer=called('{"a": 1}')),
        said(U, called('{"a":1}'), TOOL),
    ),
    Break.HISTORY_EDITED: (CHANGED_COPY, said(U, answer=A), said(U, {**A, "content": "other"}, TOOL)),
    Break.COMPACTION: (
        opening(20, 90, 91),
        said(U, A, TOOL, A, TOOL, answer=A),
        said(("user", "summary so far")),
    ),
    Break.SYSTEM_CHANGED: (
        [900, 99, *FIRST[2:], *TURN, *then(60)],
        said(U, answer=A, system="one"),
        said(U, A, TOOL, system="two"),
    ),
    Break.TOOLS_CHANGED: (
        [900, 99, *FIRST[2:], *TURN, *then(60)],
        said(U, answer=A, tools=[{"name": "a"}]),
        said(U, A, TOOL, tools=[{"name": "b"}]),
    ),
    Break.NEW_CONVERSATION: (opening(70, 71), said(U, answer=A), said(("user", "something else"))),
    Break.EMPTY_TURN: None,
    Break.RETRY: None,
    Break.TRUNCATED_TURN: None,
    Break.CAPTURE_GAP: None,
}


@pytest.mark.parametrize("member", [m for m, case in BY_MESSAGES.items() if case is not None])
def test_the_messages_name_the_cause(member):
    prompt, before, after = BY_MESSAGES[member]
    name, at, tokens = one_break((FIRST, TURN), (prompt, [52, END]), c0=before, c1=after)
    assert name == member
    whole = FIRST + TURN
    assert at == next(i for i, (x, y) in enumerate(zip(whole, prompt, strict=False)) if x != y)
    assert tokens == len(whole) - at


BY_TOKENS = {
    Break.RETOKENISED: CHANGED_COPY,
    Break.THINKING_DROPPED: [*FIRST, 51, END, *then(60)],
    Break.HISTORY_EDITED: opening(20, 21, 22, 29) + TURN + then(60),
    Break.COMPACTION: opening(*TURN),
    Break.NEW_CONVERSATION: opening(70),
}


@pytest.mark.parametrize("member", BY_TOKENS)
def test_the_tokens_alone_name_the_cause(member):
    assert one_break((FIRST, TURN), (BY_TOKENS[member], [52, END]))[0] == member


def test_the_same_messages_rendered_otherwise_are_an_edit_and_not_drift_of_a_sampled_turn():
    prompt = [*opening(20, 21, 22, 29), *TURN, *then(60)]
    samples, _ = build(
        call("c0", FIRST, TURN),
        call("c1", prompt, [52, END]),
        conversations={"c0": said(U, answer=A), "c1": said(U, A, TOOL)},
    )
    assert [b.break_ for b in samples[1].breaks] == [Break.HISTORY_EDITED]
    assert samples[1].verdict == "exact"


def test_a_retry_is_the_same_prompt_again():
    assert one_break((FIRST, TURN), (FIRST, [52, END])) == (Break.RETRY, len(FIRST), 3)


def test_an_empty_turn_can_not_be_continued():
    assert one_break((FIRST, []), (FIRST + then(60), [52, END])) == (Break.EMPTY_TURN, len(FIRST), 0)


def test_a_truncated_turn_that_came_back_otherwise():
    cut = call("c0", FIRST, [50, 51, 52], finish_reason="length")
    assert one_break(cut, ([*FIRST, 50, 59, END, *then(60)], [53, END]))[0] == Break.TRUNCATED_TURN


def test_a_call_without_ids_is_a_gap_only_for_what_went_on_behind_it():
    rows = [
        call("c0", FIRST, TURN),
        call("c1", None, None, agent="sub:a"),
        call("c2", FIRST + TURN + then(60), [52, END]),
    ]
    assert build(*rows)[1].breaks == {}
    rows[1].agent = "main"
    assert build(*rows)[1].breaks == {"capture_gap": 1}
    rows[1].status = "error"
    assert build(*rows)[1].breaks == {}


def test_every_member_has_its_test():
    assert set(BY_MESSAGES) == set(Break)


def test_a_sub_agent_starts_a_conversation_and_the_main_agent_goes_on():
    samples, report = build(
        call("c0", FIRST, TURN),
        call("c1", opening(20, 21, 70), [60, END], agent="sub:a"),
        call("c2", FIRST + TURN + then(60), [52, END]),
        call("c3", [*opening(20, 21, 70), 60, END, *then(61)], [53, END], agent="sub:a"),
    )
    assert [s.agent for s in samples] == ["main", "sub:a"]
    assert [s.verdict for s in samples] == ["exact", "exact"]
    assert report.breaks == {"new_conversation": 1}


def test_a_sub_agent_that_was_given_the_parents_history_is_a_branch_without_a_break():
    samples, report = build(
        call("c0", FIRST, TURN),
        call("c1", FIRST + TURN + then(60), [52, END]),
        call("c2", FIRST + TURN + then(70), [53, END], agent="sub:a"),
    )
    assert report.breaks == {}
    assert [s.loss_mask.sum() for s in samples] == [5, 2]
    assert [[span.trained for span in s.turn_spans] for s in samples] == [[True, True], [False, True]]


def test_thinking_is_looked_for_behind_a_few_template_tokens_only_where_there_was_some():
    before, after = said(U, answer=THINKING), said(U, THINKING, ("user", "next"))
    turn = [30, 33, 31, 50, 51, END]
    replay = [*FIRST, 30, 198, 31, 50, 51, END, *then(21, role=10)]
    assert one_break((FIRST, turn), (replay, [52, END]), c0=before, c1=after)[0] == Break.THINKING_DROPPED
    assert one_break((FIRST, turn), (replay, [52, END]))[0] == Break.RETOKENISED


def test_a_hint_names_the_predecessor_among_equals():
    samples, _ = build(
        call("c0", FIRST, TURN),
        call("c1", FIRST, [58, END]),
        call("c2", [*FIRST, 59, END, *then(60)], [52, END], parent_call_id="c0"),
    )
    assert samples[2].breaks[0].predecessor == "c0"
