"""Faults as a client hears them, before and inside a stream. Names hold the field reports' ids."""

import json

import pytest

from polar_capture.dialects.base import WireRequest
from polar_capture.faults import Fault, FaultKind
from tests.unit.dialects.openai_responses.build import DIALECT, ask, events, minter

FAULTS = [
    (FaultKind.INVALID, 400, "invalid_request_error", None),
    (FaultKind.AUTHENTICATION, 401, "invalid_request_error", "invalid_api_key"),
    (FaultKind.NOT_FOUND, 404, "invalid_request_error", None),
    (FaultKind.CONTEXT_OVERFLOW, 400, "invalid_request_error", "context_length_exceeded"),
    (FaultKind.RATE_LIMITED, 429, "rate_limit_error", "rate_limit_exceeded"),
    (FaultKind.OVERLOADED, 429, "rate_limit_error", "rate_limit_exceeded"),
    (FaultKind.UPSTREAM, 502, "server_error", "server_error"),
    (FaultKind.UNAVAILABLE, 503, "server_error", "server_error"),
    (FaultKind.TIMEOUT, 504, "server_error", "server_error"),
    (FaultKind.INTERNAL, 500, "server_error", "server_error"),
]


@pytest.mark.parametrize(("kind", "status", "type_", "code"), FAULTS)
def test_o_errors_02_faults_over_http_and_in_the_stream(
    kind: FaultKind, status: int, type_: str, code: str | None
) -> None:
    fault = Fault(kind, "it broke", window=4096, prompt_tokens=5000)
    said = DIALECT.error(fault, WireRequest("POST", "/v1/responses"))
    error = json.loads(said.body)["error"]
    assert (said.status, error["type"], error["code"]) == (status, type_, code)
    assert ("retry-after" in said.headers) == (status == 429)
    stream = DIALECT.stream(ask(stream=True), minter(), "tiny")
    found = events(stream.open(None) + stream.fail(fault))
    assert [event["type"] for event in found] == ["response.created", "response.in_progress", "response.failed"]
    assert found[-1]["response"]["status"] == "failed"
    assert found[-1]["response"]["error"]["code"] == (code or "invalid_prompt")
    assert found[-1]["response"]["id"] == found[0]["response"]["id"]


def test_o_errors_02_an_overflow_says_so_in_the_words_that_clients_look_for() -> None:
    said = DIALECT.error(Fault(FaultKind.CONTEXT_OVERFLOW, "x", window=4096, prompt_tokens=5000))
    message = json.loads(said.body)["error"]["message"]
    assert "exceeds the context window" in message
    assert "maximum context length is 4096 tokens" in message
    assert "5000" in message


def test_a_retry_after_of_the_engine_is_passed_on() -> None:
    said = DIALECT.error(Fault(FaultKind.UNAVAILABLE, "x", retry_after="17"))
    assert (said.status, said.headers["retry-after"]) == (503, "17")


def test_a_stream_that_fails_at_once_still_begins() -> None:
    stream = DIALECT.stream(ask(stream=True), minter(), "tiny")
    found = events(stream.fail(Fault(FaultKind.INTERNAL, "x")))
    assert [event["type"] for event in found] == ["response.created", "response.in_progress", "response.failed"]
