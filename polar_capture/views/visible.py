"""Text of a model or a harness with all that would act, or not be seen, replaced by its name in angle brackets."""

import re

_NAMED = {
    0x00: "NUL", 0x07: "BEL", 0x08: "BS", 0x0D: "CR", 0x1B: "ESC", 0x7F: "DEL", 0xAD: "SHY", 0x061C: "ALM",
    0x200B: "ZWSP", 0x200E: "LRM", 0x200F: "RLM", 0x2028: "LSEP", 0x2029: "PSEP", 0x202A: "LRE", 0x202B: "RLE",
    0x202C: "PDF", 0x202D: "LRO", 0x202E: "RLO", 0x2060: "WJ", 0x2066: "LRI", 0x2067: "RLI", 0x2068: "FSI",
    0x2069: "PDI", 0xFEFF: "BOM",
}  # fmt: skip
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)
_TAGS = 0xE0000
"""Unicode's tag characters spell ASCII that no font draws: the usual way to hide instructions in a text."""


def visible(text: str) -> str:
    """Control characters but line breaks and tabs, direction overrides, invisible characters and lone surrogates as
    ⟨names⟩."""
    return _UNSEEN.sub(lambda found: f"⟨{_name(ord(found[0]))}⟩", text)


def _name(code: int) -> str:
    if _TAGS + 0x20 <= code < _TAGS + 0x7F:
        return f"TAG {chr(code - _TAGS)}"
    return _NAMED.get(code, f"U+{code:04X}")
