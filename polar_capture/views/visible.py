"""Text of a model or a harness with everything that would act, not be read, replaced by its name in angle brackets."""

import re

_NAMED = {
    0x00: "NUL", 0x07: "BEL", 0x08: "BS", 0x0D: "CR", 0x1B: "ESC", 0x7F: "DEL", 0x200B: "ZWSP", 0x200E: "LRM",
    0x200F: "RLM", 0x2028: "LSEP", 0x2029: "PSEP", 0x202A: "LRE", 0x202B: "RLE", 0x202C: "PDF", 0x202D: "LRO",
    0x202E: "RLO", 0x2066: "LRI", 0x2067: "RLI", 0x2068: "FSI", 0x2069: "PDI", 0xFEFF: "BOM",
}  # fmt: skip
_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")


def visible(text: str) -> str:
    """Control characters but line breaks and tabs, direction overrides and lone surrogates as ⟨names⟩."""
    return _UNSEEN.sub(lambda found: f"⟨{_NAMED.get(ord(found[0]), f'U+{ord(found[0]):04X}')}⟩", text)
