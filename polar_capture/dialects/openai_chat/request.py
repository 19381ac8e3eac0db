"""A Chat Completions request → the internal form."""

from typing import Any

import msgspec

from polar_capture.chat import ChatRequest, Sampling
from polar_capture.dialects.base import ParsedCall, WireRequest
from polar_capture.dialects.fidelity import child, unmapped_in
from polar_capture.dialects.json_body import (
    an_object,
    boolean_or_none,
    decode_object,
    integer_or_none,
    number,
    text,
    text_or_none,
)
from polar_capture.dialects.openai_chat import fields
from polar_capture.dialects.openai_chat.hints import read_hints
from polar_capture.dialects.openai_chat.messages import Conversation
from polar_capture.dialects.openai_chat.tools import read_tools
from polar_capture.dialects.sampling import OPENAI, numbers, stop_strings
from polar_capture.faults import invalid

MOST_CHOICES = 128
MOST_TOP_LOGPROBS = 20


class Asked(msgspec.Struct):
    """How this client wants its answer (`ParsedCall.extra`)."""

    include_usage: bool = False
    show_reasoning: bool = True
    legacy_functions: bool = False
    custom_tools: frozenset[str] = frozenset()


def parse(wire: WireRequest, deployment: str | None) -> ParsedCall:
    """Understand one request. `deployment` is the model that an Azure path names. Raises CallError only."""
    body = decode_object(wire.body)
    conversation = Conversation()
    conversation.read(body.get("messages"))
    tools = read_tools(body)
    unmapped = unmapped_in(body, fields.REQUEST)
    if body.get("modalities") == ["text"]:
        unmapped.remove("$.modalities")
    unmapped += conversation.unmapped + tools.unmapped
    thinking, effort, shown = _read_thinking(body, unmapped)
    model = text_or_none(body.get("model"), "model") or deployment
    chat = ChatRequest(
        model=model,
        messages=conversation.messages,
        tools=tools.tools,
        tool_choice=tools.choice,
        parallel_tool_calls=tools.parallel,
        response_format=_read_format(body.get("response_format"), unmapped),
        sampling=_read_sampling(body),
        thinking=thinking,
        effort=effort,
        continue_final=conversation.continue_final or _continues(body, conversation),
    )
    return ParsedCall(
        chat=chat,
        stream=boolean_or_none(body.get("stream"), "stream") or False,
        model_requested=model,
        hints=read_hints(wire, body, chat),
        unmapped=unmapped,
        extra=Asked(_wants_usage(body), shown, tools.legacy, tools.custom),
    )


def _continues(body: dict[str, Any], conversation: Conversation) -> bool:
    wanted = boolean_or_none(body.get("continue_final_message"), "continue_final_message") or False
    return wanted and conversation.messages[-1].role == "assistant"


def _wants_usage(body: dict[str, Any]) -> bool:
    if body.get("stream_options") is None:
        return False
    options = an_object(body["stream_options"], "stream_options")
    return boolean_or_none(options.get("include_usage"), "stream_options.include_usage") or False


def _read_sampling(body: dict[str, Any]) -> Sampling:
    newer = integer_or_none(body.get("max_completion_tokens"), "max_completion_tokens")
    older = integer_or_none(body.get("max_tokens"), "max_tokens")
    param, limit = ("max_completion_tokens", newer) if newer is not None else ("max_tokens", older)
    if limit is not None and limit < 1:
        raise invalid(f"Invalid '{param}': integer below minimum value. Expected a value >= 1, but got {limit}.", param)
    return Sampling(
        **numbers(body, OPENAI),
        stop=stop_strings(body.get("stop"), "stop"),
        max_tokens=limit,
        n=_within("n", integer_or_none(body.get("n"), "n"), 1, MOST_CHOICES) or 1,
        logit_bias=_read_bias(body.get("logit_bias")),
        top_logprobs=_read_logprobs(body),
    )


def _within(param: str, value: int | None, least: int, most: int) -> int | None:
    if value is not None and not least <= value <= most:
        raise invalid(f"Invalid '{param}': expected an integer from {least} to {most}, but got {value}.", param)
    return value


def _read_bias(value: Any) -> dict[str, float] | None:
    if value is None:
        return None
    bias = an_object(value, "logit_bias")
    return {token: number(amount, f"logit_bias[{token!r}]") for token, amount in bias.items()} or None


def _read_logprobs(body: dict[str, Any]) -> int | None:
    shown = boolean_or_none(body.get("logprobs"), "logprobs")
    top = _within("top_logprobs", integer_or_none(body.get("top_logprobs"), "top_logprobs"), 0, MOST_TOP_LOGPROBS)
    if top and not shown:
        raise invalid("'top_logprobs' is only allowed when 'logprobs' is true.", "top_logprobs")
    return (top or 0) if shown else None


def _read_format(value: Any, unmapped: list[str]) -> dict[str, Any] | None:
    if value is None:
        return None
    form = an_object(value, "response_format")
    kind = text(form.get("type"), "response_format.type")
    if kind == "text":
        return None
    if kind == "json_schema":
        schema = an_object(form.get("json_schema"), "response_format.json_schema")
        if schema.get("schema") is not None:
            an_object(schema["schema"], "response_format.json_schema.schema")
        return form
    if kind == "json_object":
        return form
    unmapped.append("$.response_format")
    return None


def _read_thinking(body: dict[str, Any], unmapped: list[str]) -> tuple[bool | None, str | None, bool]:
    """(thinking switched, effort word, thoughts shown to the client). An explicit switch beats an effort of "none"."""
    effort = text_or_none(body.get("reasoning_effort"), "reasoning_effort")
    switch = boolean_or_none(body.get("enable_thinking"), "enable_thinking")
    shown = boolean_or_none(body.get("include_reasoning"), "include_reasoning") is not False
    if body.get("reasoning") is not None:
        reasoning = an_object(body["reasoning"], "reasoning")
        effort = effort or text_or_none(reasoning.get("effort"), "reasoning.effort")
        switch = _first(switch, boolean_or_none(reasoning.get("enabled"), "reasoning.enabled"))
        shown = shown and boolean_or_none(reasoning.get("exclude"), "reasoning.exclude") is not True
        unmapped += unmapped_in(reasoning, fields.REASONING, "$.reasoning")
    if body.get("chat_template_kwargs") is not None:
        options = an_object(body["chat_template_kwargs"], "chat_template_kwargs")
        for name in ("enable_thinking", "thinking"):
            switch = _first(switch, boolean_or_none(options.get(name), f"chat_template_kwargs.{name}"))
        unmapped += [
            child("$.chat_template_kwargs", name) for name in options if name not in ("enable_thinking", "thinking")
        ]
    switch = _first(switch, _read_switch(body.get("thinking"), unmapped))
    budget = integer_or_none(body.get("thinking_budget"), "thinking_budget")
    if budget == 0:
        switch = False
    elif budget is not None:
        unmapped.append("$.thinking_budget")
    if switch is None and effort == "none":
        switch = False
    return switch, effort, shown


def _read_switch(value: Any, unmapped: list[str]) -> bool | None:
    if value is None or isinstance(value, bool):
        return value
    thinking = an_object(value, "thinking")
    kind = text_or_none(thinking.get("type"), "thinking.type")
    unmapped += unmapped_in(thinking, fields.THINKING, "$.thinking")
    return {"enabled": True, "disabled": False}.get(kind or "")


def _first(switch: bool | None, other: bool | None) -> bool | None:
    return other if switch is None else switch
