"""Faults as Google says them."""

import json

import pytest

from polar_capture.dialects.base import WireRequest
from polar_capture.faults import Fault, FaultKind
from tests.unit.dialects.google.build import DIALECT, STREAM, minter, streaming


@pytest.mark.parametrize(
    ("kind", "code", "status"),
    [
        (FaultKind.INVALID, 400, "INVALID_ARGUMENT"),
        (FaultKind.AUTHENTICATION, 401, "UNAUTHENTICATED"),
        (FaultKind.PERMISSION, 403, "PERMISSION_DENIED"),
        (FaultKind.NOT_FOUND, 404, "NOT_FOUND"),
        (FaultKind.METHOD_NOT_ALLOWED, 405, "UNIMPLEMENTED"),
        (FaultKind.TOO_LARGE, 413, "INVALID_ARGUMENT"),
        (FaultKind.CONTEXT_OVERFLOW, 400, "INVALID_ARGUMENT"),
        (FaultKind.RATE_LIMITED, 429, "RESOURCE_EXHAUSTED"),
        (FaultKind.OVERLOADED, 429, "RESOURCE_EXHAUSTED"),
        (FaultKind.UPSTREAM, 502, "UNAVAILABLE"),
        (FaultKind.UNAVAILABLE, 503, "UNAVAILABLE"),
        (FaultKind.TIMEOUT, 504, "DEADLINE_EXCEEDED"),
        (FaultKind.INTERNAL, 500, "INTERNAL"),
    ],
)
def test_o_errors_05_07_each_kind(kind: FaultKind, code: int, status: str) -> None:
    answer = DIALECT.error(Fault(kind, "nope", retry_after="7"))
    error = json.loads(answer.body)["error"]
    assert answer.headers["content-type"].startswith("application/json")
    assert answer.headers["retry-after"] == "7"
    assert answer.status == error["code"] == code
    assert error["status"] == status
    assert "nope" in error["message"]
    assert {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "7s"} in error["details"]


def test_overload_is_waited_out() -> None:
    answer = DIALECT.error(Fault(FaultKind.OVERLOADED, "busy"))
    assert (answer.status, answer.headers["retry-after"]) == (429, "2")
    assert json.loads(answer.body)["error"]["details"][0]["retryDelay"] == "2s"


def test_every_kind_has_its_words() -> None:
    for kind in FaultKind:
        assert json.loads(DIALECT.error(Fault(kind, "x")).body)["error"]["status"]


def test_a_date_is_no_delay() -> None:
    fault = Fault(FaultKind.RATE_LIMITED, "x", retry_after="Wed, 21 Oct 2026 07:28:00 GMT")
    assert "details" not in json.loads(DIALECT.error(fault).body)["error"]


def test_the_offending_field_is_named() -> None:
    error = json.loads(DIALECT.error(Fault(FaultKind.INVALID, "x", param="contents[0].role")).body)["error"]
    assert error["details"][0]["fieldViolations"] == [{"field": "contents[0].role", "description": "x"}]


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (
            Fault(FaultKind.CONTEXT_OVERFLOW, "x", prompt_tokens=5000, window=4096),
            "The input token count (5000) exceeds the maximum number of tokens allowed (4096).",
        ),
        (
            Fault(FaultKind.CONTEXT_OVERFLOW, "more", window=4096),
            "The input token count exceeds the maximum number of tokens allowed (4096). more",
        ),
    ],
)
def test_o_errors_01_overflow_in_googles_words(fault: Fault, words: str) -> None:
    assert json.loads(DIALECT.error(fault).body)["error"]["message"] == words


@pytest.mark.parametrize(
    ("path", "alt", "listed"), [(STREAM, None, True), (STREAM, "sse", False), ("/v1/x", None, False)]
)
def test_an_array_stream_tells_errors_in_an_array(path: str, alt: str | None, listed: bool) -> None:
    wire = WireRequest("POST", path, query={} if alt is None else {"alt": alt})
    assert isinstance(json.loads(DIALECT.error(Fault(FaultKind.INVALID, "x"), wire).body), list) is listed


@pytest.mark.parametrize("early", [(), ("open",), ("noop",)])
def test_a_fault_in_mid_stream_is_an_error_object_and_a_clean_end(early: tuple[str, ...]) -> None:
    for alt in ("sse", None):
        stream = DIALECT.stream(streaming(alt), minter(), "m")
        body = b"".join(stream.open(None) if step == "open" else stream.noop() for step in early)
        body += stream.fail(Fault(FaultKind.UPSTREAM, "gone"))
        got = json.loads(body)[-1] if alt is None else json.loads(body.strip().removeprefix(b"data: "))
        assert got["error"]["message"] == "gone"
