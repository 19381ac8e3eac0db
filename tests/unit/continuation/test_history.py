"""Which turn a conversation goes on from."""

from polar_capture.chat import ChatRequest, Message
from polar_capture.chat_normal import normalise
from polar_capture.continuation.history import RIVALS, Step, step
from polar_capture.continuation.reasons import Fork
from polar_capture.lineage.turns import TurnBook


def continued(book: TurnBook, *messages: Message) -> Step | Fork | None:
    restored = book.restore(list(messages))
    return step(ChatRequest(messages=normalise(restored.messages)), restored)


def book(*turns: tuple[str, str]) -> TurnBook:
    """A book of calls and the words that each said."""
    made = TurnBook()
    for call_id, words in turns:
        made.add(call_id, [Message("assistant", words)], [f"id-{call_id}"])
    return made


def test_a_conversation_without_sampled_turns_continues_none():
    assert continued(TurnBook(), Message("user", "hi")) is None
    assert (
        continued(book(("a", "yes")), Message("user", "hi"), Message("assistant", "no"), Message("user", "go")) is None
    )


def test_the_last_turn_is_continued_where_it_stands():
    said = [Message("user", "hi"), Message("assistant", "yes"), Message("user", "go")]
    assert continued(book(("a", "yes")), *said) == Step(["a"], 1)
    # Two system messages become one: the turn's place is that in what is rendered.
    leading = [Message("system", "s"), Message("system", "t")]
    assert continued(book(("a", "yes")), *leading, *said) == Step(["a"], 2)


def test_calls_that_said_the_same_are_all_named_the_latest_first():
    said = [Message("user", "hi"), Message("assistant", "yes"), Message("user", "go")]
    assert continued(book(("a", "yes"), ("b", "yes"), ("c", "yes"), ("d", "no")), *said) == Step(["a", "c", "b"], 1)
    many = continued(book(*((f"c{n}", "yes") for n in range(50))), *said)
    assert isinstance(many, Step)
    assert len(many.parents) == RIVALS


def test_an_id_names_one_call():
    said = [Message("user", "hi"), Message("assistant", "yes", echo=["id-b"]), Message("user", "go")]
    assert continued(book(("a", "yes"), ("b", "yes")), *said) == Step(["b"], 1)


def test_an_answer_without_its_question_is_an_edit():
    said = [Message("assistant", "yes"), Message("user", "go")]
    assert continued(book(("a", "yes")), *said) is Fork.HISTORY_EDITED
