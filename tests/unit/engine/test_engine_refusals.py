"""What engines' errors mean."""

import json

import pytest

from polar_capture.engine.refusals import LONGEST_MESSAGE, fault_of, window_of
from polar_capture.faults import FaultKind

WORDINGS = {
    # version: (message, window, prompt tokens, exact, whether the prompt alone fits)
    "0.8": (
        "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens (1000 in the messages, "
        "4000 in the completion). Please reduce the length of the messages or completion.",
        (4096, 1000, True, True),
    ),
    "0.8 prompt": (
        "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens in the messages, "
        "Please reduce the length of the messages.",
        (4096, 5000, True, False),
    ),
    "0.11 output": (
        "'max_tokens' or 'max_completion_tokens' is too large: 5000. This model's maximum context length is 4096 "
        "tokens and your request has 1000 input tokens (5000 > 4096 - 1000).",
        (4096, 1000, True, True),
    ),
    "0.11 prompt": (
        "This model's maximum context length is 4096 tokens. However, your request has 5000 input tokens. Please "
        "reduce the length of the input messages. (parameter=input_tokens, value=5000)",
        (4096, 5000, True, False),
    ),
    "0.16 truncated": (
        "You passed 1193 input tokens and requested 7000 output tokens. However, the model's context length is only "
        "8192 tokens, resulting in a maximum input length of 1192 tokens. (parameter=input_tokens, value=1193)",
        (8192, 1193, False, None),
    ),
    "0.16 prompt": (
        "You passed 4097 input tokens and requested 0 output tokens. However, the model's context length is only 4096 "
        "tokens, resulting in a maximum input length of 4096 tokens.",
        (4096, 4097, False, False),
    ),
    "0.24": (
        "This model's maximum context length is 4096 tokens. However, you requested 1000 output tokens and your prompt "
        "contains at least 3097 input tokens, for a total of at least 4097 tokens. Please reduce the length.",
        (4096, 3097, False, None),
    ),
    "0.32 prompt": (
        "This model's maximum context length is 4096 tokens. However, your prompt contains at least 4097 input tokens, "
        "which exceeds this limit even without any output tokens. (parameter=input_tokens, value=4097)",
        (4096, 4097, False, False),
    ),
    "0.32 characters": (
        "This model's maximum context length is 4096 tokens. However, your prompt contains 3000050 characters (more "
        "than 65536 characters, which is the upper bound for 4096 input tokens).",
        (4096, None, False, None),
    ),
    "0.32 output": (
        "max_tokens=5000 cannot be greater than max_model_len=4096. Please request fewer output tokens.",
        (4096, None, False, True),
    ),
    "engine": (
        "The decoder prompt (length 5000) is longer than the maximum model length of 4096. Make sure that ...",
        (4096, 5000, True, False),
    ),
    "generate": ("Input length (5000) exceeds model's maximum context length (4096).", (4096, 5000, True, False)),
    "sglang": (
        "Requested token count exceeds the model's maximum context length of 4096 tokens. You requested a total of "
        "5000 tokens: 1000 tokens from the input messages and 4000 tokens for the completion.",
        (4096, 1000, True, True),
    ),
    "sglang prompt": (
        "The input (5000 tokens) is longer than the model's context length (4096 tokens).",
        (4096, 5000, True, False),
    ),
}


@pytest.mark.parametrize(("message", "numbers"), WORDINGS.values(), ids=WORDINGS)
def test_o_errors_01_every_versions_words_for_a_full_window(message, numbers):
    window = window_of(message)
    assert (window.size, window.prompt_tokens, window.exact, window.prompt_fits) == numbers


@pytest.mark.parametrize(
    "message", ["bad tool schema", "Token id 99999 is out of vocabulary", "max_tokens must be at least 1"]
)
def test_other_messages_say_nothing_of_the_window(message):
    assert window_of(message) is None


def error(message: str, **more) -> bytes:
    return json.dumps(
        {"error": {"message": message, "type": "BadRequestError", "param": None, "code": 400} | more}
    ).encode()


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, FaultKind.INVALID),
        (401, FaultKind.AUTHENTICATION),
        (403, FaultKind.PERMISSION),
        (404, FaultKind.NOT_FOUND),
        (405, FaultKind.METHOD_NOT_ALLOWED),
        (408, FaultKind.TIMEOUT),
        (413, FaultKind.TOO_LARGE),
        (418, FaultKind.INVALID),
        (422, FaultKind.INVALID),
        (429, FaultKind.RATE_LIMITED),
        (500, FaultKind.UPSTREAM),
        (501, FaultKind.UPSTREAM),
        (502, FaultKind.UPSTREAM),
        (503, FaultKind.UNAVAILABLE),
        (504, FaultKind.TIMEOUT),
        (307, FaultKind.UPSTREAM),
    ],
)
def test_o_errors_04_statuses_keep_their_meaning(status, kind):
    fault = fault_of(status, {"retry-after": "7"}, error("bad tool schema", param="tools"))
    assert (fault.kind, fault.message, fault.param, fault.retry_after) == (kind, "bad tool schema", "tools", "7")


def test_o_errors_01_an_overflow_carries_both_numbers():
    fault = fault_of(400, {}, error(WORDINGS["0.11 prompt"][0]))
    assert (fault.kind, fault.prompt_tokens, fault.window) == (FaultKind.CONTEXT_OVERFLOW, 5000, 4096)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b'{"object": "error", "message": "old shape", "param": "x"}', "old shape"),
        (b'{"detail": "Not Found"}', "Not Found"),
        (b'{"error": "flat"}', "flat"),
        (b'{"detail": [{"loc": ["body"], "msg": "m"}]}', '[{"loc": ["body"], "msg": "m"}]'),
    ],
)
def test_messages_are_found_where_servers_put_them(body, message):
    assert fault_of(400, {}, body).message == message


@pytest.mark.parametrize(
    "body",
    [
        b"<html><body>Bad gateway</body></html>",
        b"",
        b"{",
        b"[]",
        b'"text"',
        b"\xff\xfe",
        b'{"error": {"code": 4}}',
        b'{"error": 7}',
    ],
)
def test_o_errors_06_markup_is_never_passed_on(body):
    fault = fault_of(502, {"content-type": "text/html; charset=utf-8"}, body)
    assert fault.message == "the engine's server answered 502 with text/html, not with JSON"


def test_long_messages_are_cut():
    assert len(fault_of(400, {}, error("x" * 10_000)).message) == LONGEST_MESSAGE
