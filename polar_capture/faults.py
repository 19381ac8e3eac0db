"""Everything that can go wrong with a call, as one closed list; each dialect says it in its provider's words."""

import enum

import msgspec


class FaultKind(enum.StrEnum):
    INVALID = "invalid"  # the request itself is wrong: do not repeat it
    AUTHENTICATION = "authentication"
    PERMISSION = "permission"
    NOT_FOUND = "not_found"
    METHOD_NOT_ALLOWED = "method_not_allowed"
    TOO_LARGE = "too_large"
    CONTEXT_OVERFLOW = "context_overflow"  # the prompt does not fit the model's window
    RATE_LIMITED = "rate_limited"
    OVERLOADED = "overloaded"  # busy or draining: repeat later
    UPSTREAM = "upstream"  # the engine answered with something that is no answer
    UNAVAILABLE = "unavailable"  # no engine, or no store: nothing was generated that counts
    TIMEOUT = "timeout"
    INTERNAL = "internal"


STATUS: dict[FaultKind, int] = {
    FaultKind.INVALID: 400,
    FaultKind.AUTHENTICATION: 401,
    FaultKind.PERMISSION: 403,
    FaultKind.NOT_FOUND: 404,
    FaultKind.METHOD_NOT_ALLOWED: 405,
    FaultKind.TOO_LARGE: 413,
    FaultKind.CONTEXT_OVERFLOW: 400,
    FaultKind.RATE_LIMITED: 429,
    FaultKind.OVERLOADED: 503,
    FaultKind.UPSTREAM: 502,
    FaultKind.UNAVAILABLE: 503,
    FaultKind.TIMEOUT: 504,
    FaultKind.INTERNAL: 500,
}
"""The HTTP status of each kind; a dialect may use another where its provider does."""


class Fault(msgspec.Struct, frozen=True):
    """One fault of a call. `retry_after` is the header's value as the engine gave it (seconds or an HTTP date)."""

    kind: FaultKind
    message: str
    retry_after: str | None = None
    prompt_tokens: int | None = None
    """With CONTEXT_OVERFLOW: the size of the prompt, where known."""
    window: int | None = None
    """With CONTEXT_OVERFLOW: the model's window in tokens, where known."""
    param: str | None = None
    """The offending request field, where known."""


class CallError(Exception):
    """Raised anywhere on the way of a call; carries the fault that the client and the store get."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(f"{fault.kind}: {fault.message}")
        self.fault = fault


def invalid(message: str, param: str | None = None) -> CallError:
    """The error for a request that is wrong in itself."""
    return CallError(Fault(FaultKind.INVALID, message, param=param))
