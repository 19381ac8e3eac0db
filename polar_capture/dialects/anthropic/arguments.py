"""Tool arguments: between the string that was sampled and the object that a `tool_use` block must hold.

A sampled string need not be JSON. Then the block's input is `{"raw_arguments": "<the string>"}`: an input that no
tool's schema takes, so the harness reports an error to the model and runs nothing that the model did not say. When the
block comes back, the sampled string is read out of it again.
"""

from typing import Any

import msgspec

RAW = "raw_arguments"


def input_json(arguments: str) -> bytes | None:
    """The JSON object of an argument string, exactly as it was sampled; `{}` for none at all (blank or null); None
    where the string is no JSON object."""
    said = arguments.strip()
    if said in ("", "null"):
        return b"{}"
    try:
        data = said.encode()
        is_object = isinstance(msgspec.json.decode(data), dict)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return None
    return data if is_object else None


def wrapped(arguments: str) -> bytes:
    """The input that stands for an argument string which is no JSON object."""
    return msgspec.json.encode({RAW: arguments})


def argument_string(value: dict[str, Any]) -> str:
    """The argument string of an input that a client sent: compact JSON in its order of keys, or the sampled string."""
    raw = value.get(RAW)
    if len(value) == 1 and isinstance(raw, str) and input_json(raw) is None:
        return raw
    return msgspec.json.encode(value).decode()
