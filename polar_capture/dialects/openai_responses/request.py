"""A Responses request, understood: the body's fields as a ChatRequest, and what the answer needs to know of it."""

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from polar_capture.chat import ChatRequest, Message, Sampling
from polar_capture.dialects.base import ParsedCall
from polar_capture.dialects.fidelity import unmapped_in
from polar_capture.dialects.json_body import (
    an_object,
    array_or_empty,
    boolean_or_none,
    integer_or_none,
    text,
    text_or_none,
)
from polar_capture.dialects.openai_responses import compaction, fields
from polar_capture.dialects.openai_responses.hints import read_hints
from polar_capture.dialects.openai_responses.items import Item, as_items, read_items
from polar_capture.dialects.openai_responses.tools import ToolBook, read_tool_choice
from polar_capture.dialects.sampling import OPENAI, numbers, stop_strings
from polar_capture.faults import invalid

Form = Literal["response", "trigger", "endpoint"]
"""An ordinary response; a compaction by a `compaction_trigger` item; a compaction by POST /v1/responses/compact."""

ENCRYPTED_REASONING = "reasoning.encrypted_content"
TEXT_LOGPROBS = "message.output_text.logprobs"


class Asked(msgspec.Struct):
    """What the answer to a request depends on. `items` is the whole input; the first `history` of them came before.
    `unresolved` is the response whose conversation precedes the input and is not in `items` yet."""

    body: dict[str, Any]
    headers: Mapping[str, str]
    form: Form
    items: list[Item]
    history: int
    book: ToolBook
    include: frozenset[str]
    unresolved: str | None = None
    response_id: str | None = None


def understand(
    body: dict[str, Any],
    headers: Mapping[str, str],
    endpoint: bool = False,
    items: list[Item] | None = None,
    history: int = 0,
) -> ParsedCall:
    """Understand a body. `items` is the whole input where earlier history is known already, `history` how many of
    them that is. Raises CallError."""
    _refuse(body)
    previous = text_or_none(body.get("previous_response_id"), "previous_response_id")
    unresolved = previous if items is None else None
    if items is None:
        items = as_items(body.get("input"))
    book = ToolBook()
    book.declare(array_or_empty(body.get("tools"), "tools"), "tools")
    unmapped = [*_unmapped(body), *book.take_unmapped()]
    reading = read_items(_untriggered(items), book, history)
    book.close()
    unmapped += reading.unmapped
    include = _include(body)
    asked = Asked(body, headers, _form(items, endpoint), items, history, book, include, unresolved)
    chat = ChatRequest(
        model=text_or_none(body.get("model"), "model"),
        messages=[*_instructions(body), *reading.messages],
        tool_choice=read_tool_choice(body.get("tool_choice"), book, unmapped),
        parallel_tool_calls=boolean_or_none(body.get("parallel_tool_calls"), "parallel_tool_calls"),
        response_format=_response_format(body),
        sampling=_sampling(body, TEXT_LOGPROBS in include),
        effort=_effort(body),
    )
    chat.tools = book.offered
    if chat.effort == "none":
        chat.thinking = False
    if asked.form != "response":
        _ask_for_summary(chat)
    return ParsedCall(
        chat=chat,
        stream=boolean_or_none(body.get("stream"), "stream") is True,
        model_requested=chat.model,
        hints=read_hints(body, headers, asked.form != "response"),
        unmapped=unmapped,
        extra=asked,
    )


def _refuse(body: Mapping[str, Any]) -> None:
    if boolean_or_none(body.get("background"), "background"):
        raise invalid(
            "Background responses are not supported here: send the request without 'background'.", "background"
        )
    for field, instead in (
        ("conversation", "send the conversation's items in 'input', or use 'previous_response_id'"),
        ("prompt", "send the prompt's text in 'instructions' and 'input'"),
    ):
        if body.get(field) is not None:
            raise invalid(f"'{field}' names an object that is stored at OpenAI and not known here: {instead}.", field)


