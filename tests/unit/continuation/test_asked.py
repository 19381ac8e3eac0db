"""Two conversations with equal digests have equal prompts; a recorded body has those of its conversation."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polar_capture.chat import ChatRequest, MediaPart, Message, TextPart, Tool, ToolCall
from polar_capture.continuation.asked import asked, asked_in
from polar_capture.continuation.reasons import Fork
from polar_capture.engine.wire import abilities, chat_body, template_kwargs

text = st.text(max_size=8)
calls = st.builds(ToolCall, text, text, st.sampled_from(['{"a": 1.0}', "{}", "no json", ""]))
messages = st.builds(
    Message,
    st.sampled_from(["system", "user", "assistant", "tool"]),
    st.none() | text,
    st.none() | text,
    st.lists(calls, max_size=2),
    st.none() | text,
    st.none() | text,
    st.just(["echo"]),
)
chats = st.builds(
    ChatRequest,
    messages=st.lists(messages, min_size=1, max_size=4),
    tools=st.lists(st.builds(Tool, text, st.none() | text), max_size=2),
    thinking=st.none() | st.booleans(),
    effort=st.sampled_from([None, "low", "xhigh", "none"]),
)


@given(chats, st.sampled_from(["0.32.0", None]))
def test_a_recorded_body_has_the_digests_of_its_conversation(chat, version):
    can = abilities(version)
    body = chat_body(chat, model="m", sampling={"temperature": 1.0}, can=can)
    assert asked_in(body) == asked(chat, template_kwargs(chat, can))[-1]


@given(chats, chats)
def test_only_equal_conversations_have_equal_digests(one, other):
    can = abilities("0.32.0")
    first, second = (asked(chat, template_kwargs(chat, can))[-1] for chat in (one, other))
    bodies = [chat_body(chat, model="m", sampling={}, can=can) for chat in (one, other)]
    efforts_apart = one.effort != other.effort
    assert (first == second) == (bodies[0] == bodies[1]) or efforts_apart
    assert (first.difference(second) is None) == (first == second)


@given(chats)
def test_the_digests_of_a_beginning_are_those_of_the_shorter_conversation(chat):
    short = ChatRequest(messages=chat.messages[:1], tools=chat.tools)
    assert asked(chat, {}, [1])[0] == asked(short, {})[-1]


BASE = ChatRequest(messages=[Message("system", "s"), Message("user", "u")], tools=[Tool("ls")])


@pytest.mark.parametrize(
    ("changed", "options", "fork"),
    [
        (BASE, {}, None),
        (ChatRequest(messages=BASE.messages, tools=[Tool("ls", "lists")]), {}, Fork.TOOLS_CHANGED),
        (ChatRequest(messages=BASE.messages), {}, Fork.TOOLS_CHANGED),
        (
            ChatRequest(messages=[Message("system", "t"), Message("user", "v")], tools=BASE.tools),
            {},
            Fork.SYSTEM_CHANGED,
        ),
        (ChatRequest(messages=[Message("user", "u")], tools=BASE.tools), {}, Fork.SYSTEM_CHANGED),
        (
            ChatRequest(messages=[Message("system", "s"), Message("user", "v")], tools=BASE.tools),
            {},
            Fork.HISTORY_EDITED,
        ),
        (ChatRequest(messages=[*BASE.messages, Message("user", "")], tools=BASE.tools), {}, Fork.HISTORY_EDITED),
        (BASE, {"enable_thinking": False}, Fork.OPTIONS_CHANGED),
    ],
)
def test_the_difference_is_named(changed, options, fork):
    assert asked(BASE, {})[-1].difference(asked(changed, options)[-1]) is fork


@pytest.mark.parametrize("body", [b"", b"no json", b"{}", b'{"messages": [{"role": "user", "content": 1}]}'])
def test_what_is_no_recorded_body_has_none(body):
    assert asked_in(body) is None


def test_a_body_with_media_has_none_and_its_conversation_is_no_textual_one():
    picture = Message("user", [TextPart("see"), MediaPart("image_url", {"url": "data:,"})])
    body = chat_body(ChatRequest(messages=[picture]), model="m", sampling={}, can=abilities("0.32.0"))
    assert asked_in(body) is None
    assert asked(ChatRequest(messages=[picture]), {}) != asked(ChatRequest(messages=[Message("user", "see")]), {})
