"""`generationConfig` → sampling, thinking and response format."""

from typing import Any

import msgspec

from polar_capture.chat import Sampling
from polar_capture.dialects.fidelity import unmapped_in
from polar_capture.dialects.google import fields
from polar_capture.dialects.google.schemas import json_schema
from polar_capture.dialects.google.spelling import named
from polar_capture.dialects.json_body import (
    an_array,
    boolean_or_none,
    integer_or_none,
    text_or_none,
)
from polar_capture.dialects.sampling import GOOGLE, numbers, stop_strings
from polar_capture.faults import invalid

MOST_CANDIDATES = 128
MOST_TOP_LOGPROBS = 20


class Config(msgspec.Struct):
    """What a generation config asks. `show_thoughts` is off unless the client asked for thoughts, as with Google."""

    sampling: Sampling
    response_format: dict[str, Any] | None = None
    thinking: bool | None = None
    effort: str | None = None
    show_thoughts: bool = False
    unmapped: list[str] = []


def read_config(value: Any) -> Config:
    """All of a generation config; None for none. Raises CallError."""
    param = "generationConfig"
    given = {} if value is None else named(value, param)
    unmapped = unmapped_in(given, fields.GENERATION_CONFIG, f"$.{param}")
    if given.get("responseModalities") in ([], ["TEXT"], ["text"]):
        unmapped.remove(f"$.{param}.responseModalities")
    config = Config(_read_sampling(given), unmapped=unmapped)
    config.response_format = _read_format(given, config)
    if "thinkingConfig" in given:
        _read_thinking(named(given["thinkingConfig"], f"{param}.thinkingConfig"), config)
    return config


def _read_sampling(given: dict[str, Any]) -> Sampling:
    stops = an_array(given.get("stopSequences", []), "generationConfig.stopSequences")
    return Sampling(
        **numbers(given, GOOGLE, "generationConfig."),
        stop=stop_strings(stops, "generationConfig.stopSequences"),
        max_tokens=_within(given, "maxOutputTokens", 1, None),
        n=_within(given, "candidateCount", 1, MOST_CANDIDATES) or 1,
        top_logprobs=_read_logprobs(given),
    )


def _within(given: dict[str, Any], name: str, least: int, most: int | None) -> int | None:
    param = f"generationConfig.{name}"
    value = integer_or_none(given.get(name), param)
    if value is not None and (value < least or (most is not None and value > most)):
        bound = f"at least {least}" if most is None else f"from {least} to {most}"
        raise invalid(f"Invalid value at '{param}': must be {bound}, but got {value}.", param)
    return value


def _read_logprobs(given: dict[str, Any]) -> int | None:
    shown = boolean_or_none(given.get("responseLogprobs"), "generationConfig.responseLogprobs")
    top = _within(given, "logprobs", 0, MOST_TOP_LOGPROBS)
    if top and not shown:
        param = "generationConfig.logprobs"
        raise invalid("Logprobs is only allowed when responseLogprobs is true.", param)
    return (top or 0) if shown else None


def _read_format(given: dict[str, Any], config: Config) -> dict[str, Any] | None:
    if "responseFormat" in given:
        given = _flattened(given["responseFormat"], config)
    mime = text_or_none(given.get("responseMimeType"), "generationConfig.responseMimeType")
    mime = {"APPLICATION_JSON": "application/json", "TEXT_PLAIN": "text/plain"}.get(mime or "", mime)
    if mime not in (None, "text/plain", "application/json"):
        config.unmapped.append("$.generationConfig.responseMimeType")
        return None
    for name in ("responseJsonSchema", "responseSchema"):
        if name in given:
            schema = json_schema(given[name], f"generationConfig.{name}")
            return {"type": "json_schema", "json_schema": {"name": "response", "schema": schema, "strict": True}}
    return {"type": "json_object"} if mime == "application/json" else None


def _flattened(formats: Any, config: Config) -> dict[str, Any]:
    """The newer list of output formats, said in the older fields."""
    param = "generationConfig.responseFormat"
    told: dict[str, Any] = {}
    for index, item in enumerate(an_array(formats, param)):
        form = named(item, f"{param}[{index}]")
        if "text" in form:
            words = named(form.pop("text"), f"{param}[{index}].text")
            told = {"responseMimeType": words.get("mimeType"), "responseJsonSchema": words.get("schema")}
        config.unmapped += unmapped_in(form, {}, f"$.{param}[{index}]")
    return {name: item for name, item in told.items() if item is not None}


def _read_thinking(given: dict[str, Any], config: Config) -> None:
    param = "generationConfig.thinkingConfig"
    config.unmapped += unmapped_in(given, fields.THINKING, f"$.{param}")
    config.show_thoughts = boolean_or_none(given.get("includeThoughts"), f"{param}.includeThoughts") or False
    level = text_or_none(given.get("thinkingLevel"), f"{param}.thinkingLevel")
    if level and level.upper() != "THINKING_LEVEL_UNSPECIFIED":
        config.effort = level.lower()
    budget = integer_or_none(given.get("thinkingBudget"), f"{param}.thinkingBudget")
    if budget == 0:
        config.thinking = False
    elif budget is not None and budget > 0:
        config.thinking = True
        config.unmapped.append(f"$.{param}.thinkingBudget")
