"""The second way to sample from given ids: render → generate → derender (vLLM with `--enable-scale-out`).

For servers whose chat requests take no ids. `/render` makes of a chat request what the engine is asked, guided decoding
and all; its `token_ids` are replaced; `/inference/v1/generate` samples; `/derender` parses thought and tool calls. The
three answers are put together into the chat completion that the server would have given.

Shapes: vLLM 0.32. What `/derender` leaves undone is done here: the finish reason of tool calls, usage, leaving the end
token out of the text. Stop strings it can't leave out, so a call that has some does not come this way.
"""

from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec

from polar_capture.chat import ChatRequest
from polar_capture.engine.answers import NotAnAnswer, TokenIds, decode
from polar_capture.engine.transport import Reply, Transport

RENDER = "/v1/chat/completions/render"
GENERATE = "/inference/v1/generate"
DERENDER = "/v1/chat/completions/derender"

T = TypeVar("T")


def gone(used: bool, status: int) -> bool:
    """Whether a server on which this way is `used` has its pages no more: it was started anew without the flag."""
    return used and status in (403, 404, 405)


def carries(chat: ChatRequest) -> bool:
    """Whether a call can be answered this way as the chat endpoint would answer it."""
    return not chat.sampling.stop


async def works(transport: Transport, url: str, body: bytes, prompt_ids: Sequence[int]) -> bool:
    """Whether a server samples from given ids this way, and reports them as its prompt. Raises transport's errors."""
    try:
        reply = await exchange(transport, url, body, prompt_ids, None)
        completion = decode(reply.body) if reply.status == 200 else None
    except NotAnAnswer:
        return False
    if completion is None or completion.prompt_token_ids is None:
        return False
    if completion.prompt_token_ids.tolist() != list(prompt_ids):
        return False
    return all(choice.token_ids and choice.logprobs is not None for choice in completion.choices)


async def exchange(transport: Transport, url: str, body: bytes, prompt_ids: Sequence[int], window: int | None) -> Reply:
    """Sample an answer to the chat request `body` from `prompt_ids`; `window` is the model's, in tokens.

    The reply holds a chat completion, or what the first of the three steps that was refused answered. Raises
    transport's errors, and NotAnAnswer for a 200 of another shape.
    """
    rendered = await transport.exchange("POST", url + RENDER, body)
    if rendered.status != 200:
        return rendered
    wanted = _with_ids(rendered.body, prompt_ids, window)
    generated = await transport.exchange("POST", url + GENERATE, wanted)
    if generated.status != 200:
        return generated
    whole = _decoded(generated.body, _Generated, "a generation")
    messages: dict[int, _Derendered] = {}
    said = {choice.index: ids for choice in whole.choices if (ids := _said(choice))}
    if said:
        derendered = await transport.exchange("POST", url + DERENDER, _derender_body(body, generated.body, said))
        if derendered.status != 200:
            return derendered
        messages = {c.index: c for c in _decoded(derendered.body, _DerenderedAnswer, "a derendered answer").choices}
    return Reply(200, generated.headers, _completion(body, whole, messages))


class _Choice(msgspec.Struct):
    index: int = 0
    finish_reason: str | None = None
    stop_reason: str | int | None = None
    token_ids: TokenIds | None = None
    weight_versions: msgspec.Raw = msgspec.Raw(b"null")


class _Generated(msgspec.Struct):
    choices: list[_Choice]
    model: str | None = None
    prompt_token_ids: msgspec.Raw = msgspec.Raw(b"null")
    usage: msgspec.Raw = msgspec.Raw(b"null")


class _Position(msgspec.Struct):
    token: str
    logprob: float | None
    bytes: msgspec.Raw = msgspec.Raw(b"null")
    top_logprobs: list[msgspec.Raw] = []


class _Logprobs(msgspec.Struct):
    content: list[_Position] | None = None


