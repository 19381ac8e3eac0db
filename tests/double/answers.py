"""Answers in vLLM 0.32's shape, composed from a step. Pure."""

import itertools
from typing import Any

import msgspec

from tests.double import toy
from tests.double.script import Options, Step

LOGPROBS = (-0.1, -0.2, -0.3, -0.4, -0.5, -0.6, -0.7)


def error_body(status: int, message: str, param: str | None = None, kind: str | None = None) -> dict[str, Any]:
    """vLLM's error object."""
    names = {404: "NotFoundError", 500: "InternalServerError", 503: "Service Unavailable", 401: "Unauthorized"}
    return {
        "error": {
            "message": message,
            "type": kind or names.get(status, "BadRequestError"),
            "param": param,
            "code": status,
        }
    }


def positions(ids: list[int], values: list[float], top: int) -> list[dict[str, Any]]:
    """One logprob object a token, as many as there are values."""
    out = []
    for number, value in zip(ids, values, strict=False):
        data = toy.token_bytes(number)
        entry = {"token": data.decode("utf-8", "replace"), "logprob": value, "bytes": list(data)}
        out.append({**entry, "top_logprobs": [entry for _ in range(top)]})
    return out


def _logprobs(step: Step, body: dict[str, Any], options: Options, count: int) -> list[float]:
    if step.logprobs is not None:
        return list(itertools.islice(itertools.cycle(step.logprobs), count)) if step.logprobs else []
    if options.logprobs_mode.startswith("processed") and (body.get("top_k") == 1):
        return [0.0] * count
    return list(itertools.islice(itertools.cycle(LOGPROBS), count))


def _choice(step: Step, body: dict[str, Any], options: Options, index: int, serial: int, room: int) -> dict[str, Any]:
    reasoning = step.reasoning
    if (body.get("chat_template_kwargs") or {}).get("enable_thinking") is False:
        reasoning = None
    raw = [
        c["arguments"] if isinstance(c.get("arguments"), str) else toy.arguments_text(c.get("arguments", {}))
        for c in step.tool_calls
    ]
    calls = [(c["name"], arguments) for c, arguments in zip(step.tool_calls, raw, strict=True)]
    content = step.content if not (calls and step.content == "Hello.") else None
    finish = step.finish_reason or ("tool_calls" if calls else "stop")
    ids = step.token_ids
    if ids is None:
        ids = toy.answer_ids(reasoning, content, calls, end=finish not in ("length", "abort"))
        limit = body.get("max_completion_tokens") or body.get("max_tokens")
        limit = min(limit, room) if isinstance(limit, int) else room
        if options.honour_max_tokens and len(ids) > limit:
            ids = ids[:limit]
            reasoning, content, calls = toy.parse(ids)
            finish = "tool_calls" if calls else "length"
    message: dict[str, Any] = {
        "role": "assistant",
        "content": content,
        "refusal": None,
        "annotations": None,
        "audio": None,
        "function_call": None,
    }
    if calls:
        names = [c.get("id") for c in step.tool_calls]
        message["tool_calls"] = [
            {
                "id": names[i] or f"chatcmpl-tool-{serial:012x}{i:04x}",
                "type": "function",
                "function": {"name": name, "arguments": arguments},
            }
            for i, (name, arguments) in enumerate(calls)
        ]
    message["reasoning"] = reasoning
    wanted = bool(body.get("return_token_ids")) and options.return_ids and "token_ids" not in step.missing
    with_logprobs = bool(body.get("logprobs")) and "logprobs" not in step.missing
    values = _logprobs(step, body, options, len(ids))[: max(0, len(ids) - step.fewer_logprobs)]
    choice: dict[str, Any] = {
        "index": index,
        "message": message,
        "logprobs": {"content": positions(ids, values, body.get("top_logprobs") or 0)} if with_logprobs else None,
        "finish_reason": finish,
        "stop_reason": step.stop_reason,
        "token_ids": ids if wanted else None,
        "routed_experts": None,
    }
    if step.weight_versions is not None:
        choice["weight_versions"] = step.weight_versions
    return choice | {"_count": len(ids)}


def completion(step: Step, body: dict[str, Any], prompt: list[int], options: Options, serial: int) -> dict[str, Any]:
    """The whole answer to one chat request; `serial` makes its ids unique and repeatable."""
    room = max(0, options.window - len(prompt))
    choices = [_choice(step, body, options, i, serial, room) for i in range(body.get("n") or 1)]
    sampled = sum(choice.pop("_count") for choice in choices)
    shown = step.prompt_token_ids if step.prompt_token_ids is not None else prompt
    wanted = bool(body.get("return_token_ids")) and options.return_ids and "prompt_token_ids" not in step.missing
    answer: dict[str, Any] = {
        "id": f"chatcmpl-{serial:016x}",
        "object": "chat.completion",
        "created": 1796105766,
        "model": options.model,
        "choices": choices,
        "service_tier": None,
        "system_fingerprint": f"vllm-{options.version}-double",
        "usage": step.usage
        or {
            "prompt_tokens": len(shown),
            "total_tokens": len(shown) + sampled,
            "completion_tokens": sampled,
            "prompt_tokens_details": None,
            "completion_tokens_details": {"reasoning_tokens": 0},
        },
        "prompt_logprobs": None,
        "prompt_token_ids": shown if wanted else None,
        "prompt_text": None,
        "kv_transfer_params": None,
        "ec_transfer_params": None,
        "metrics": None,
    }
    for key in ("usage", "choices"):
        if key in step.missing:
            del answer[key]
    return answer


def canned(prompt_tokens: int, sampled: int, options: Options, turns: int = 1) -> list[bytes]:
    """Answers, already serialised, for benchmarks: realistic ids, an English-like text, full-precision logprobs. The
    prompt of each turn goes on from what the turn before sampled."""
    prompt = [(i * 7919) % 150_000 + 16 for i in range(prompt_tokens)]
    text = ("the quick brown fox jumps over the lazy dog " * (sampled // 8 + 1))[: max(0, 2 * (sampled - 1))]
    step = Step(content=text, logprobs=[-(i * 0.0137931 + 1e-4) % 3 - 3.0 for i in range(97)])
    body = {"return_token_ids": True, "logprobs": True}
    options = msgspec.structs.replace(options, window=2**31)
    made = []
    for turn in range(turns):
        step.prompt_token_ids = prompt
        answer = completion(step, body, prompt, options, 1)
        made.append(msgspec.json.encode(answer))
        prompt = [*prompt, *answer["choices"][0]["token_ids"], *((i * 31 + turn) % 150_000 + 16 for i in range(40))]
    return made
