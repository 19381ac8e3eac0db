"""Sampling parameters as requests name them: the reads that several dialects share."""

from collections.abc import Mapping
from typing import Any

from polar_capture.dialects.json_body import integer_or_none, number_or_none, text, wrong_type

OPENAI = {
    name: name
    for name in (
        "temperature", "top_p", "top_k", "min_p", "presence_penalty", "frequency_penalty", "repetition_penalty", "seed",
    )
}  # fmt: skip
"""Names of Chat Completions and Responses, those of other servers included."""

GOOGLE = {
    "temperature": "temperature",
    "top_p": "topP",
    "top_k": "topK",
    "presence_penalty": "presencePenalty",
    "frequency_penalty": "frequencyPenalty",
    "seed": "seed",
}

_INTEGERS = frozenset({"top_k", "seed"})


def numbers(body: Mapping[str, Any], names: Mapping[str, str], at: str = "") -> dict[str, Any]:
    """The numeric fields of `chat.Sampling` from a body that calls them `names`; `at` is the path of the body. Raises
    CallError."""
    return {
        field: (integer_or_none if field in _INTEGERS else number_or_none)(body.get(name), f"{at}{name}")
        for field, name in names.items()
    }


def stop_strings(value: Any, param: str) -> list[str]:
    """A string or an array of strings. Empty ones would match everywhere, and the engine refuses them: they are left
    out. Raises CallError."""
    given = [] if value is None else [value] if isinstance(value, str) else value
    if not isinstance(given, list):
        raise wrong_type(given, param, "a string or an array of strings")
    return [one for index, item in enumerate(given) if (one := text(item, f"{param}[{index}]"))]
