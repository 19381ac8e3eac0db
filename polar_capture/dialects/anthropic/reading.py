"""Typed reads of a Messages body. A wrong type is an error naming the field as Anthropic does: `messages.0.content`."""

from typing import Any

from polar_capture.dialects.fidelity import child
from polar_capture.faults import CallError, invalid

Path = tuple[str | int, ...]
"""Where a value stands in the body: `("messages", 0, "content")`."""


def json_path(path: Path) -> str:
    """The path as `calls.unmapped` has it: `$.messages[0].content`."""
    out = "$"
    for step in path:
        out = f"{out}[{step}]" if isinstance(step, int) else child(out, step)
    return out


def wrong(path: Path, problem: str) -> CallError:
    """The error for the value at `path`."""
    dotted = ".".join(str(step) for step in path)
    return invalid(f"{dotted}: {problem}", dotted)


def text(value: Any, path: Path) -> str:
    if isinstance(value, str):
        return value
    raise wrong(path, "Field required" if value is None else "Input should be a valid string")


def text_or_none(value: Any, path: Path) -> str | None:
    return None if value is None else text(value, path)


def integer(value: Any, path: Path) -> int:
    """An integer of 64 bits; 50.0 is one too."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 63:
        return value
    raise wrong(path, "Field required" if value is None else "Input should be a valid integer")


def integer_or_none(value: Any, path: Path) -> int | None:
    return None if value is None else integer(value, path)


def number_or_none(value: Any, path: Path) -> float | None:
    if value is None:
        return None
    if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e300:
        return float(value)
    raise wrong(path, "Input should be a valid number")


def boolean_or_none(value: Any, path: Path) -> bool | None:
    if value is None or isinstance(value, bool):
        return value
    raise wrong(path, "Input should be a valid boolean")


def an_object(value: Any, path: Path) -> dict[str, Any]:
    if isinstance(value, dict):
        return value
    raise wrong(path, "Field required" if value is None else "Input should be a valid dictionary")


def object_or_empty(value: Any, path: Path) -> dict[str, Any]:
    return {} if value is None else an_object(value, path)


def an_array(value: Any, path: Path) -> list[Any]:
    if isinstance(value, list):
        return value
    raise wrong(path, "Field required" if value is None else "Input should be a valid list")


def array_or_empty(value: Any, path: Path) -> list[Any]:
    return [] if value is None else an_array(value, path)
