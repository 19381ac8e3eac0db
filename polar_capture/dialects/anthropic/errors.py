"""Faults in Anthropic's words: `{"type": "error", "error": {"type", "message"}, "request_id"}`, status, retry headers.

Statuses are chosen for what harnesses do with them (measured): overload is a 429 with retry-after, as Claude Code gives
up within seconds on a 529, and Qwen Code waits a minute on an `overloaded_error` inside a stream.
"""

import uuid
from typing import Any

import msgspec

from polar_capture.dialects.base import HttpAnswer
from polar_capture.faults import STATUS, Fault, FaultKind

_TYPES: dict[FaultKind, str] = {
    FaultKind.INVALID: "invalid_request_error",
    FaultKind.AUTHENTICATION: "authentication_error",
    FaultKind.PERMISSION: "permission_error",
    FaultKind.NOT_FOUND: "not_found_error",
    FaultKind.METHOD_NOT_ALLOWED: "invalid_request_error",
    FaultKind.TOO_LARGE: "request_too_large",
    FaultKind.CONTEXT_OVERFLOW: "invalid_request_error",
    FaultKind.RATE_LIMITED: "rate_limit_error",
    FaultKind.OVERLOADED: "rate_limit_error",
    FaultKind.UPSTREAM: "api_error",
    FaultKind.UNAVAILABLE: "api_error",
    FaultKind.TIMEOUT: "timeout_error",
    FaultKind.INTERNAL: "api_error",
}

_STATUS = {**STATUS, FaultKind.OVERLOADED: 429}

_SENSELESS = {
    FaultKind.INVALID,
    FaultKind.AUTHENTICATION,
    FaultKind.PERMISSION,
    FaultKind.NOT_FOUND,
    FaultKind.METHOD_NOT_ALLOWED,
    FaultKind.TOO_LARGE,
    FaultKind.CONTEXT_OVERFLOW,
}
"""Kinds that a repetition can't help: Anthropic's SDKs obey the header `x-should-retry`."""

WAIT = "2"
"""Seconds to wait when overloaded and nobody said how long."""


def error_object(fault: Fault, request_id: str) -> dict[str, Any]:
    """The body of an error answer, and the data of an error event."""
    error = {"type": _TYPES[fault.kind], "message": _message(fault)}
    return {"type": "error", "error": error, "request_id": request_id}


def error_answer(fault: Fault, allowed: list[str]) -> HttpAnswer:
    """The fault as a whole HTTP answer. `allowed` are the methods of the path, for METHOD_NOT_ALLOWED."""
    request_id = f"req_{uuid.uuid4().hex}"
    headers = {"content-type": "application/json", "request-id": request_id}
    wait = fault.retry_after or (WAIT if fault.kind is FaultKind.OVERLOADED else None)
    if wait is not None:
        headers["retry-after"] = wait
    if fault.kind in _SENSELESS:
        headers["x-should-retry"] = "false"
    if fault.kind is FaultKind.METHOD_NOT_ALLOWED and allowed:
        headers["allow"] = ", ".join(allowed)
    return HttpAnswer(_STATUS[fault.kind], msgspec.json.encode(error_object(fault, request_id)), headers)


def _message(fault: Fault) -> str:
    """The fault's message; an overflow in the words by which harnesses know that they must compact."""
    if fault.kind is not FaultKind.CONTEXT_OVERFLOW:
        return fault.message
    if fault.prompt_tokens is None or fault.window is None:
        return f"prompt is too long: {fault.message}"
    return f"prompt is too long: {fault.prompt_tokens} tokens > {fault.window} maximum"
