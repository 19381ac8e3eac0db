"""Whose call it is: told, named by the history, or seen by how a conversation opens."""

from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polar_capture.chat import ChatRequest, Message, Tool
from polar_capture.dialects.base import Hints
from polar_capture.lineage.agents import Family, Place

TOOLS = [Tool("bash")]
_numbers = count()


def chat(system: str = "main rules", *, tools: bool = True, last: str = "user") -> ChatRequest:
    messages = [Message("system", system), Message("user", "do it")]
    if last == "tool":
        messages += [Message("assistant", "I run it"), Message("tool", "ran", tool_call_id="c")]
    return ChatRequest(messages=messages, tools=TOOLS if tools else [])


class Session:
    """A family, and calls made in it; each gives its id and place."""

    def __init__(self, harness: str | None = None) -> None:
        self.family, self.harness = Family(), harness

    def call(
        self, parent: str | None = None, *, waits: bool = False, request: ChatRequest | None = None, **hints: str
    ) -> tuple[str, Place]:
        call_id = f"call-{next(_numbers):012d}"
        place = self.family.place(call_id, Hints(**hints), request or chat(), parent, self.harness)  # type: ignore[arg-type]
        self.family.answered(call_id, waits)
        return call_id, place


def test_what_the_harness_tells_goes_first() -> None:
    session = Session()
    first, _ = session.call(harness="codex", agent="main", session="r")
    _, sub = session.call(first, harness="codex", agent="sub:t2", session="r")
    assert (sub.agent, sub.kind) == ("sub:t2", "turn")
    _, title = session.call(harness="claude-code", agent="aux:title", kind="side")
    assert (title.agent, title.kind) == ("aux:title", "side")


def test_a_history_of_ours_names_the_agent() -> None:
    session = Session()
    main, _ = session.call()
    sub, _ = session.call(agent="sub:7")
    assert session.call(main)[1].agent == "main"
    assert session.call(sub)[1].agent == "sub:7"


def test_of_an_unknown_client_every_conversation_is_the_main_one() -> None:
    session = Session()
    session.call()
    for request in (chat("other rules"), chat("no tools", tools=False)):
        _, place = session.call(request=request)
        assert (place.agent, place.kind) == ("main", "turn")


@pytest.mark.parametrize("harness", [None, "openhands"])
def test_of_a_known_harness_the_opening_tells(harness: str | None) -> None:
    session = Session(harness)
    told = {} if harness else {"harness": "gemini-cli"}
    main, place = session.call(**told)
    assert place.agent == "main"
    sub, place = session.call(request=chat("sub rules"), **told)
    assert place.agent == f"sub:{sub[-12:]}"
    assert place.kind == "turn"
    assert session.call(sub, request=chat("sub rules"), **told)[1].agent == place.agent
    assert session.call(main, **told)[1].agent == "main"
    assert session.call(**told)[1].agent == "main"  # after a compaction: nothing links it, but it opens the same
    _, helper = session.call(request=chat("a helper", tools=False), **told)
    assert (helper.agent, helper.kind) == ("aux:helper", "side")


def test_an_old_history_under_new_instructions_is_a_helpers() -> None:
    session = Session()
    main, _ = session.call(harness="qwen-code", agent="main", session="q")
    _, place = session.call(main, request=chat("keep memories"), harness="qwen-code", agent="main", session="q")
    assert (place.agent, place.kind) == ("aux:helper", "side")


def test_a_subagent_may_differ_in_its_tools_alone() -> None:
    session = Session("openhands")
    main, _ = session.call()
    other = ChatRequest(messages=chat().messages, tools=[Tool("bash"), Tool("task")])
    sub, place = session.call(request=other)
    assert place.agent == f"sub:{sub[-12:]}"
    assert session.call(main, request=other)[1].agent == "main"  # tools may change within a conversation


def test_opencodes_title_is_told_by_its_instructions() -> None:
    session = Session("opencode")
    title = chat("You are a title generator. You output only a title.", tools=False)
    assert session.call(request=title, harness="opencode", session="o")[1].agent == "aux:title"
    assert session.call(harness="opencode", session="o")[1].agent == "main"


