"""What became of each field of a request: the closed list of treatments, and the report by JSON path."""

import enum
from collections.abc import Mapping
from typing import Any


class Treatment(enum.StrEnum):
    """What a dialect does with a field."""

    MAPPED = "mapped"  # carried over to the engine
    KEPT = "kept"  # shapes the answer or the record, the engine need not know
    EMULATED = "emulated"  # the same effect by other means
    REFUSED = "refused"  # a clear error: an answer without it would be wrong
    IGNORED = "ignored"  # has no bearing on what is generated
    UNMAPPED = "unmapped"  # could not be carried over: listed by path in the call's row


MAPPED, KEPT, EMULATED = Treatment.MAPPED, Treatment.KEPT, Treatment.EMULATED
REFUSED, IGNORED, UNMAPPED = Treatment.REFUSED, Treatment.IGNORED, Treatment.UNMAPPED

Fields = Mapping[str, Treatment]
"""Field name → treatment. A field that is not named is UNMAPPED: new beta fields never fail and never vanish."""


def unmapped_in(value: Mapping[str, Any], fields: Fields, path: str = "$") -> list[str]:
    """The JSON paths of the fields of `value` that were not carried over; null fields say nothing and are left out."""
    return [
        child(path, name)
        for name, item in value.items()
        if item is not None and fields.get(name, Treatment.UNMAPPED) is Treatment.UNMAPPED
    ]


def child(path: str, name: str) -> str:
    """The JSON path of a member: `$.tools` or `$['odd name']`."""
    return f"{path}.{name}" if name.isidentifier() else f"{path}[{name!r}]"