class _Derendered(msgspec.Struct):
    message: dict[str, Any]
    index: int = 0
    logprobs: _Logprobs | None = None


class _DerenderedAnswer(msgspec.Struct):
    choices: list[_Derendered]


class _Asked(msgspec.Struct):
    """What is read of our own chat request."""

    tool_choice: str | dict[str, Any] | None = None
    top_logprobs: int = 0
    model: msgspec.Raw = msgspec.Raw(b"null")


def _with_ids(rendered: bytes, prompt_ids: Sequence[int], window: int | None) -> bytes:
    """The generate request that `/render` made, for other ids. They may be longer than its own: what may be sampled is
    fitted to the window again."""
    request = _decoded(rendered, dict[str, msgspec.Raw], "a rendered request")
    sampling = _decoded(bytes(request.get("sampling_params", b"{}")), dict[str, Any], "sampling_params")
    limit = sampling.get("max_tokens")
    if window is not None and isinstance(limit, int):
        sampling["max_tokens"] = max(1, min(limit, window - len(prompt_ids)))
    request.pop("token_offsets", None)  # of the ids that are replaced
    changed = {"token_ids": list(prompt_ids), "sampling_params": sampling, "return_token_ids": True}
    return msgspec.json.encode(request | changed)


def _said(choice: _Choice) -> list[int]:
    """The ids that are text: an end token is none, though `/derender` shows it where a parser wants special tokens."""
    ids = choice.token_ids or []
    return ids[:-1] if choice.finish_reason == "stop" and not isinstance(choice.stop_reason, str) else ids


def _derender_body(body: bytes, generated: bytes, said: dict[int, list[int]]) -> bytes:
    """The request for those choices that said something: `/derender` answers 400 to one without ids."""
    answer: dict[str, Any] = _decoded(generated, dict[str, msgspec.Raw], "a generation")
    choices = _decoded(answer["choices"], list[dict[str, msgspec.Raw]], "choices")
    numbered = [(msgspec.json.decode(choice.get("index", b"0")), choice) for choice in choices]
    answer["choices"] = [choice | {"token_ids": said[index]} for index, choice in numbered if index in said]
    model = _decoded(body, _Asked, "our own request").model
    return msgspec.json.encode({"model": model, "generate_response": answer, "chat_request": msgspec.Raw(body)})


def _completion(body: bytes, whole: _Generated, messages: dict[int, _Derendered]) -> bytes:
    asked = _decoded(body, _Asked, "our own request")
    choices = []
    for choice in whole.choices:
        derendered = messages.get(choice.index) or _Derendered({"role": "assistant", "content": None})
        logprobs = derendered.logprobs
        for position in (logprobs and logprobs.content) or ():
            del position.top_logprobs[asked.top_logprobs :]  # /derender shows the sampled one always
        choices.append(
            {
                "index": choice.index,
                "message": derendered.message,
                "logprobs": logprobs,
                "finish_reason": _finish(choice, derendered.message, asked.tool_choice),
                "stop_reason": choice.stop_reason,
                "token_ids": choice.token_ids,
                "weight_versions": choice.weight_versions,
            }
        )
    return msgspec.json.encode(
        {
            "model": whole.model or "",
            "choices": choices,
            "usage": whole.usage,
            "prompt_token_ids": whole.prompt_token_ids,
        }
    )


def _finish(choice: _Choice, message: dict[str, Any], tool_choice: str | dict[str, Any] | None) -> str | None:
    """As the chat endpoint has it: `stop` behind a call of the function that was named, `tool_calls` behind others."""
    if choice.finish_reason == "abort" or not message.get("tool_calls") or isinstance(tool_choice, dict):
        return choice.finish_reason
    return "tool_calls" if tool_choice != "required" or choice.finish_reason == "stop" else choice.finish_reason


def _decoded(body: bytes, kind: type[T], what: str) -> T:
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise NotAnAnswer(f"a body that is not {what}: {error}") from None
