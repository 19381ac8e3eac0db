"""One spelling for field names: the API takes `systemInstruction` and `system_instruction` alike, at every level."""

import functools
from typing import Any

from polar_capture.dialects.json_body import an_object


@functools.lru_cache(maxsize=512)
def camel(name: str) -> str:
    """`max_output_tokens` → `maxOutputTokens`; other names as they are."""
    head, *rest = name.split("_")
    return head + "".join(word[:1].upper() + word[1:] for word in rest) if head and rest else name


def named(value: Any, param: str) -> dict[str, Any]:
    """The object with its own field names in camel case and null fields left out; of two spellings the last counts."""
    given = an_object(value, param)
    for name, item in given.items():
        if item is None or "_" in name:
            return {camel(name): item for name, item in given.items() if item is not None}
    return given
