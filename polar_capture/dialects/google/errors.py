"""Faults in Google's words: `{"error": {"code", "message", "status", "details"}}`."""

from typing import Any

import msgspec

from polar_capture.dialects.base import HttpAnswer
from polar_capture.faults import STATUS, Fault, FaultKind

_WORDS: dict[FaultKind, str] = {
    FaultKind.INVALID: "INVALID_ARGUMENT",
    FaultKind.AUTHENTICATION: "UNAUTHENTICATED",
    FaultKind.PERMISSION: "PERMISSION_DENIED",
    FaultKind.NOT_FOUND: "NOT_FOUND",
    FaultKind.METHOD_NOT_ALLOWED: "UNIMPLEMENTED",
    FaultKind.TOO_LARGE: "INVALID_ARGUMENT",
    FaultKind.CONTEXT_OVERFLOW: "INVALID_ARGUMENT",
    FaultKind.RATE_LIMITED: "RESOURCE_EXHAUSTED",
    FaultKind.OVERLOADED: "RESOURCE_EXHAUSTED",
    FaultKind.UPSTREAM: "UNAVAILABLE",
    FaultKind.UNAVAILABLE: "UNAVAILABLE",
    FaultKind.TIMEOUT: "DEADLINE_EXCEEDED",
    FaultKind.INTERNAL: "INTERNAL",
}
"""Kind → canonical status (https://github.com/googleapis/googleapis/blob/master/google/rpc/code.proto)."""

_STATUS = {**STATUS, FaultKind.OVERLOADED: 429}
"""A 429 is waited out by every harness; a 503 is repeated dozens of times."""

WAIT = "2"
"""Seconds to wait when overloaded and nobody said how long."""


def error_object(fault: Fault) -> dict[str, Any]:
    """The value under `error`. A known waiting time is told as RetryInfo, which Gemini CLI obeys."""
    error: dict[str, Any] = {"code": _STATUS[fault.kind], "message": _message(fault), "status": _WORDS[fault.kind]}
    details: list[dict[str, Any]] = []
    if fault.param is not None and fault.kind is FaultKind.INVALID:
        violation = {"field": fault.param, "description": fault.message}
        details.append({"@type": "type.googleapis.com/google.rpc.BadRequest", "fieldViolations": [violation]})
    wait = _wait(fault)
    if wait is not None and _is_seconds(wait):
        details.append({"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": f"{wait}s"})
    if details:
        error["details"] = details
    return error


def error_answer(fault: Fault, as_list: bool) -> HttpAnswer:
    """The fault as a whole HTTP answer; a JSON-array stream tells it in an array, as Google does."""
    headers = {"content-type": "application/json; charset=UTF-8"}
    wait = _wait(fault)
    if wait is not None:
        headers["retry-after"] = wait
    body = {"error": error_object(fault)}
    return HttpAnswer(_STATUS[fault.kind], msgspec.json.encode([body] if as_list else body), headers)


def _wait(fault: Fault) -> str | None:
    return fault.retry_after or (WAIT if fault.kind is FaultKind.OVERLOADED else None)


def _is_seconds(retry_after: str) -> bool:
    whole, _, fraction = retry_after.partition(".")
    return whole.isascii() and whole.isdigit() and (not fraction or (fraction.isascii() and fraction.isdigit()))


def _message(fault: Fault) -> str:
    if fault.kind is not FaultKind.CONTEXT_OVERFLOW:
        return fault.message
    if fault.window is None or fault.prompt_tokens is None:
        allowed = "the maximum number of tokens allowed" + (f" ({fault.window})" if fault.window is not None else "")
        return f"The input token count exceeds {allowed}. {fault.message}"
    return (
        f"The input token count ({fault.prompt_tokens}) exceeds the maximum number of tokens allowed ({fault.window})."
    )
