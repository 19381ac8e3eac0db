"""Reading a client's JSON: decoding, and typed reads that name the offending field.

Every function raises `CallError` (kind INVALID) and nothing else. `param` is the field's path as OpenAI writes it,
`messages[3].content`. JSON null counts as absent wherever a reader says "or None".
"""

import json
from typing import Any

import msgspec

from polar_capture.faults import invalid

DEEPEST = 200
"""How deep a body may nest: the decoder stops near Python's own limit only, and what we build must be encoded again."""

_BOM = b"\xef\xbb\xbf"


def decode_object(body: bytes) -> dict[str, Any]:
    """The body's JSON object.

    Lone surrogates, which JavaScript clients send when they cut a text inside an emoji, become U+FFFD: no engine takes
    them, and no UTF-8 holds them.
    """
    value = _decode(body.removeprefix(_BOM))
    if not isinstance(value, dict):
        raise invalid(f"The request body must be a JSON object, not {kind_of(value)}.")
    return value


def _decode(body: bytes) -> Any:
    if not body.strip():
        raise invalid("The request body is empty; it must be a JSON object.")
    try:
        value = msgspec.json.decode(body)
    except msgspec.DecodeError as problem:
        value = _decode_lone_surrogates(body, problem)
    except RecursionError:
        raise _too_deep() from None
    if nests(value, DEEPEST):
        raise _too_deep()
    return value


def _decode_lone_surrogates(body: bytes, problem: msgspec.DecodeError) -> Any:
    """Decode what msgspec refused: it reports a lone `\\ud800` as truncated input, the standard library takes it."""
    if b"\\ud" not in body.lower():
        raise invalid(f"The request body is not valid JSON: {problem}.")
    try:
        return _replace_surrogates(json.loads(body, parse_constant=_refuse_constant))
    except (ValueError, UnicodeDecodeError) as refused:
        raise invalid(f"The request body is not valid JSON: {refused}.") from None
    except RecursionError:
        raise _too_deep() from None


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON number")


def _replace_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if isinstance(value, list):
        return [_replace_surrogates(item) for item in value]
    if isinstance(value, dict):
        return {_replace_surrogates(key): _replace_surrogates(item) for key, item in value.items()}
    if isinstance(value, float) and value in (float("inf"), float("-inf")):
        raise ValueError("number out of range")
    return value


def nests(value: Any, levels: int) -> bool:
    """Whether arrays and objects stand in each other as many levels deep, or deeper: looked at level by level, as
    recursion would cost more than the decoding."""
    level, depth = [value], 0
    while level := [
        item
        for holder in level
        for item in (holder.values() if type(holder) is dict else holder if type(holder) is list else ())
        if type(item) is dict or type(item) is list
    ]:
        depth += 1
        if depth >= levels:
            return True
    return False


def _too_deep() -> Exception:
    return invalid(f"The request body nests deeper than {DEEPEST} levels.")


def kind_of(value: Any) -> str:
    """The JSON name of a value's type, with its article."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    for types, name in (((int, float), "a number"), (str, "a string"), (list, "an array"), (dict, "an object")):
        if isinstance(value, types):
            return name
    return "something else"


def wrong_type(value: Any, param: str, expected: str) -> Exception:
    """The error for a value of another type than the field has."""
    return invalid(f"Invalid type for '{param}': expected {expected}, but got {kind_of(value)} instead.", param)


def text(value: Any, param: str) -> str:
    """A string."""
    if isinstance(value, str):
        return value
    raise wrong_type(value, param, "a string")


def text_or_none(value: Any, param: str) -> str | None:
    return None if value is None else text(value, param)


def integer(value: Any, param: str) -> int:
    """An integer; 50.0 is one too, as JSON knows one kind of number only."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool):
        if abs(value) >= 1 << 63:
            raise invalid(f"Invalid '{param}': the number is out of range.", param)
        return value
    raise wrong_type(value, param, "an integer")


def integer_or_none(value: Any, param: str) -> int | None:
    return None if value is None else integer(value, param)


def number(value: Any, param: str) -> float:
    """A number as float; whole numbers stay exact up to 2**53."""
    if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e300:
        return float(value)
    raise wrong_type(value, param, "a number")


def number_or_none(value: Any, param: str) -> float | None:
    return None if value is None else number(value, param)


def boolean_or_none(value: Any, param: str) -> bool | None:
    if value is None or isinstance(value, bool):
        return value
    raise wrong_type(value, param, "a boolean")


def an_object(value: Any, param: str) -> dict[str, Any]:
    """A JSON object."""
    if isinstance(value, dict):
        return value
    raise wrong_type(value, param, "an object")


def an_array(value: Any, param: str) -> list[Any]:
    """A JSON array."""
    if isinstance(value, list):
        return value
    raise wrong_type(value, param, "an array")


def array_or_empty(value: Any, param: str) -> list[Any]:
    return [] if value is None else an_array(value, param)
