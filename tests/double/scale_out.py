"""The pages of vLLM 0.32's `--enable-scale-out`: what is rendered, generated and derendered. Pure."""

from typing import Any

from tests.double import toy
from tests.double.answers import error_body

PAGES = ("/v1/chat/completions/render", "/inference/v1/generate", "/v1/chat/completions/derender")
DISABLED = error_body(
    403,
    "Scale-out endpoints are disabled. Restart vllm serve with --enable-scale-out to use this endpoint.",
    kind="PermissionDeniedError",
)


def rendered(body: dict[str, Any], ids: list[int], window: int, serial: int) -> dict[str, Any]:
    """The generate request that a chat request comes to."""
    limit = body.get("max_completion_tokens") or body.get("max_tokens") or window
    sampling = {name: body[name] for name in ("temperature", "top_p", "top_k", "stop", "seed", "n") if name in body}
    sampling |= {"max_tokens": min(limit, window - len(ids)), "output_kind": 2}
    if body.get("logprobs"):
        sampling["logprobs"] = body.get("top_logprobs") or 0
    return {
        "request_id": f"chatcmpl-render-{serial}",
        "token_ids": ids,
        "token_offsets": None,
        "features": None,
        "sampling_params": sampling,
        "model": body.get("model"),
        "reasoning_ended": False,
        "return_token_ids": None,
        "output_mode": "tokens",
        "stream": False,
        "priority": 0,
    }


def as_chat(request: dict[str, Any], chat: dict[str, Any]) -> dict[str, Any]:
    """The chat request that gives the same answer as a generate request; `chat` is the one that was rendered."""
    sampling = request["sampling_params"]
    return chat | {
        "kv_transfer_params": {"prompt_token_ids": request["token_ids"]},
        "max_tokens": sampling.get("max_tokens", chat.get("max_tokens")),
        "logprobs": "logprobs" in sampling,
        "top_logprobs": sampling.get("logprobs", 0),
        "return_token_ids": True,
        "generate": request,
    }


def generated(answer: dict[str, Any], request: dict[str, Any]) -> dict[str, Any]:
    """The answer to a generate request, out of the chat completion that says the same."""
    choices = []
    for choice in answer["choices"]:
        ids = choice["token_ids"] or []
        content = (choice["logprobs"] or {}).get("content") or []
        positions = [
            {"token_id": number, "logprob": entry["logprob"], "rank": 1, "top_logprobs": []}
            for number, entry in zip(ids, content, strict=False)
        ]
        choices.append(
            {
                "index": choice["index"],
                "finish_reason": "stop" if choice["finish_reason"] == "tool_calls" else choice["finish_reason"],
                "stop_reason": choice["stop_reason"],
                "token_ids": ids,
                "weight_versions": choice.get("weight_versions"),
                "logprobs": {"content": positions} if choice["logprobs"] else None,
            }
        )
    return {
        "request_id": "generate-tokens-" + request.get("request_id", "none"),
        "model": answer["model"],
        "usage": answer.get("usage"),
        "prompt_token_ids": answer.get("prompt_token_ids") if request.get("return_token_ids") else None,
        "output_mode": "tokens",
        "choices": choices,
    }


def derendered(body: dict[str, Any]) -> dict[str, Any] | None:
    """The chat completion of a generation; None where a choice has no ids, which vLLM refuses."""
    generation, chat = body["generate_response"], body["chat_request"]
    choices = []
    for choice in generation["choices"]:
        ids = choice["token_ids"]
        if not ids:
            return None
        reasoning, content, calls = toy.parse(ids)
        if toy.END in ids:  # special tokens are kept for the parsers (measured)
            content = (content or "") + toy.NAMES[toy.END]
        items = [
            {"id": f"{n:016x}", "type": "function", "function": {"name": name, "arguments": arguments}}
            for n, (name, arguments) in enumerate(calls)
        ]
        message: dict[str, Any] = {"role": "assistant", "content": content, "reasoning": reasoning}
        if items:
            message["tool_calls"] = items
        choices.append(
            {
                "index": choice["index"],
                "message": message,
                "logprobs": {"content": [_position(p) for p in choice["logprobs"]["content"]]}
                if choice["logprobs"]
                else None,
                "finish_reason": choice["finish_reason"],
                "stop_reason": choice["stop_reason"],
                "token_ids": ids if chat.get("return_token_ids") else None,
            }
        )
    sampled = sum(len(choice["token_ids"]) for choice in generation["choices"])
    return {
        "id": generation["request_id"],
        "object": "chat.completion",
        "model": generation["model"],
        "choices": choices,
        "usage": {"prompt_tokens": 0, "total_tokens": sampled, "completion_tokens": sampled},
        "prompt_token_ids": None,
    }


def _position(entry: dict[str, Any]) -> dict[str, Any]:
    data = toy.token_bytes(entry["token_id"])
    shown = {"token": data.decode("utf-8", "replace"), "logprob": entry["logprob"], "bytes": list(data)}
    return {**shown, "top_logprobs": [shown]}
