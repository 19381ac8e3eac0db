"""A generateContent or countTokens request → the internal form."""

from typing import Any

import msgspec

from polar_capture.chat import ChatRequest
from polar_capture.dialects.base import Hints, Operation, ParsedCall, Route, WireRequest
from polar_capture.dialects.fidelity import unmapped_in
from polar_capture.dialects.google import fields
from polar_capture.dialects.google.config import read_config
from polar_capture.dialects.google.contents import Conversation
from polar_capture.dialects.google.hints import read_hints
from polar_capture.dialects.google.spelling import named
from polar_capture.dialects.google.tools import read_tools
from polar_capture.dialects.json_body import decode_object, text_or_none
from polar_capture.faults import invalid

CODE_ASSIST = "code_assist_"
"""Route names of Code Assist's wrapped calls begin with it."""
STREAM = "stream_generate_content"


class Asked(msgspec.Struct):
    """How this client wants its answer (`ParsedCall.extra`)."""

    show_thoughts: bool = False
    wrapped: bool = False
    """Code Assist: answers stand under `response`."""
    events: bool = True
    """A stream is server-sent events (alt=sse), else one JSON array."""


def parse(wire: WireRequest, route: Route) -> ParsedCall:
    """Understand one request. Raises CallError only."""
    body = named(decode_object(wire.body), "$")
    wrapped = route.name.startswith(CODE_ASSIST)
    if route.operation is Operation.COUNT_TOKENS and "generateContentRequest" in body:
        body = named(body["generateContentRequest"], "generateContentRequest")
    outer = body
    unmapped: list[str] = []
    if wrapped:
        unmapped += unmapped_in(outer, fields.CODE_ASSIST)
        if "request" not in outer:
            raise invalid("* request: request is not specified", "request")
        body = named(outer["request"], "request")
    if "cachedContent" in body:
        raise invalid(
            "CachedContent not found: cached content lives with Google only; send the contents in full.",
            "cachedContent",
        )
    unmapped += unmapped_in(body, fields.REQUEST)
    model = _model_name(route.params.get("model") or outer.get("model") or body.get("model"))
    conversation = Conversation()
    conversation.read_system(body.get("systemInstruction"))
    conversation.read_contents(body.get("contents"))
    tools = read_tools(body.get("tools"), body.get("toolConfig"))
    config = read_config(body.get("generationConfig"))
    chat = ChatRequest(
        model=model,
        messages=conversation.messages,
        tools=tools.tools,
        tool_choice=tools.choice,
        response_format=config.response_format,
        sampling=config.sampling,
        thinking=config.thinking,
        effort=config.effort,
    )
    return ParsedCall(
        chat=chat,
        stream=route.name.removeprefix(CODE_ASSIST) == STREAM,
        model_requested=model,
        hints=_hints(wire, outer, body, chat),
        unmapped=unmapped + conversation.unmapped + tools.unmapped + config.unmapped,
        extra=Asked(config.show_thoughts, wrapped, wire.query.get("alt") == "sse"),
    )


def _hints(wire: WireRequest, outer: dict[str, Any], body: dict[str, Any], chat: ChatRequest) -> Hints:
    session, prompt = body.get("sessionId"), outer.get("userPromptId")
    return read_hints(
        wire, chat, session if isinstance(session, str) else None, prompt if isinstance(prompt, str) else None
    )


def _model_name(value: Any) -> str | None:
    """The bare name: `models/gemini-x` and Vertex's long resource names end in it."""
    name = text_or_none(value, "model")
    return name.rpartition("/")[2] if name else None
