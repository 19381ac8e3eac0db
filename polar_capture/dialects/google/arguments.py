"""Tool arguments: between the string that was sampled and the object that a `functionCall` must hold.

A sampled string need not be JSON. Then the object is `{"raw_arguments": "<the string>"}`: no function takes it, so the
harness reports an error to the model and runs nothing that the model did not say; sent back, it is the string again.
"""

from typing import Any

import msgspec

from polar_capture.dialects.json_body import decode_object
from polar_capture.faults import CallError

RAW = "raw_arguments"


def as_object(arguments: str) -> msgspec.Raw | dict[str, Any]:
    """The `args` of a call: digits and key order as sampled, on one line as an event's data must be."""
    said = arguments.strip()
    if said in ("", "null"):
        return {}
    try:
        decode_object(said.encode("utf-8", "surrogatepass"))
        return msgspec.Raw(msgspec.json.format(said, indent=-1).encode())
    except (CallError, msgspec.DecodeError, UnicodeEncodeError):
        return {RAW: arguments.encode("utf-8", "replace").decode()}


def as_string(args: dict[str, Any]) -> str:
    """The argument string of a call that a client sent back: compact JSON in its order, or the sampled string."""
    raw = args.get(RAW)
    if len(args) == 1 and isinstance(raw, str) and isinstance(as_object(raw), dict):
        return raw
    return msgspec.json.encode(args).decode()
