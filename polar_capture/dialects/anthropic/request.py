"""A Messages request → the internal form."""

from typing import Any

import msgspec

from polar_capture.chat import ChatRequest, Message, Sampling
from polar_capture.dialects.anthropic import fields
from polar_capture.dialects.anthropic.blocks import BlockReader, Pieces
from polar_capture.dialects.anthropic.hints import hears_no_pings, read_hints
from polar_capture.dialects.anthropic.history import History
from polar_capture.dialects.anthropic.reading import (
    Path,
    an_object,
    array_or_empty,
    boolean_or_none,
    integer,
    integer_or_none,
    json_path,
    number_or_none,
    object_or_empty,
    text,
    text_or_none,
    wrong,
)
from polar_capture.dialects.anthropic.tools import read_choice, read_tools
from polar_capture.dialects.base import ParsedCall, WireRequest
from polar_capture.dialects.fidelity import unmapped_in
from polar_capture.dialects.json_body import DEEPEST, decode_object
from polar_capture.dialects.volatile import without_volatile


class Asked(msgspec.Struct, frozen=True):
    """How this client wants its answer (`ParsedCall.extra`)."""

    beats: bool = False
    """The client counts no `ping` as a sign of life: silences need an event that its SDK hands on."""


def parse(wire: WireRequest, *, counting: bool) -> ParsedCall:
    """Understand one request. `counting`: it asks for the size of its prompt only. Raises CallError only."""
    body, repaired = _decode(wire.body)
    if body.get("thread") is not None:
        raise wrong(("thread",), "Extra inputs are not permitted")
    model = text(body.get("model"), ("model",))
    unmapped = unmapped_in(body, fields.REQUEST)
    if repaired:
        unmapped += [json_path(path) for path in _replaced(body, ())]
    dropped: list[dict[str, Any]] = []
    output_config = object_or_empty(body.get("output_config"), ("output_config",))
    unmapped += unmapped_in(output_config, fields.OUTPUT_CONFIG, "$.output_config")
    tools = read_tools(body.get("tools"), unmapped)
    choice, parallel = read_choice(body.get("tool_choice"), tools, unmapped)
    history = History(tools.deferred, output_config, unmapped)
    history.read(body.get("messages"))
    continues = history.closes_with_prefill(len(body["messages"]))
    system = _read_system(body.get("system"), BlockReader(tools.deferred, unmapped), dropped)
    chat = ChatRequest(
        model=model,
        messages=[*system, *history.messages],
        tools=tools.offered,
        tool_choice=choice,
        parallel_tool_calls=parallel,
        response_format=_read_format(body, output_config, unmapped),
        sampling=_read_sampling(body, counting),
        thinking=_read_thinking(body.get("thinking"), unmapped),
        effort=text_or_none(output_config.get("effort"), ("output_config", "effort")),
        continue_final=continues,
    )
    return ParsedCall(
        chat=chat,
        stream=boolean_or_none(body.get("stream"), ("stream",)) or False,
        model_requested=model,
        hints=read_hints(wire.headers, body, chat, dropped),
        unmapped=unmapped,
        dropped=dropped,
        extra=Asked(beats=hears_no_pings(wire.headers, body)),
    )


def _decode(raw: bytes) -> tuple[dict[str, Any], bool]:
    """(the body, whether lone surrogates in it were replaced by U+FFFD). The straight way is for almost all bodies."""
    try:
        body = msgspec.json.decode(raw)
    except (msgspec.DecodeError, RecursionError):
        return decode_object(raw), True
    if isinstance(body, dict) and _is_shallow(body):
        return body, False
    return decode_object(raw), False


def _is_shallow(value: Any) -> bool:
    """Whether a value nests at most DEEPEST levels."""
    level = [value]
    for _ in range(DEEPEST):
        items = [item for outer in level for item in (outer.values() if type(outer) is dict else outer)]
        level = [item for item in items if type(item) is dict or type(item) is list]
        if not level:
            return True
    return False


def _read_system(value: Any, blocks: BlockReader, dropped: list[dict[str, Any]]) -> list[Message]:
    pieces = Pieces()
    path: Path = ("system",)
    if isinstance(value, str):
        pieces.add(without_volatile(value, "$.system", dropped))
    else:
        for index, item in enumerate(array_or_empty(value, path)):
            at: Path = (*path, index)
            block = an_object(item, at)
            kind = text(block.get("type"), (*at, "type"))
            if kind == "text":
                pieces.add(without_volatile(text(block.get("text"), (*at, "text")), json_path(at), dropped))
                blocks.check(block, kind, at)
            else:
                blocks.read(block, kind, at, pieces)
    return [Message("system", pieces.content())] if pieces else []


def _read_sampling(body: dict[str, Any], counting: bool) -> Sampling:
    read_limit = integer_or_none if counting else integer
    limit = read_limit(body.get("max_tokens"), ("max_tokens",))
    if limit is not None and limit < 1:
        raise wrong(("max_tokens",), "Input should be greater than or equal to 1")
    return Sampling(
        temperature=number_or_none(body.get("temperature"), ("temperature",)),
        top_p=number_or_none(body.get("top_p"), ("top_p",)),
        top_k=integer_or_none(body.get("top_k"), ("top_k",)),
        stop=_read_stops(body.get("stop_sequences")),
        max_tokens=limit,
    )


def _read_stops(value: Any) -> list[str]:
    stops = []
    for index, item in enumerate(array_or_empty(value, ("stop_sequences",))):
        path: Path = ("stop_sequences", index)
        if not text(item, path):
            # An empty stop string would match everywhere.
            raise wrong(path, "each stop sequence must contain at least one character")
        stops.append(item)
    return stops


def _read_thinking(value: Any, unmapped: list[str]) -> bool | None:
    """Whether the client switched thinking on or off; None leaves it to the chat template."""
    if value is None:
        return None
    thinking = an_object(value, ("thinking",))
    kind = text(thinking.get("type"), ("thinking", "type"))
    unmapped += unmapped_in(thinking, fields.THINKING, "$.thinking")
    if kind == "disabled":
        return False
    if kind in ("enabled", "adaptive", "between_tools"):
        return True
    unmapped.append("$.thinking.type")
    return None


def _read_format(body: dict[str, Any], output_config: dict[str, Any], unmapped: list[str]) -> dict[str, Any] | None:
    for value, path in (
        (output_config.get("format"), ("output_config", "format")),
        (body.get("output_format"), ("output_format",)),
    ):
        if value is None:
            continue
        form = an_object(value, path)
        if text(form.get("type"), (*path, "type")) != "json_schema":
            unmapped.append(json_path(path))
            continue
        schema = an_object(form.get("schema"), (*path, "schema"))
        return {"type": "json_schema", "json_schema": {"name": "output", "schema": schema, "strict": True}}
    return None


def _replaced(value: Any, path: Path) -> list[Path]:
    """Where texts hold U+FFFD."""
    if isinstance(value, str):
        return [path] if "\ufffd" in value else []
    items: Any = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [found for step, item in items for found in _replaced(item, (*path, step))]
