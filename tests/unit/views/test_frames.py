"""Frames of a WebSocket as text."""

import json
from typing import Any

import pytest

from polar_capture.dialects.base import WireRequest
from polar_capture.views.answers import error_line
from polar_capture.views.frames import client_frame_text, ended_answer, server_frame_text

ANSWER = {
    "id": "resp_1",
    "status": "completed",
    "output": [{"type": "message", "content": [{"type": "output_text", "text": "Done. \x1b[2J"}]}],
}


def frame(**event: Any) -> bytes:
    return json.dumps(event).encode()


def client(body: bytes) -> str | None:
    return client_frame_text(WireRequest("POST", "/v1/responses", {}, {}, body, "api.openai.com"))


def test_a_request_is_decoded_and_a_warm_up_is_told():
    asked = client(frame(type="response.create", model="m", input=[{"role": "user", "content": "hi"}]))
    assert asked is not None
    assert asked.startswith("openai_responses · create · model m")
    warming = client(frame(type="response.create", input=[], generate=False))
    assert warming is not None
    assert warming.startswith("response.create · nothing is sampled for it")
    assert '"generate": false' in warming
    said = client(frame(type="response.create", input=[{"role": "user", "content": "hi"}], generate=False))
    assert said is not None
    assert said.startswith("response.create · nothing is sampled for it\n\nopenai_responses · create")


@pytest.mark.parametrize(
    ("event", "shown"),
    [
        ({"type": "response.created", "response": {"id": "resp_1"}}, "response.created"),
        ({"type": "response.output_text.delta", "delta": "a\n\u202e"}, 'response.output_text.delta  "a\\n⟨RLO⟩"'),
        ({"type": "response.function_call_arguments.done", "arguments": "{}"},
         'response.function_call_arguments.done  "{}"'),
        ({"type": "response.output_item.added", "item": {"type": "function_call", "name": "bash", "status": "x"}},
         "response.output_item.added  function_call bash x"),
    ],
)  # fmt: skip
def test_a_step_of_an_answer_is_one_line(event: dict[str, Any], shown: str):
    assert server_frame_text(frame(**event)) == shown
    assert ended_answer(frame(**event)) is None


def test_the_end_of_an_answer_is_the_whole_of_it():
    last = frame(type="response.completed", response=ANSWER)
    text = server_frame_text(last)
    assert text is not None
    assert "id resp_1 · status completed" in text
    assert "Done. ⟨ESC⟩[2J" in text
    assert ended_answer(last) == "resp_1"
    failed = frame(type="response.failed", response={"id": "resp_2", "error": {"message": "the engine is down"}})
    assert "error: the engine is down" in str(server_frame_text(failed))


@pytest.mark.parametrize("body", [b"", b"no JSON", b"[]", b"\xff", b"[" * 100_000])
def test_other_frames_are_left_to_mitmproxy(body: bytes):
    assert client(body) is None
    assert server_frame_text(body) is None
    assert ended_answer(body) is None


def test_an_error_is_told_in_one_short_line():
    said = frame(type="error", error={"type": "invalid_request_error", "message": "no\n\x1b" + "x" * 500})
    assert error_line(said) == "no ⟨ESC⟩" + "x" * 151 + "…"
    assert error_line(b"<html>") == ""
