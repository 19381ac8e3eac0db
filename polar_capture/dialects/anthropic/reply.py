"""A completion as a Messages answer: its blocks, stop reason and usage, and the JSON form."""

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from polar_capture.chat import Choice, Completion, Message, Usage
from polar_capture.dialects.arguments import object_json, wrapped
from polar_capture.dialects.base import ParsedCall, Reply
from polar_capture.faults import CallError, Fault, FaultKind
from polar_capture.lineage.minting import Minter

_SURROGATE = re.compile("[\ud800-\udfff]")


class ThinkingBlock(msgspec.Struct, tag_field="type", tag="thinking"):
    thinking: str
    signature: str


class TextBlock(msgspec.Struct, tag_field="type", tag="text"):
    text: str


class ToolUseBlock(msgspec.Struct, tag_field="type", tag="tool_use"):
    """`input` is the JSON text of an object, as it was sampled."""

    id: str
    name: str
    input: msgspec.Raw


Block = ThinkingBlock | TextBlock | ToolUseBlock


class MessagesReply(Reply):
    """One composed answer. Its blocks are sequential: thinking, text, tool calls. Raises CallError for a completion
    which is no answer (aborted, or of no known end)."""

    def __init__(self, call: ParsedCall, completion: Completion, minter: Minter) -> None:
        if not completion.choices:
            raise CallError(Fault(FaultKind.UPSTREAM, "the engine's answer holds no choice"))
        choice = completion.choices[0]
        self.message_id = minter.once("msg_")
        self.request_id = minter.once("req_")
        self.model = call.model_requested or completion.model
        self.stop_reason, self.stop_sequence = _stop(choice, call.chat.sampling.stop)
        self.content = _blocks(choice.message, cut=choice.finish_reason == "length", minter=minter)
        self.usage = usage_object(completion.usage)

    def json(self) -> bytes:
        message = message_object(self.message_id, self.model, self.usage)
        message |= {"content": self.content, "stop_reason": self.stop_reason, "stop_sequence": self.stop_sequence}
        return msgspec.json.encode(message)

    def headers(self) -> Mapping[str, str]:
        return {"request-id": self.request_id}


def message_object(message_id: str, model: str, usage: dict[str, Any]) -> dict[str, Any]:
    """A message without content and end, as `message_start` has it."""
    return {
        "id": message_id,
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "stop_details": None,
        "usage": usage,
    }


def usage_object(usage: Usage) -> dict[str, Any]:
    """Usage in Anthropic's terms: `input_tokens` are those of the prompt that no cache served."""
    told: dict[str, Any] = {
        "input_tokens": usage.prompt_tokens - usage.cached_tokens,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": usage.cached_tokens,
        "output_tokens": usage.completion_tokens,
    }
    if usage.reasoning_tokens:
        told["output_tokens_details"] = {"thinking_tokens": usage.reasoning_tokens}
    return told


def _stop(choice: Choice, stops: list[str]) -> tuple[str, str | None]:
    """(stop_reason, stop_sequence). A stop string is reported only where it is one of the client's own."""
    reason = choice.finish_reason
    if reason in ("length", "repetition"):
        # Both cut the answer short; a client that is told so asks for the rest.
        return "max_tokens", None
    if reason == "content_filter":
        return "refusal", None
    if reason not in ("stop", "tool_calls"):
        raise CallError(Fault(FaultKind.UPSTREAM, f"the engine ended the generation with {reason!r}: try again"))
    if choice.message.tool_calls:
        return "tool_use", None
    if isinstance(choice.stop_reason, str) and choice.stop_reason in stops:
        return "stop_sequence", choice.stop_reason
    return "end_turn", None


def _blocks(message: Message, *, cut: bool, minter: Minter) -> list[Block]:
    """The blocks of a sampled message. No answer at all is no block at all, which SDKs and harnesses take."""
    blocks: list[Block] = []
    if message.reasoning:
        blocks.append(ThinkingBlock(_sound(message.reasoning), minter.opaque("thinking-0")))
    text = message.content if isinstance(message.content, str) else ""
    if text.strip() or (text and not message.tool_calls):  # blanks before a call are no block, as at Anthropic
        blocks.append(TextBlock(_sound(text)))
    for call in message.tool_calls:
        arguments = object_json(call.arguments)
        if arguments is None and cut:
            # A call that the token limit cut in half is no call: harnesses run every tool_use block they get.
            blocks.append(TextBlock(_sound(f"{call.name} {call.arguments}")))
            continue
        given = msgspec.json.encode(wrapped(_sound(call.arguments))) if arguments is None else arguments
        blocks.append(ToolUseBlock(minter.id("toolu_"), _sound(call.name), msgspec.Raw(given)))
    return blocks


def _sound(text: str) -> str:
    """A text that UTF-8 can hold."""
    return text if text.isascii() else _SURROGATE.sub("\ufffd", text)
