"""Text columns that every database takes: PostgreSQL refuses NUL, and no UTF-8 database takes half a surrogate pair.

The escape is reversible: U+E000 (private use) begins it, followed by `0` for NUL, by `s` and four hex digits for a lone
surrogate, or by itself for a U+E000 that was there. It is applied on SQLite too, so that rows are equal on both.
"""

import re
from typing import overload

_MARK = "\ue000"
_ESCAPED = re.compile("[\x00\ue000\ud800-\udfff]")
_ESCAPE = re.compile("\ue000(0|\ue000|s[0-9a-f]{4})")


@overload
def escape(text: str) -> str: ...
@overload
def escape(text: None) -> None: ...
def escape(text: str | None) -> str | None:
    """The text as it is stored; None stays None."""
    if text is None or _ESCAPED.search(text) is None:
        return text
    return _ESCAPED.sub(_escaped, text)


@overload
def unescape(text: str) -> str: ...
@overload
def unescape(text: None) -> None: ...
def unescape(text: str | None) -> str | None:
    """The text as it was."""
    if text is None or _MARK not in text:
        return text
    return _ESCAPE.sub(_unescaped, text)


def _escaped(match: re.Match[str]) -> str:
    character = match[0]
    if character == "\x00":
        return _MARK + "0"
    return _MARK + (_MARK if character == _MARK else f"s{ord(character):04x}")


def _unescaped(match: re.Match[str]) -> str:
    code = match[1]
    if code == "0":
        return "\x00"
    return _MARK if code == _MARK else chr(int(code[1:], 16))
