"""Request bodies for vLLM, built from the internal form. Pure."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from polar_capture.chat import ChatRequest, Content, MediaPart, Message, TextPart, Tool, ToolChoice


class Abilities(msgspec.Struct, frozen=True):
    """What a server of this version understands; the defaults are those of a server that does not tell its version."""

    reasoning_only: bool = False
    """Past thoughts are read from `reasoning`. vLLM below 0.12, and other engines, read `reasoning_content`."""
    effort_words: bool = False
    """reasoning_effort may be any of none, minimal, low, medium, high, xhigh, max; older ones refuse all but three."""
    weight_versions: bool = False
    """return_weight_versions is known (vLLM 0.33)."""


def abilities(version: str | None) -> Abilities:
    """The abilities of vLLM `version` ("0.32.0", "0.33.1.dev3+cpu"); None is an unknown server."""
    found = re.match(r"(\d+)\.(\d+)", version or "")
    if found is None:
        return Abilities()
    number = (int(found[1]), int(found[2]))
    return Abilities(
        reasoning_only=number >= (0, 12), effort_words=number >= (0, 32), weight_versions=number >= (0, 33)
    )


def chat_body(
    chat: ChatRequest,
    *,
    model: str,
    sampling: Mapping[str, Any],
    can: Abilities,
) -> bytes:
    """The body of POST /v1/chat/completions. `sampling` comes from `sampling.explicit`."""
    body = _prompt_fields(chat, model, can)
    if chat.tools:
        # vLLM refuses a tool_choice without tools.
        if chat.tool_choice is not None:
            body["tool_choice"] = _tool_choice(chat.tool_choice)
        if chat.parallel_tool_calls is not None:
            body["parallel_tool_calls"] = chat.parallel_tool_calls
    if chat.response_format is not None:
        body["response_format"] = chat.response_format
    effort = _effort(chat.effort, can)
    if effort is not None:
        body["reasoning_effort"] = effort
    body |= sampling
    # Never include_reasoning: false, which drops ids and logprobs (measured on 0.32).
    body |= {
        "stream": False,
        "logprobs": True,
        "top_logprobs": chat.sampling.top_logprobs or 0,
        "return_token_ids": True,
    }
    if can.weight_versions:
        body["return_weight_versions"] = True
    return encode(body)


def with_prompt_ids(body: bytes, prompt_ids: Sequence[int]) -> bytes:
    """A `chat_body` whose answer is sampled from exactly these ids, its messages unread (vLLM ≥ 0.32).

    Older servers ignore the field without a word: compare prompt_token_ids in the answer.
    """
    ids = msgspec.json.encode(prompt_ids)
    return b"".join((body[:-1], b',"kv_transfer_params":{"prompt_token_ids":', ids, b"}}"))


def tokenize_body(chat: ChatRequest, *, model: str, can: Abilities, add_generation_prompt: bool = True) -> bytes:
    """The body of POST /tokenize that renders the prompt of `chat_body` for the same request."""
    body = _prompt_fields(chat, model, can)
    if not add_generation_prompt:
        body["add_generation_prompt"] = False
    return encode(body)


def encode(value: Any) -> bytes:
    """JSON that every engine can read: lone surrogates become U+FFFD, for which vLLM would answer 400."""
    try:
        return msgspec.json.encode(value)
    except (
        UnicodeEncodeError,
        OverflowError,
    ):  # integers beyond 64 bits, in a schema, are the other thing msgspec refuses
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").encode()


def _prompt_fields(chat: ChatRequest, model: str, can: Abilities) -> dict[str, Any]:
    """All that decides the prompt: equal in a chat request and its /tokenize request."""
    body: dict[str, Any] = {"model": model, "messages": [_message(m, can) for m in chat.messages]}
    if chat.tools:  # never []: vLLM answers 400
        body["tools"] = [tool_object(tool) for tool in chat.tools]
    kwargs = template_kwargs(chat, can)
    if kwargs:
        body["chat_template_kwargs"] = kwargs
    if chat.continue_final:
        body["continue_final_message"] = True
        body["add_generation_prompt"] = False
    return body


def template_kwargs(chat: ChatRequest, can: Abilities) -> dict[str, Any]:
    """/tokenize knows no reasoning_effort, so what vLLM makes of it in a chat request is spelt out for both."""
    kwargs: dict[str, Any] = {}
    effort = _effort(chat.effort, can)
    if chat.thinking is not None:
        kwargs["enable_thinking"] = chat.thinking
    elif chat.effort is not None:
        kwargs["enable_thinking"] = chat.effort != "none"
    if effort is not None:
        kwargs["reasoning_effort"] = effort
    return kwargs


_OLD_EFFORTS = {"minimal": "low", "low": "low", "medium": "medium", "high": "high", "xhigh": "high", "max": "high"}


def _effort(word: str | None, can: Abilities) -> str | None:
    """The effort as this server takes it; None for words that no version knows, and for `none`, which is a switch."""
    nearest = _OLD_EFFORTS.get(word or "")
    return word if nearest is not None and can.effort_words else nearest


def _message(message: Message, can: Abilities) -> dict[str, Any]:
    wire: dict[str, Any] = {"role": message.role, "content": _content(message.content)}
    if message.content is None and not message.tool_calls:
        wire["content"] = ""  # templates concatenate it
    if message.reasoning:
        wire["reasoning"] = message.reasoning
        if not can.reasoning_only:
            wire["reasoning_content"] = message.reasoning
    if message.tool_calls:
        wire["tool_calls"] = [
            {"id": c.id, "type": "function", "function": {"name": c.name, "arguments": arguments_object(c.arguments)}}
            for c in message.tool_calls
        ]
    if message.tool_call_id is not None:
        wire["tool_call_id"] = message.tool_call_id
    if message.name is not None:
        wire["name"] = message.name
    return wire


def arguments_object(arguments: str) -> str:
    """Replayed arguments, byte for byte where they are a JSON object, else `{}`.

    vLLM 0.32 renders anything else as {} itself; older versions answer 400 and every later turn of the session fails.
    """
    try:
        msgspec.json.decode(arguments, type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, UnicodeEncodeError):
        return "{}"
    return arguments


def _content(content: Content) -> str | list[dict[str, Any]] | None:
    return content if content is None or isinstance(content, str) else [_part(part) for part in content]


def _part(part: TextPart | MediaPart) -> dict[str, Any]:
    if isinstance(part, TextPart):
        return {"type": "text", "text": part.text}
    return {"type": part.kind, part.kind: part.value}


def tool_object(tool: Tool) -> dict[str, Any]:
    """A tool as vLLM takes it."""
    function: dict[str, Any] = {"name": tool.name}
    if tool.description is not None:
        function["description"] = tool.description
    function["parameters"] = tool.parameters
    if tool.strict is not None:
        function["strict"] = tool.strict  # vLLM then holds the arguments to the schema
    return {"type": "function", "function": function}


def _tool_choice(choice: ToolChoice) -> Any:
    return {"type": "function", "function": {"name": choice.name}} if choice.mode == "function" else choice.mode
