"""Faults as OpenAI says them."""

import json

import pytest

from polar_capture.faults import Fault, FaultKind
from tests.unit.dialects.openai_chat.build import DIALECT, ask, minter


@pytest.mark.parametrize(
    ("kind", "status", "error_type", "code", "retried"),
    [
        (FaultKind.INVALID, 400, "invalid_request_error", None, False),
        (FaultKind.AUTHENTICATION, 401, "invalid_request_error", "invalid_api_key", False),
        (FaultKind.PERMISSION, 403, "invalid_request_error", "insufficient_permissions", False),
        (FaultKind.NOT_FOUND, 404, "invalid_request_error", None, False),
        (FaultKind.METHOD_NOT_ALLOWED, 405, "invalid_request_error", "method_not_supported", False),
        (FaultKind.TOO_LARGE, 413, "invalid_request_error", "request_too_large", False),
        (FaultKind.CONTEXT_OVERFLOW, 400, "invalid_request_error", "context_length_exceeded", False),
        (FaultKind.RATE_LIMITED, 429, "requests", "rate_limit_exceeded", True),
        (FaultKind.OVERLOADED, 429, "requests", "rate_limit_exceeded", True),
        (FaultKind.UPSTREAM, 502, "server_error", "bad_gateway", True),
        (FaultKind.UNAVAILABLE, 503, "server_error", "service_unavailable", True),
        (FaultKind.TIMEOUT, 504, "server_error", "timeout", True),
        (FaultKind.INTERNAL, 500, "server_error", None, True),
    ],
)
def test_o_errors_05_07_each_kind(
    kind: FaultKind, status: int, error_type: str, code: str | None, retried: bool
) -> None:
    answer = DIALECT.error(Fault(kind, "nope", retry_after="7"))
    error = json.loads(answer.body)["error"]
    assert answer.status == status
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["retry-after"] == "7"
    assert (answer.headers.get("x-should-retry") != "false") is retried
    assert set(error) == {"message", "type", "param", "code"}
    assert "nope" in error["message"]
    assert (error["type"], error["code"]) == (error_type, code)


def test_overload_is_waited_out() -> None:
    answer = DIALECT.error(Fault(FaultKind.OVERLOADED, "busy"))
    assert (answer.status, answer.headers["retry-after"]) == (429, "2")


def test_every_kind_has_its_words() -> None:
    for kind in FaultKind:
        assert json.loads(DIALECT.error(Fault(kind, "x")).body)["error"]["message"]


def test_a_missing_model_has_its_code() -> None:
    answer = DIALECT.error(Fault(FaultKind.NOT_FOUND, "no such model", param="model"))
    assert json.loads(answer.body)["error"]["code"] == "model_not_found"


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (Fault(FaultKind.CONTEXT_OVERFLOW, "x", prompt_tokens=5000, window=4096), ("4096 tokens", "5000 tokens")),
        (Fault(FaultKind.CONTEXT_OVERFLOW, "x", window=4096), ("4096 tokens",)),
        (Fault(FaultKind.CONTEXT_OVERFLOW, "x 77"), ("x 77",)),
        (Fault(FaultKind.CONTEXT_OVERFLOW, "This model's maximum context length is 9 tokens."), ("is 9 tokens",)),
    ],
)
def test_o_errors_01_overflow_in_the_words_that_start_a_compaction(fault: Fault, words: tuple[str, ...]) -> None:
    error = json.loads(DIALECT.error(fault).body)["error"]
    assert "This model's maximum context length is" in error["message"]
    assert all(word in error["message"] for word in words)


@pytest.mark.parametrize("opened", [True, False])
def test_a_fault_in_mid_stream_is_one_error_object_and_a_clean_end(opened: bool) -> None:
    stream = DIALECT.stream(ask(stream=True), minter(), "tiny")
    if opened:
        stream.open(None)
    body = stream.fail(Fault(FaultKind.UPSTREAM, "engine gone"))
    assert body.endswith(b"\n\n")
    assert json.loads(body.removeprefix(b"data: "))["error"]["message"] == "engine gone"
    assert b"[DONE]" not in body
