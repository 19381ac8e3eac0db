"""A completion as Chat Completions says it."""

from collections.abc import Mapping
from typing import Any

import msgspec

from polar_capture.chat import Choice, Completion, ToolCall
from polar_capture.chat_normal import text_of
from polar_capture.dialects.base import ParsedCall, Reply, refuse_aborted
from polar_capture.dialects.openai_chat.logprobs import shown_entries
from polar_capture.dialects.openai_chat.request import Asked
from polar_capture.lineage.minting import Minter

FINGERPRINT = "fp_polar"
_FINISH = {
    "stop": "stop",
    "length": "length",
    "tool_calls": "tool_calls",
    "content_filter": "content_filter",
    "repetition": "length",
}


class Shown(msgspec.Struct):
    """One choice as the client sees it. `calls` are the JSON objects of its whole tool calls."""

    index: int
    content: str | None
    reasoning: str | None
    calls: list[dict[str, Any]]
    finish_reason: str
    logprobs: list[dict[str, Any]] | None


class ChatReply(Reply):
    """The whole answer. `shown` are its choices; our ids are minted here, the completion's first, then the calls'."""

    def __init__(self, call: ParsedCall, completion: Completion, minter: Minter) -> None:
        refuse_aborted(completion)
        self.asked: Asked = call.extra
        self.id = minter.once("chatcmpl-")
        self.created = minter.created
        self.model = call.model_requested or completion.model
        self.usage = usage_object(completion)
        top = call.chat.sampling.top_logprobs
        self.shown = [self._show(choice, top, minter) for choice in completion.choices]

    def json(self) -> bytes:
        return msgspec.json.encode(
            {
                "id": self.id,
                "object": "chat.completion",
                "created": self.created,
                "model": self.model,
                "choices": [self._choice_object(shown) for shown in self.shown],
                "usage": self.usage,
                "service_tier": "default",
                "system_fingerprint": FINGERPRINT,
            }
        )

    def headers(self) -> Mapping[str, str]:
        return {"x-request-id": self.id}

    def _show(self, choice: Choice, top: int | None, minter: Minter) -> Shown:
        message = choice.message
        said = message.tool_calls[:1] if self.asked.legacy_functions else message.tool_calls
        calls = [self._call_object(call, minter) for call in said]
        finish = _FINISH.get(choice.finish_reason, "stop")
        if calls and finish == "stop":
            finish = "tool_calls"  # the engine says "stop" for a named function
        if finish == "tool_calls":
            finish = ("function_call" if self.asked.legacy_functions else "tool_calls") if calls else "stop"
        content = None if message.content is None else text_of(message.content)
        return Shown(
            index=choice.index,
            content="" if content is None and not calls else content,
            reasoning=message.reasoning if self.asked.show_reasoning else None,
            calls=calls,
            finish_reason=finish,
            logprobs=shown_entries(choice, top),
        )

    def _call_object(self, call: ToolCall, minter: Minter) -> dict[str, Any]:
        function = {"name": call.name, "arguments": call.arguments}
        if self.asked.legacy_functions:
            return function
        call_id = minter.id("call_")
        if call.name in self.asked.custom_tools:
            return {"id": call_id, "type": "custom", "custom": {"name": call.name, "input": _free_text(call.arguments)}}
        return {"id": call_id, "type": "function", "function": function}

    def _choice_object(self, shown: Shown) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": shown.content, "refusal": None, "annotations": []}
        if shown.reasoning is not None:
            message["reasoning_content"] = message["reasoning"] = shown.reasoning
        if shown.calls and self.asked.legacy_functions:
            message["function_call"] = shown.calls[0]
        elif shown.calls:
            message["tool_calls"] = shown.calls
        logprobs = None if shown.logprobs is None else {"content": shown.logprobs, "refusal": None}
        return {"index": shown.index, "message": message, "logprobs": logprobs, "finish_reason": shown.finish_reason}


def _free_text(arguments: str) -> str:
    """What a custom tool gets: the one string of the function call behind it, or what the model wrote instead."""
    try:
        value = msgspec.json.decode(arguments)
    except msgspec.DecodeError:
        return arguments
    if isinstance(value, dict) and isinstance(value.get("input"), str) and len(value) == 1:
        return value["input"]
    return arguments


def usage_object(completion: Completion) -> dict[str, Any]:
    """Token counts with their details, as OpenAI nests them."""
    usage = completion.usage
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens, "audio_tokens": 0},
        "completion_tokens_details": {
            "reasoning_tokens": usage.reasoning_tokens,
            "audio_tokens": 0,
            "accepted_prediction_tokens": 0,
            "rejected_prediction_tokens": 0,
        },
    }
