"""What an engine's error means: HTTP status, headers and body in, a fault out. Pure.

vLLM's wordings changed over its versions, and the numbers in them are needed: a harness compacts its history by them.
"""

import re
from collections.abc import Mapping

import msgspec

from polar_capture.faults import Fault, FaultKind

LONGEST_MESSAGE = 2000
"""Characters of an engine's message that are passed on; validation errors quote the request."""

_KINDS = {
    400: FaultKind.INVALID,
    401: FaultKind.AUTHENTICATION,
    403: FaultKind.PERMISSION,
    404: FaultKind.NOT_FOUND,
    405: FaultKind.METHOD_NOT_ALLOWED,
    408: FaultKind.TIMEOUT,
    409: FaultKind.INVALID,
    413: FaultKind.TOO_LARGE,
    415: FaultKind.INVALID,
    422: FaultKind.INVALID,
    429: FaultKind.RATE_LIMITED,
    503: FaultKind.UNAVAILABLE,
    504: FaultKind.TIMEOUT,
    529: FaultKind.UNAVAILABLE,
}

WAIT = "2"
"""Seconds to wait for an engine that is too busy and does not say how long: vLLM's full queue."""


class Window(msgspec.Struct, frozen=True):
    """What an engine said about a request that does not fit its window. Counts are tokens, None where it told none.

    `exact` is False where `prompt_tokens` is only a lower bound: from 0.13 on vLLM stops tokenising as soon as the
    prompt cannot fit beside the output that was asked.
    """

    size: int | None
    prompt_tokens: int | None
    output_tokens: int | None
    exact: bool

    @property
    def prompt_fits(self) -> bool | None:
        """Whether the prompt alone fits; None: not to be told from this message."""
        if self.size is None or self.prompt_tokens is None:
            return True if self.prompt_tokens is None and self.output_tokens else None
        if self.prompt_tokens >= self.size:
            return False
        return True if self.exact else None


_SIZE = re.compile(
    r"(?:maximum context length (?:is|of)|context length is only|maximum model length of|"
    r"max_model_len=|context length \()"
    r"\s*(\d+)"
)
_PROMPT = [
    re.compile(pattern)
    for pattern in (
        r"prompt contains (?:at least )?(\d+) input tokens",
        r"(?:has|passed) (\d+) input tokens",
        r"\((\d+) in the messages",
        r"requested (\d+) tokens in the messages",
        r"prompt \(length (\d+)\)",
        r"[Ii]nput(?: length)? \((\d+)(?: tokens)?\)",
        r"(\d+) tokens from the input messages",
    )
]
_OUTPUT = [
    re.compile(pattern)
    for pattern in (
        r"requested (\d+) output tokens",
        r"(\d+) in the completion",
        r"is too large: (\d+)",
        r"max_tokens=(\d+) cannot be greater",
        r"(\d+) tokens for the completion",
    )
]


def window_of(message: str) -> Window | None:
    """The numbers of a refusal for the window's sake; None for any other message."""
    size = _SIZE.search(message)
    if size is None:
        return None
    prompt, output = _number(_PROMPT, message), _number(_OUTPUT, message)
    window = int(size[1])
    truncated = prompt is not None and output is not None and prompt + output == window + 1
    return Window(window, prompt, output, exact=prompt is not None and "at least" not in message and not truncated)


def _number(patterns: list[re.Pattern[str]], message: str) -> int | None:
    for pattern in patterns:
        found = pattern.search(message)
        if found:
            return int(found[1])
    return None


def fault_of(status: int, headers: Mapping[str, str], body: bytes) -> Fault:
    """The fault of an answer that is not 200. Its message never holds markup of a proxy in between."""
    message, param = _told(body)
    if message is None:
        kind = headers.get("content-type", "").partition(";")[0] or "an unnamed type"
        what = "without a message" if kind == "application/json" else f"with {kind}, not with JSON"
        message = f"the engine's server answered {status} {what}"
    window = window_of(message) if status in (400, 413, 422) else None
    if window is not None and window.prompt_fits is not True:
        return Fault(
            FaultKind.CONTEXT_OVERFLOW, message, prompt_tokens=window.prompt_tokens, window=window.size, param=param
        )
    kind_of_fault = _KINDS.get(status, FaultKind.INVALID if 400 <= status < 500 else FaultKind.UPSTREAM)
    wait = headers.get("retry-after") or (WAIT if kind_of_fault is FaultKind.UNAVAILABLE else None)
    return Fault(kind_of_fault, message, retry_after=wait, param=param)


def refuses_prompt_ids(body: bytes) -> bool:
    """Whether a refusal is about the prompt ids that were sent: the messages alone may do. vLLM names the parameter."""
    return any(word in body for word in (b"prompt_token_ids", b"kv_transfer_params", b"out of vocabulary"))


class _Told(msgspec.Struct):
    """The places where engines and the proxies before them put a message."""

    error: msgspec.Raw = msgspec.Raw()
    message: str | None = None
    detail: msgspec.Raw = msgspec.Raw()
    param: str | None = None


class _Error(msgspec.Struct):
    message: str | None = None
    param: str | None = None


def _told(body: bytes) -> tuple[str | None, str | None]:
    try:
        told = msgspec.json.decode(body, type=_Told)
        if told.message:  # vLLM before 0.10
            return told.message[:LONGEST_MESSAGE], told.param
        for raw in (told.error, told.detail):
            if bytes(raw)[:1] == b'"':
                return msgspec.json.decode(raw, type=str)[:LONGEST_MESSAGE], None
        if bytes(told.error)[:1] == b"{":
            error = msgspec.json.decode(told.error, type=_Error)
            if error.message:
                return error.message[:LONGEST_MESSAGE], error.param
        if bytes(told.detail)[:1] in (b"[", b"{"):  # FastAPI's validation errors
            return bytes(told.detail).decode("utf-8", "replace")[:LONGEST_MESSAGE], None
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None, None
    return None, None
