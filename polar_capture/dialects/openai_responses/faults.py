"""Faults as OpenAI says them: over HTTP, in a failed response, in the error event of a WebSocket.

Wordings matter: clients find an overflow by `context_length_exceeded` or by the sentence about the context window, and
Codex gives up at once on `server_is_overloaded`, so load is always told as a rate limit.
"""

from typing import Any

import msgspec

from polar_capture.dialects.base import HttpAnswer
from polar_capture.faults import STATUS, Fault, FaultKind

_TYPES = {
    FaultKind.RATE_LIMITED: "rate_limit_error",
    FaultKind.OVERLOADED: "rate_limit_error",
    FaultKind.UPSTREAM: "server_error",
    FaultKind.UNAVAILABLE: "server_error",
    FaultKind.TIMEOUT: "server_error",
    FaultKind.INTERNAL: "server_error",
}
_CODES = {
    FaultKind.AUTHENTICATION: "invalid_api_key",
    FaultKind.PERMISSION: "permission_denied",
    FaultKind.TOO_LARGE: "request_too_large",
    FaultKind.CONTEXT_OVERFLOW: "context_length_exceeded",
    FaultKind.RATE_LIMITED: "rate_limit_exceeded",
    FaultKind.OVERLOADED: "rate_limit_exceeded",
    FaultKind.UPSTREAM: "server_error",
    FaultKind.UNAVAILABLE: "server_error",
    FaultKind.TIMEOUT: "server_error",
    FaultKind.INTERNAL: "server_error",
}
PREVIOUS = "previous_response_id"
_DEFAULT_WAIT = "2"


def status_of(fault: Fault) -> int:
    """Overload is a 429, which every client waits out; a 503 is retried at once, dozens of times (Codex)."""
    if fault.kind is FaultKind.OVERLOADED:
        return 429
    return 400 if fault.param == PREVIOUS else STATUS[fault.kind]


def code_of(fault: Fault) -> str | None:
    if fault.kind is FaultKind.NOT_FOUND and fault.param == PREVIOUS:
        return "previous_response_not_found"
    return _CODES.get(fault.kind)


def message_of(fault: Fault) -> str:
    if fault.kind is not FaultKind.CONTEXT_OVERFLOW:
        return fault.message
    sizes = ""
    if fault.window is not None:
        sizes = f" This model's maximum context length is {fault.window} tokens."
        if fault.prompt_tokens is not None:
            sizes = f"{sizes[:-1]}, however your input has {fault.prompt_tokens} tokens."
    return f"Your input exceeds the context window of this model. Please adjust your input and try again.{sizes}"


def error_object(fault: Fault) -> dict[str, Any]:
    """`{"message", "type", "param", "code"}`, as in the HTTP envelope."""
    param = fault.param or ("input" if fault.kind is FaultKind.CONTEXT_OVERFLOW else None)
    kind = _TYPES.get(fault.kind, "invalid_request_error")
    return {"message": message_of(fault), "type": kind, "param": param, "code": code_of(fault)}


def response_error(fault: Fault) -> dict[str, str]:
    """`response.error` of a failed response. Requests that were wrong in themselves have the code `invalid_prompt`."""
    return {"code": code_of(fault) or "invalid_prompt", "message": message_of(fault)}


def retry_headers(fault: Fault) -> dict[str, str]:
    if fault.retry_after is not None:
        return {"retry-after": fault.retry_after}
    if fault.kind in (FaultKind.RATE_LIMITED, FaultKind.OVERLOADED):
        return {"retry-after": _DEFAULT_WAIT}
    return {}


def http_error(fault: Fault) -> HttpAnswer:
    """The whole HTTP answer for a fault."""
    headers = {"content-type": "application/json", **retry_headers(fault)}
    return HttpAnswer(status_of(fault), msgspec.json.encode({"error": error_object(fault)}), headers)
