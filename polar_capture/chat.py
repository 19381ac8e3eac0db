"""The one internal form of a model call: what every dialect is turned into and what the engine is asked.

It is OpenAI Chat Completions as vLLM speaks it, reduced to what a prompt and its sampling need. All structs are plain
values: no I/O, no clock, no knowledge of any dialect.
"""

from typing import Any, Literal

import msgspec
import numpy as np
import numpy.typing as npt

Int32Array = npt.NDArray[np.int32]

Role = Literal["system", "user", "assistant", "tool"]


class TextPart(msgspec.Struct, frozen=True, tag_field="type", tag="text"):
    text: str


class MediaPart(msgspec.Struct, frozen=True, tag_field="type", tag="media"):
    """An image, audio or video passed on to the engine as it came.

    `kind` is the engine's part type (`image_url`, `input_audio`, `video_url`, `audio_url`), `value` the object under
    that key, for instance `{"url": "data:image/png;base64,…"}`.
    """

    kind: str
    value: dict[str, Any]


Part = TextPart | MediaPart
Content = str | list[Part] | None


class ToolCall(msgspec.Struct):
    """One function call. `arguments` is the raw string that was sampled: it need not be valid JSON."""

    id: str
    name: str
    arguments: str


class Message(msgspec.Struct, omit_defaults=True):
    """One message of the conversation.

    `echo` holds every id of ours (message, response, item and tool-call ids, signatures, encrypted contents) by which
    the client identified this message: it finds the sampled turn again and is never sent to the engine.
    """

    role: Role
    content: Content = None
    reasoning: str | None = None
    tool_calls: list[ToolCall] = []
    tool_call_id: str | None = None
    name: str | None = None
    echo: list[str] = []


class Tool(msgspec.Struct, omit_defaults=True):
    """A function the model may call. `parameters` is a JSON Schema object."""

    name: str
    description: str | None = None
    parameters: dict[str, Any] = msgspec.field(default_factory=lambda: {"type": "object", "properties": {}})
    strict: bool | None = None


class Sampling(msgspec.Struct, omit_defaults=True):
    """What the client asked of sampling; None where it did not say. Explicit defaults are the engine client's
    business."""

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    repetition_penalty: float | None = None
    seed: int | None = None
    stop: list[str] = []
    max_tokens: int | None = None
    n: int = 1
    logit_bias: dict[str, float] | None = None
    top_logprobs: int | None = None
    """How many alternatives a position the client wants to see; None: it asked for no logprobs."""


class ToolChoice(msgspec.Struct, frozen=True, omit_defaults=True):
    """`auto`, `none`, `required`, or one function by `name` (mode `function`)."""

    mode: Literal["auto", "none", "required", "function"]
    name: str | None = None


class ChatRequest(msgspec.Struct, omit_defaults=True):
    """A whole model call in internal form.

    `model` is the name the client asked for (recorded, not served). `response_format` is the Chat Completions object
    (`{"type": "json_schema", "json_schema": {...}}` or `{"type": "json_object"}`). `thinking` is True or False where
    the client switched it, None where it left it to the template. `effort` is the client's reasoning effort word.
    `continue_final` continues the last assistant message (prefill) instead of starting a new turn.
    """

    model: str | None = None
    messages: list[Message] = []
    tools: list[Tool] = []
    tool_choice: ToolChoice | None = None
    parallel_tool_calls: bool | None = None
    response_format: dict[str, Any] | None = None
    sampling: Sampling = msgspec.field(default_factory=Sampling)
    thinking: bool | None = None
    effort: str | None = None
    continue_final: bool = False


FinishReason = Literal["stop", "length", "tool_calls", "content_filter", "abort", "repetition"]


class Choice(msgspec.Struct):
    """One sampled answer.

    `token_ids` and `logprobs` are as the engine gave them (ints, floats ≤ 0, equal lengths when sound) or None where it
    gave none. `logprobs_content` is the engine's raw JSON array of logprob objects, kept undecoded for the few clients
    that ask to see it. `stop_reason` is the matched stop string or stop token id.
    """

    index: int
    message: Message
    finish_reason: str
    stop_reason: str | int | None = None
    token_ids: list[int] | None = None
    logprobs: list[float] | None = None
    logprobs_content: bytes | None = None
    weight_versions: list[dict[str, Any]] | None = None


class Usage(msgspec.Struct):
    """Token counts, as the engine reports them."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    reasoning_tokens: int = 0


class Completion(msgspec.Struct):
    """The engine's whole answer to one ChatRequest. `prompt_token_ids` is int32 [n]; None where it gave none."""

    choices: list[Choice]
    usage: Usage
    model: str = ""
    prompt_token_ids: Int32Array | None = None
