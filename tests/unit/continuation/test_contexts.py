"""The tokens of recent calls, and those of recorded ones."""

import msgspec
import numpy as np
import pytest

from polar_capture.chat import ChatRequest, Message, ToolCall
from polar_capture.continuation.asked import asked
from polar_capture.continuation.contexts import Context, Contexts, context_of
from polar_capture.continuation.tails import Ending
from polar_capture.engine.wire import abilities, chat_body

CHAT = ChatRequest(messages=[Message("user", "hi")])


def context(size: int, plain: int = 0) -> Context:
    ids = np.zeros(size, np.int32)
    return Context(ids, 1, asked(CHAT, {})[-1], Ending(), np.zeros(plain, np.int32) if plain else None)


def test_the_least_recently_used_contexts_go_first():
    contexts = Contexts(capacity=100)
    for name in "abc":
        contexts.add(name, context(5, 3))  # 32 bytes
    assert contexts.get("a") is not None
    contexts.add("d", context(5, 3))
    assert [name for name in "abcd" if contexts.get(name)] == ["a", "c", "d"]
    contexts.add("e", context(1000))
    assert [name for name in "abcde" if contexts.get(name)] == ["e"]


def test_a_context_that_is_replaced_counts_once():
    contexts = Contexts(capacity=100)
    for _ in range(50):
        contexts.add("a", context(10))
    contexts.add("b", context(10))
    assert len(contexts) == 2


def row(said: Message | None = None, **columns) -> dict:
    said = said or Message("assistant", "yes")
    return {
        "status": "ok",
        "prompt_ids": [1, 2],
        "completion_ids": [3, 4],
        "sampling": {"temperature": 1.0},
        "finish_reason": "stop",
        "stop_reason": None,
        "continuation": "root",
        "chat_request": chat_body(CHAT, model="m", sampling={}, can=abilities("0.32.0")),
        "message": msgspec.json.encode(said),
    } | columns


def test_a_recorded_call_gives_its_context():
    found = context_of(row())
    assert found is not None
    assert found.ids.tolist() == [1, 2, 3, 4]
    assert found.ids.dtype == np.int32
    assert found.asked == asked(CHAT, {})[-1]
    assert found.ending == Ending()
    assert found.plain is not None
    assert found.plain.tolist() == [1, 2]


def test_the_plain_render_of_a_continued_call_is_not_recorded():
    found = context_of(row(continuation="exact"))
    assert found is not None
    assert found.plain is None


@pytest.mark.parametrize(
    ("columns", "ending"),
    [
        ({"finish_reason": "length"}, Ending(cut=True)),
        (
            {"finish_reason": "length", "message": Message("assistant", None, reasoning="I")},
            Ending(cut=True, thought=True),
        ),
        ({"stop_reason": "4"}, Ending()),
        ({"stop_reason": "STOP"}, Ending(stop_string=True)),
        ({"finish_reason": "tool_calls"}, Ending()),
        ({"finish_reason": "tool_calls", "sampling": {"max_tokens": 2}}, Ending(cut=True)),
        ({"finish_reason": "tool_calls", "sampling": {"max_tokens": 3}}, Ending()),
    ],
)
def test_how_a_recorded_answer_ended(columns, ending):
    message = columns.pop("message", Message("assistant", "x", tool_calls=[ToolCall("c", "ls", "{}")]))
    found = context_of(row(message, **columns))
    assert found is not None
    assert found.ending == ending


@pytest.mark.parametrize(
    "columns",
    [
        {"status": "error"},
        {"prompt_ids": None},
        {"completion_ids": None},
        {"completion_ids": []},
        {"sampling": {"n": 2}},
        {"chat_request": None},
        {"chat_request": b"{}"},
        {"message": None},
    ],
)
def test_what_cannot_be_continued_has_no_context(columns):
    assert context_of(row(**columns)) is None
