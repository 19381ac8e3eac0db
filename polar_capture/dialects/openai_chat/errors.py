"""Faults in OpenAI's words: `{"error": {"message", "type", "param", "code"}}` with its statuses and retry headers."""

from typing import Any

import msgspec

from polar_capture.dialects.base import HttpAnswer
from polar_capture.faults import STATUS, Fault, FaultKind

_WORDS: dict[FaultKind, tuple[str, str | None]] = {
    FaultKind.INVALID: ("invalid_request_error", None),
    FaultKind.AUTHENTICATION: ("invalid_request_error", "invalid_api_key"),
    FaultKind.PERMISSION: ("invalid_request_error", "insufficient_permissions"),
    FaultKind.NOT_FOUND: ("invalid_request_error", None),
    FaultKind.METHOD_NOT_ALLOWED: ("invalid_request_error", "method_not_supported"),
    FaultKind.TOO_LARGE: ("invalid_request_error", "request_too_large"),
    FaultKind.CONTEXT_OVERFLOW: ("invalid_request_error", "context_length_exceeded"),
    FaultKind.RATE_LIMITED: ("requests", "rate_limit_exceeded"),
    FaultKind.OVERLOADED: ("requests", "rate_limit_exceeded"),
    FaultKind.UPSTREAM: ("server_error", "bad_gateway"),
    FaultKind.UNAVAILABLE: ("server_error", "service_unavailable"),
    FaultKind.TIMEOUT: ("server_error", "timeout"),
    FaultKind.INTERNAL: ("server_error", None),
}
"""Kind → (type, code)."""

_STATUS = {**STATUS, FaultKind.OVERLOADED: 429}
"""A 429 is waited out by every harness; a 503 is repeated dozens of times (Qwen Code), or ends the run."""

WAIT = "2"
"""Seconds to wait when overloaded and nobody said how long."""

_SENSELESS = {
    FaultKind.INVALID,
    FaultKind.AUTHENTICATION,
    FaultKind.PERMISSION,
    FaultKind.NOT_FOUND,
    FaultKind.METHOD_NOT_ALLOWED,
    FaultKind.TOO_LARGE,
    FaultKind.CONTEXT_OVERFLOW,
}
"""Kinds that a repetition can't help: OpenAI's SDKs obey the header `x-should-retry`."""


def error_object(fault: Fault) -> dict[str, Any]:
    """The value under `error`."""
    kind, code = _WORDS[fault.kind]
    param = fault.param
    if fault.kind is FaultKind.NOT_FOUND and param == "model":
        code = "model_not_found"
    if fault.kind is FaultKind.CONTEXT_OVERFLOW:
        param = "messages"
    return {"message": _message(fault), "type": kind, "param": param, "code": code}


def error_answer(fault: Fault) -> HttpAnswer:
    """The fault as a whole HTTP answer."""
    headers = {"content-type": "application/json"}
    wait = fault.retry_after or (WAIT if fault.kind is FaultKind.OVERLOADED else None)
    if wait is not None:
        headers["retry-after"] = wait
    if fault.kind in _SENSELESS:
        headers["x-should-retry"] = "false"
    return HttpAnswer(_STATUS[fault.kind], msgspec.json.encode({"error": error_object(fault)}), headers)


def _message(fault: Fault) -> str:
    """The fault's message; an overflow in the words by which harnesses know that they must compact."""
    if fault.kind is not FaultKind.CONTEXT_OVERFLOW:
        return fault.message
    if fault.window is None:
        known = "maximum context length" in fault.message
        return fault.message if known else f"This model's maximum context length is exceeded. {fault.message}"
    resulted = f"resulted in {fault.prompt_tokens} tokens" if fault.prompt_tokens is not None else "are longer"
    return (
        f"This model's maximum context length is {fault.window} tokens. However, your messages {resulted}. "
        "Please reduce the length of the messages."
    )
