"""Faults in Anthropic's words, before and inside a stream."""

import json

import pytest

from polar_capture.dialects.base import WireRequest
from polar_capture.faults import Fault, FaultKind
from tests.unit.dialects.anthropic.build import DIALECT, ask, events, minter

K = FaultKind
TABLE = [
    (K.INVALID, 400, "invalid_request_error", False),
    (K.AUTHENTICATION, 401, "authentication_error", False),
    (K.PERMISSION, 403, "permission_error", False),
    (K.NOT_FOUND, 404, "not_found_error", False),
    (K.METHOD_NOT_ALLOWED, 405, "invalid_request_error", False),
    (K.TOO_LARGE, 413, "request_too_large", False),
    (K.CONTEXT_OVERFLOW, 400, "invalid_request_error", False),
    (K.RATE_LIMITED, 429, "rate_limit_error", True),
    (K.OVERLOADED, 429, "rate_limit_error", True),
    (K.UPSTREAM, 502, "api_error", True),
    (K.UNAVAILABLE, 503, "api_error", True),
    (K.TIMEOUT, 504, "timeout_error", True),
    (K.INTERNAL, 500, "api_error", True),
]


def test_the_table_names_every_kind():
    assert {row[0] for row in TABLE} == set(FaultKind)


@pytest.mark.parametrize(("kind", "status", "word", "again"), TABLE)
def test_o_errors_04_every_fault_has_its_status_type_and_retry_advice(
    kind: FaultKind, status: int, word: str, again: bool
):
    answer = DIALECT.error(Fault(kind, "bad tool schema"))
    body = json.loads(answer.body)
    assert answer.status == status
    assert body["type"] == "error"
    assert body["error"]["type"] == word
    assert "bad tool schema" in body["error"]["message"]
    assert answer.headers.get("x-should-retry") == (None if again else "false")
    assert answer.headers["content-type"] == "application/json"
    assert body["request_id"] == answer.headers["request-id"]


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (
            Fault(K.CONTEXT_OVERFLOW, "x", prompt_tokens=5000, window=4096),
            "prompt is too long: 5000 tokens > 4096 maximum",
        ),
        (Fault(K.CONTEXT_OVERFLOW, "it has 9 characters"), "prompt is too long: it has 9 characters"),
    ],
)
def test_o_errors_01_overflow_is_told_in_the_words_that_start_compaction(fault: Fault, message: str):
    answer = DIALECT.error(fault)
    assert (answer.status, json.loads(answer.body)["error"]["message"]) == (400, message)
    stream = DIALECT.stream(ask(stream=True), minter(), "m")
    assert events(stream.fail(fault))[0]["error"] == {"type": "invalid_request_error", "message": message}


@pytest.mark.parametrize("kind", [K.RATE_LIMITED, K.OVERLOADED, K.UNAVAILABLE])
def test_o_errors_07_the_waiting_time_is_passed_on(kind: FaultKind):
    assert DIALECT.error(Fault(kind, "busy", retry_after="7")).headers["retry-after"] == "7"


def test_overload_always_says_how_long_to_wait_and_is_never_a_529():
    answer = DIALECT.error(Fault(K.OVERLOADED, "draining"))
    assert (answer.status, answer.headers["retry-after"]) == (429, "2")


def test_o_errors_09_a_wrong_method_is_told_the_right_one():
    wire = WireRequest("GET", "/v1/messages")
    assert DIALECT.match(wire.method, wire.path) is None
    answer = DIALECT.error(Fault(K.METHOD_NOT_ALLOWED, "GET is not allowed here"), wire)
    assert (answer.status, answer.headers["allow"]) == (405, "POST")


@pytest.mark.parametrize("early", [(), (None,), (None, 9)], ids=["at first", "after a ping", "after message_start"])
def test_o_errors_05_a_fault_inside_a_stream_is_its_last_event(early: tuple[int | None, ...]):
    ids = minter()
    stream = DIALECT.stream(ask(stream=True), ids, "m")
    data = b"".join(stream.open(size) for size in early) + stream.fail(Fault(K.OVERLOADED, "busy"))
    last = events(data)[-1]
    # An `overloaded_error` would make Claude Code give up and Qwen Code wait for a minute.
    assert last["error"] == {"type": "rate_limit_error", "message": "busy"}
    assert last["request_id"] in ids.minted
    assert all(event["type"] != "message_stop" for event in events(data))
