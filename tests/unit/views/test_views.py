"""Requests, answers, tokens and exchanges as text; hostile characters become names."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polar_capture.dialects.base import WireRequest
from polar_capture.store.records import CallRecord
from polar_capture.views.answers import answer_text
from polar_capture.views.exchange import exchange_text
from polar_capture.views.requests import request_text
from polar_capture.views.tokens import token_table
from polar_capture.views.visible import visible


def row(**changes) -> CallRecord:
    given = {
        "id": "c", "session_id": "s-1", "seq": 3, "dialect": "openai_chat", "host": "api.openai.com", "path": "/v1",
        "status": "ok", "trainable": True, "streamed": True, "started_at": 1.0, "prompt_ids": [1, 2, 3],
        "completion_ids": [4, 5], "logprobs": [-0.5, 0.0], "prompt_tokens": 3, "completion_tokens": 2,
        "finish_reason": "stop", "upstream": "http://gpu", "upstream_ms": 12.0,
    }  # fmt: skip
    return CallRecord(**{**given, **changes})


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\tb\nc", "a\tb\nc"),
        ("\x1b[31m", "⟨ESC⟩[31m"),
        ("\x00\x9b", "⟨NUL⟩⟨U+009B⟩"),
        ("\u202egnp", "⟨RLO⟩gnp"),
        ("\u2028\ud83d", "⟨LSEP⟩⟨U+D83D⟩"),
        ("a\u00adb\u2060\u061c", "a⟨SHY⟩b⟨WJ⟩⟨ALM⟩"),
        ("\U000e0048\U000e0069\U000e007f", "⟨TAG H⟩⟨TAG i⟩⟨U+E007F⟩"),
        ("שלום é 👍 <b>", "שלום é 👍 <b>"),
    ],
)
def test_what_would_act_is_named(text: str, shown: str):
    assert visible(text) == shown


@given(st.text(st.characters(), max_size=40))
def test_nothing_acts_after_all(text: str):
    shown = visible(text)
    shown.encode()
    assert not any((ord(c) < 32 and c not in "\t\n") or 0x202A <= ord(c) <= 0x202E for c in shown)
    assert visible(shown) == shown


def ask(path: str, body: object, **changes) -> str | None:
    return request_text(WireRequest("POST", path, {}, {}, json.dumps(body).encode(), **changes))


def test_a_request_shows_its_settings_tools_and_messages():
    body = {
        "model": "claude-x", "max_tokens": 9, "stream": True, "system": "be brief", "temperature": 0.5,
        "tools": [{"name": "bash", "input_schema": {"type": "object"}}],
        "messages": [
            {"role": "user", "content": "go \x1b[2J"},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "bash", "input": {"c": 1}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "ok"}]},
        ],
    }  # fmt: skip
    text = ask("/v1/messages", body)
    assert text is not None
    for part in ("anthropic · messages · model claude-x · stream", "temperature=0.5", "tools (1): bash", "be brief",
                 "── user ", "go ⟨ESC⟩[2J", "→ tool call bash", '"c": 1', "── tool (answers t1)"):  # fmt: skip
        assert part in text


@pytest.mark.parametrize("path", ["/v1/models", "/nothing"])
def test_what_is_no_generation_is_left_to_other_views(path: str):
    assert ask(path, {}) is None
    assert ask("/v1/messages", {"messages": "no list"}) is None


def sse(*events: object) -> bytes:
    return b"".join(b"data: " + json.dumps(event, ensure_ascii=False).encode() + b"\n\n" for event in events)


ANSWERS = {
    "messages stream": sse(
        {"type": "message_start", "message": {"id": "msg_1", "content": [], "usage": {"input_tokens": 3}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "hm\u2028hm"}},
        {"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "I "}},
        {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "run"}},
        {"type": "content_block_start", "index": 2, "content_block": {"type": "tool_use", "name": "bash", "input": {}}},
        {"type": "content_block_delta", "index": 2, "delta": {"type": "input_json_delta", "partial_json": '{"c":'}},
        {"type": "content_block_delta", "index": 2, "delta": {"type": "input_json_delta", "partial_json": "1}"}},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}},
    ),
    "messages whole": json.dumps(
        {"type": "message", "id": "msg_1", "stop_reason": "tool_use", "content": [
            {"type": "thinking", "thinking": "hm\u2028hm"}, {"type": "text", "text": "I run"},
            {"type": "tool_use", "name": "bash", "input": {"c": 1}}]}
    ).encode(),
    "chat stream": sse(
        {"id": "x", "choices": [{"index": 0, "delta": {"reasoning_content": "hm\u2028hm"}}]},
        {"id": "x", "choices": [{"index": 0, "delta": {"content": "I "}}]},
        {"id": "x", "choices": [{"index": 0, "delta": {"content": "run"}}]},
        {"id": "x", "choices": [{"index": 0, "delta": {"tool_calls": [
            {"index": 0, "function": {"name": "bash", "arguments": '{"c":'}}]}}]},
        {"id": "x", "choices": [{"index": 0, "finish_reason": "tool_use", "delta": {"tool_calls": [
            {"index": 0, "function": {"arguments": "1}"}}]}}]},
    ) + b"data: [DONE]\n\n",
    "responses stream": sse(
        {"type": "response.output_text.delta", "delta": "I ru"},
        {"type": "response.completed", "response": {"id": "r", "status": "tool_use", "output": [
            {"type": "reasoning", "content": [{"type": "reasoning_text", "text": "hm\u2028hm"}], "summary": []},
            {"type": "message", "content": [{"type": "output_text", "text": "I run"}]},
            {"type": "function_call", "id": "f", "name": "bash", "arguments": '{"c":1}'}]}},
    ),
    "google stream": sse(
        {"candidates": [{"content": {"parts": [{"text": "hm\u2028hm", "thought": True}, {"text": "I "}]}}]},
        {"candidates": [{"finishReason": "tool_use", "content": {"parts": [
            {"text": "run"}, {"functionCall": {"name": "bash", "args": {"c": 1}}}]}}]},
    ),
}  # fmt: skip


@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
def test_deltas_are_joined_in_every_dialect(answer: bytes):
    text = answer_text(answer)
    assert text is not None
    assert "┄ thinking\nhm⟨LSEP⟩hm" in text
    assert "\nI run" in text
    assert '→ tool call bash\n{\n  "c": 1\n}' in text
    assert "tool_use" in text.split("\n")[0]


@pytest.mark.parametrize("answer", [b"", b"plain", b"<html>", b"[]", b'{"data": []}', b"\xff\xfe"])
def test_what_is_no_answer_is_left_to_other_views(answer: bytes):
    assert answer_text(answer) is None


def test_an_error_is_said():
    assert "error: too long" in str(answer_text(b'{"type":"error","error":{"type":"x","message":"too long"}}'))


def test_tokens_stand_with_their_logprobs():
    text = token_table(row(), {4: b"Hi\n", 5: b"\xe2\x82", 3: b"\x1b"})
    assert "s-1 · turn 3 · trainable · 3+2 tokens" in text
    assert '       3        4   -0.5000  0.607 ██████     "Hi\\n"' in text
    assert "       4        5    0.0000  1.000 ██████████ bytes e2 82" in text
    assert '"⟨ESC⟩"' in text


def test_without_texts_or_ids_it_is_said():
    assert "texts are not known" in token_table(row(), None)
    missing = row(completion_ids=None, trainable=False, reason="ids_missing", error=None)
    assert "not trainable: ids_missing" in token_table(missing, None)
    assert "the engine gave no token ids" in token_table(missing, None)


def test_only_the_end_of_a_long_prompt_is_shown_at_its_place():
    text = token_table(row(prompt_ids=[7] * 12, prompt_tokens=5000), {})
    assert "the last 12 of 5,000 tokens" in text
    assert "    4999        7" in text
    assert "    5000        4   -0.5000" in text


def test_an_exchange_shows_what_was_sent_and_each_choice():
    sent = {"model": "m", "temperature": 1.0, "tools": [{"function": {"name": "bash"}}],
            "messages": [{"role": "user", "content": "go \x07"}]}  # fmt: skip
    answers = [
        row(chat_request=json.dumps(sent).encode(), message=b'{"role":"assistant","content":"one"}'),
        row(choice_index=1, message=b'{"role":"assistant","reasoning":"hm","content":"two"}', stop_reason="END"),
    ]
    text = exchange_text(answers)
    for part in ("upstream http://gpu · 12 ms", '"temperature": 1.0', "tools: bash", "go ⟨BEL⟩",
                 "choice 0, finish stop", "choice 1, finish stop, stopped by END", "two"):  # fmt: skip
        assert part in text


def test_a_failed_exchange_says_why():
    failed = row(chat_request=None, message=None, prompt_ids=None, completion_ids=None, error="the engine is down")
    assert "error: the engine is down" in exchange_text([failed])