def _instructions(body: Mapping[str, Any]) -> list[Message]:
    given = text_or_none(body.get("instructions"), "instructions")
    return [Message("system", content=given)] if given else []


def _untriggered(items: list[Item]) -> list[Item]:
    return [item for item in items if item.get("type") != "compaction_trigger"]


def _form(items: list[Item], endpoint: bool) -> Form:
    if endpoint:
        return "endpoint"
    return "trigger" if any(item.get("type") == "compaction_trigger" for item in items) else "response"


def _ask_for_summary(chat: ChatRequest) -> None:
    """The tools stay, since they stand at the front of the prompt; the summary calls none."""
    chat.messages.append(Message("user", content=compaction.REQUEST))
    chat.response_format = None
    chat.tool_choice = None
    if chat.tools:
        chat.tool_choice = read_tool_choice("none", ToolBook(), [])


def _include(body: Mapping[str, Any]) -> frozenset[str]:
    values = array_or_empty(body.get("include"), "include")
    return frozenset(text(value, f"include[{index}]") for index, value in enumerate(values))


def _sampling(body: Mapping[str, Any], logprobs: bool) -> Sampling:
    limit = integer_or_none(body.get("max_output_tokens"), "max_output_tokens")
    if limit is not None and limit < 1:
        raise invalid(f"Invalid 'max_output_tokens': {limit} is below the minimum of 1.", "max_output_tokens")
    alternatives = integer_or_none(body.get("top_logprobs"), "top_logprobs")
    if alternatives is not None and not 0 <= alternatives <= 20:
        raise invalid(f"Invalid 'top_logprobs': {alternatives} is not between 0 and 20.", "top_logprobs")
    return Sampling(
        **numbers(body, OPENAI),
        stop=stop_strings(body.get("stop"), "stop"),
        max_tokens=limit,
        top_logprobs=(alternatives or 0) if logprobs else None,
    )


def _object(body: Mapping[str, Any], field: str) -> dict[str, Any]:
    return {} if body.get(field) is None else an_object(body[field], field)


def _effort(body: Mapping[str, Any]) -> str | None:
    return text_or_none(_object(body, "reasoning").get("effort"), "reasoning.effort")


def _response_format(body: Mapping[str, Any]) -> dict[str, Any] | None:
    """`text.format` in the form of Chat Completions, where a schema's fields are nested once more."""
    given = _object(body, "text").get("format")
    if given is None:
        return None
    form = an_object(given, "text.format")
    kind = form.get("type")
    if kind == "text":
        return None
    if kind == "json_object":
        return {"type": "json_object"}
    if kind != "json_schema":
        raise invalid(
            f"Invalid value for 'text.format.type': '{kind}'. Supported values: text, json_object, json_schema.",
            "text.format.type",
        )
    schema = {"name": text(form.get("name"), "text.format.name")}
    schema |= {field: form[field] for field in ("description", "strict") if form.get(field) is not None}
    return {"type": kind, "json_schema": schema | {"schema": an_object(form.get("schema"), "text.format.schema")}}


def _unmapped(body: Mapping[str, Any]) -> list[str]:
    paths = unmapped_in(body, fields.REQUEST)
    paths += unmapped_in(_object(body, "reasoning"), fields.REASONING, "$.reasoning")
    paths += unmapped_in(_object(body, "text"), fields.TEXT, "$.text")
    done_anyway = set()
    if body.get("truncation") == "disabled":
        done_anyway.add("$.truncation")
    if _object(body, "reasoning").get("context") in ("auto", "all_turns"):
        done_anyway.add("$.reasoning.context")
    for index, value in enumerate(array_or_empty(body.get("include"), "include")):
        if value not in (ENCRYPTED_REASONING, TEXT_LOGPROBS):
            paths.append(f"$.include[{index}]")
    return [path for path in paths if path not in done_anyway]
