"""Tool arguments where a dialect's call holds a JSON object: between it and the string that was sampled.

A sampled string need not be JSON. Then the object is `{"raw_arguments": "<the string>"}`: no tool's schema takes it, so
the harness reports an error to the model and runs nothing that the model did not say. When the call comes back, the
sampled string is read out of it again.
"""

from typing import Any

import msgspec

from polar_capture.dialects.json_body import DEEPEST, nests

RAW = "raw_arguments"
DEEPEST_ARGUMENTS = DEEPEST - 20
"""What comes back inside a request stands some levels deeper in it, and a body that nests too deep is refused."""


def object_json(arguments: str) -> bytes | None:
    """The JSON object of an argument string, exactly as it was sampled; `{}` for none at all (blank or null).

    None where the string is no JSON object, nests deeper than DEEPEST_ARGUMENTS levels, or holds a lone surrogate,
    plain or escaped: clients send such a text back with U+FFFD in its place, or not at all.
    """
    said = arguments.strip()
    if said in ("", "null"):
        return b"{}"
    try:
        data = said.encode()
        value = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return None
    return data if isinstance(value, dict) and not nests(value, DEEPEST_ARGUMENTS) else None


def wrapped(arguments: str) -> dict[str, Any]:
    """The object that stands for an argument string which is none; lone surrogates become question marks."""
    return {RAW: arguments.encode("utf-8", "replace").decode()}


def argument_string(value: dict[str, Any]) -> str:
    """The argument string of an object that a client sent: compact JSON in its order of keys, or the sampled string."""
    raw = value.get(RAW)
    if len(value) == 1 and isinstance(raw, str) and object_json(raw) is None:
        return raw
    return msgspec.json.encode(value).decode()