@pytest.mark.parametrize(
    ("harness", "words"),
    [
        ("opencode", "You are a context summarization agent."),
        ("pi", "You are a context summarization assistant."),
        ("openhands", "You are maintaining a context-aware state summary."),
        ("aider", "*Briefly* summarize this partial conversation."),
    ],
)
def test_a_compaction_is_a_turn_of_the_main_agent(harness: str, words: str) -> None:
    session = Session(harness)
    _, _ = session.call(harness=harness)
    summary, place = session.call(request=chat(words, tools=False), harness=harness)
    assert (place.agent, place.kind) == ("main", "turn")
    assert session.call(summary, harness=harness)[1].agent == "main"
    unnamed = Session(harness)  # by its starter alone
    unnamed.call()
    assert unnamed.call(request=chat(words, tools=False))[1].kind == "turn"
    _, of_a_sub = session.call(request=chat(words, tools=False), harness=harness, agent="sub:2")
    assert of_a_sub.agent == "sub:2"


def test_a_history_that_was_dropped_with_its_instructions_is_the_main_agents() -> None:
    session = Session("openhands")
    session.call()
    bare = ChatRequest(messages=[Message("user", "the summary of all before")], tools=TOOLS)
    assert session.call(request=bare)[1].agent == "main"


def test_words_that_a_helper_said_as_well_do_not_make_a_helper() -> None:
    """OpenCode after a compaction: the summary in its history has the words of the title call."""
    session = Session("opencode")
    title, _ = session.call(request=chat("You are a title generator.", tools=False), harness="opencode")
    session.call(harness="opencode")
    _, place = session.call(title, harness="opencode")
    assert (place.agent, place.kind) == ("main", "turn")


def test_anonymous_subagents_are_told_apart_by_their_history() -> None:
    session = Session("copilot")
    session.call(harness="copilot")
    hint = {"harness": "copilot", "agent": "sub:conversation"}
    first, place = session.call(request=chat("explore"), **hint)
    assert place.agent == f"sub:{first[-12:]}"
    assert session.call(first, request=chat("explore"), **hint)[1].agent == place.agent
    other, second = session.call(request=chat("review"), **hint)
    assert second.agent == f"sub:{other[-12:]}"


def test_another_program_in_the_session_is_nested() -> None:
    session = Session()
    main, _ = session.call(harness="claude-code", agent="main", session="a", waits=True)
    nested, place = session.call()
    assert (place.agent, place.kind) == ("sub:program", "nested")
    assert session.call(nested)[1].kind == "nested"
    assert session.call(harness="codex", agent="main", session="b")[1].agent == "sub:codex"
    assert session.call(main, harness="claude-code", agent="main", session="a")[1].kind == "turn"


def test_the_same_harness_started_by_a_tool_is_nested_and_a_second_run_is_not() -> None:
    session = Session()
    _, _ = session.call(harness="claude-code", agent="main", session="a", waits=True)
    _, inner = session.call(harness="claude-code", agent="main", session="inner")
    assert inner.kind == "nested"
    assert session.call(harness="claude-code", agent="main", session="inner")[1].kind == "nested"
    later = Session()
    later.call(harness="claude-code", agent="main", session="a", waits=False)
    assert later.call(harness="claude-code", agent="main", session="b")[1].kind == "turn"


def test_a_tool_result_belongs_to_the_user_turn_before() -> None:
    session = Session()
    first, place = session.call()
    assert place.user_turn == first
    second, place = session.call(first, request=chat(last="tool"))
    assert place.user_turn == first
    third, place = session.call(second)
    assert place.user_turn == third
    assert session.call(third, user_turn="told")[1].user_turn == "told"


def test_a_session_that_is_read_back_knows_its_agents() -> None:
    session = Session()
    session.family.restore({"old": "sub:9"})
    assert session.call("old")[1].agent == "sub:9"


@given(st.lists(st.tuples(st.sampled_from(["a", "b", "c"]), st.booleans(), st.booleans()), max_size=12))
def test_the_first_agent_is_main_and_every_place_is_kept(calls: list[tuple[str, bool, bool]]) -> None:
    session = Session("gemini-cli")
    parent = None
    for number, (system, tools, follows) in enumerate(calls):
        call_id, place = session.call(parent if follows else None, request=chat(system, tools=tools))
        if number == 0:
            assert place.agent == "main"
        assert session.family.places[call_id] == place
        assert (place.kind == "side") == place.agent.startswith("aux:")
        parent = call_id
