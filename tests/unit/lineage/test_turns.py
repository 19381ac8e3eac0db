"""What harnesses do to a sampled turn, and what is put back."""

import pytest

from polar_capture.chat import Message, ToolCall
from polar_capture.lineage.turns import TurnBook

SAMPLED = Message(
    "assistant",
    content="\n\nListing.  ",
    reasoning="\nI need a listing.\n",
    tool_calls=[ToolCall("call_x", "ls", '{"b": 1,"a":"é"}')],
)


def book(**turns: tuple[Message, list[str]]) -> TurnBook:
    built = TurnBook()
    for call_id, (message, minted) in turns.items():
        built.add(call_id, [message], minted)
    return built


def echo(content="\n\nListing.  ", reasoning="\nI need a listing.\n", arguments='{"b": 1,"a":"é"}', ids=("toolu_1",)):
    calls = [ToolCall("toolu_1", "ls", arguments)] if arguments is not None else []
    return Message("assistant", content=content, reasoning=reasoning, tool_calls=calls, echo=list(ids))


@pytest.mark.parametrize(
    "mangled",
    [
        echo(),
        echo(content="Listing."),
        echo(reasoning="I need a listing."),
        echo(reasoning=None),
        echo(arguments='{"a":"\\u00e9","b":1}'),
        echo(arguments='{ "a" : "é", "b" : 1.0 }'),
    ],
    ids=["verbatim", "stripped text", "stripped thought", "dropped thought", "reordered and escaped", "floats"],
)
def test_a_mangled_echo_is_restored_and_keeps_the_clients_tool_ids(mangled):
    restored = book(c1=(SAMPLED, ["msg_1", "toolu_1"])).restore([Message("user", "hi"), mangled])
    message = restored.messages[1]
    assert (message.content, message.reasoning) == (SAMPLED.content, SAMPLED.reasoning)
    assert message.tool_calls == [ToolCall("toolu_1", "ls", '{"b": 1,"a":"é"}')]
    assert (restored.parent, restored.found, restored.edited) == ("c1", ["c1"], 0)


@pytest.mark.parametrize(
    "edited",
    [
        echo(arguments='{"b": 2,"a":"é"}'),
        echo(content="Another text."),
        echo(reasoning="Another thought."),
        echo(arguments=None),
    ],
    ids=["value changed", "text changed", "thought changed", "call removed"],
)
def test_o_merge_03_an_edited_turn_keeps_the_clients_words_and_its_parent(edited):
    restored = book(c1=(SAMPLED, ["toolu_1"])).restore([edited])
    assert restored.messages == [edited]
    assert (restored.parent, restored.edited) == ("c1", 1)


def test_turns_without_ids_are_found_by_their_words_in_order():
    first = Message("assistant", content="Done.", reasoning="one")
    second = Message("assistant", content="Done.", reasoning="two")
    turns = book(c1=(first, []), c2=(second, []))
    restored = turns.restore([Message("assistant", "Done."), Message("user", "more"), Message("assistant", " Done. ")])
    assert [m.reasoning for m in restored.messages if m.role == "assistant"] == ["one", "two"]
    assert restored.found == ["c1", "c2"]


def test_a_thought_tells_equal_words_apart():
    turns = book(
        c1=(Message("assistant", content="Done.", reasoning="one"), []),
        c2=(Message("assistant", content="Done.", reasoning="two"), []),
    )
    assert turns.restore([Message("assistant", "Done.", reasoning="two")]).parent == "c2"


def test_words_that_nobody_sampled_are_left_alone():
    message = Message("assistant", "An example in the prompt.")
    restored = book(c1=(SAMPLED, [])).restore([message])
    assert restored.messages == [message]
    assert restored.parent is None


def test_unparsable_arguments_compare_as_text():
    sampled = Message("assistant", tool_calls=[ToolCall("x", "f", "{not json")])
    same = Message("assistant", tool_calls=[ToolCall("y", "f", " {not json ")], echo=["y"])
    other = Message("assistant", tool_calls=[ToolCall("y", "f", "{other")], echo=["y"])
    assert book(c1=(sampled, ["y"])).restore([same]).edited == 0
    assert book(c1=(sampled, ["y"])).restore([other]).edited == 1


def test_the_oldest_turns_are_forgotten_whole():
    turns = TurnBook(capacity=1)
    turns.add("c1", [SAMPLED], ["toolu_1"])
    turns.add("c2", [Message("assistant", "Done.")], ["msg_2"])
    assert "c1" not in turns
    assert turns.call_of("toolu_1") is None
    assert turns.restore([echo()]).parent is None
    assert turns.restore([Message("assistant", "Done.")]).parent == "c2"
