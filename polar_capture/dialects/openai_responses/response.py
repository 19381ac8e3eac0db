"""The response object, whole as the strictest client wants it, and the answers made of it."""

from collections.abc import Mapping
from typing import Any

import msgspec

from polar_capture.chat import Completion, Usage
from polar_capture.dialects.base import Reply
from polar_capture.dialects.openai_responses import sealed
from polar_capture.dialects.openai_responses.items import Item
from polar_capture.dialects.openai_responses.request import Asked
from polar_capture.lineage.minting import Minter

INCOMPLETE = {"length": "max_output_tokens", "repetition": "max_output_tokens", "content_filter": "content_filter"}
"""finish_reason → `incomplete_details.reason`: what was cut must not be taken as whole."""


def response_id(asked: Asked, minter: Minter) -> str:
    """The response's id, minted once: a stream shows it before the reply is composed."""
    if asked.response_id is None:
        asked.response_id = minter.id("resp_")
    return asked.response_id


def shell(asked: Asked, identifier: str, model: str) -> dict[str, Any]:
    """A response in progress: everything but output and usage. Fields that are the client's own are echoed encoded
    once."""
    body = asked.body
    return {
        "id": identifier,
        "object": "response",
        "created_at": sealed.created_at(identifier),
        "status": "in_progress",
        "background": False,
        "completed_at": None,
        "error": None,
        "incomplete_details": None,
        "instructions": body.get("instructions"),
        "max_output_tokens": body.get("max_output_tokens"),
        "max_tool_calls": body.get("max_tool_calls"),
        "metadata": _object(body.get("metadata")),
        "model": body.get("model") or model,
        "output": [],
        "parallel_tool_calls": body.get("parallel_tool_calls") is not False,
        "previous_response_id": body.get("previous_response_id"),
        "prompt_cache_key": body.get("prompt_cache_key"),
        "prompt_cache_retention": body.get("prompt_cache_retention"),
        "reasoning": {"effort": None, "summary": None, **_object(body.get("reasoning"))},
        "safety_identifier": body.get("safety_identifier"),
        "service_tier": _tier(body.get("service_tier")),
        "store": body.get("store") is not False,
        "temperature": _or(body.get("temperature"), 1.0),
        "text": {"format": {"type": "text"}, "verbosity": "medium", **_said(body.get("text"))},
        "tool_choice": _or(body.get("tool_choice"), "auto"),
        "tools": msgspec.Raw(msgspec.json.encode([_whole(tool) for tool in body.get("tools") or ()])),
        "top_logprobs": _or(body.get("top_logprobs"), 0),
        "top_p": _or(body.get("top_p"), 1.0),
        "truncation": _or(body.get("truncation"), "disabled"),
        "usage": None,
        "user": body.get("user"),
    }


def _or(value: Any, default: Any) -> Any:
    return default if value is None else value


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _said(value: Any) -> dict[str, Any]:
    return {k: v for k, v in _object(value).items() if v is not None}


def _tier(value: Any) -> Any:
    return "default" if value in (None, "auto") else value


def _whole(tool: dict[str, Any]) -> dict[str, Any]:
    """A declared tool as OpenAI echoes it: a function with its defaults filled in."""
    if tool.get("type") != "function" or "function" in tool:
        return tool
    return {"description": None, "strict": True, "parameters": None, **tool}


def usage_of(usage: Usage, completion: Completion | None = None) -> dict[str, Any]:
    """The usage object, no field of it null. Where the engine counted nothing the ids are counted."""
    prompt, sampled = usage.prompt_tokens, usage.completion_tokens
    if completion is not None and not prompt and not sampled:
        prompt = 0 if completion.prompt_token_ids is None else len(completion.prompt_token_ids)
        sampled = sum(len(choice.token_ids or ()) for choice in completion.choices)
    return {
        "input_tokens": prompt,
        "input_tokens_details": {"cached_tokens": usage.cached_tokens, "cache_write_tokens": 0},
        "output_tokens": sampled,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        "total_tokens": prompt + sampled,
    }


class ResponseReply(Reply):
    """A finished response. `output` are its items, `response` the whole object as it is sent."""

    def __init__(self, response: dict[str, Any], request_id: str | None = None) -> None:
        self.response = response
        self.output: list[Item] = response["output"]
        self._request_id = request_id

    def json(self) -> bytes:
        return msgspec.json.encode(self.response)

    def headers(self) -> Mapping[str, str]:
        return {} if self._request_id is None else {"x-request-id": self._request_id}


def finished(
    asked: Asked, identifier: str, model: str, output: list[Item], finish_reason: str, usage: dict[str, Any]
) -> dict[str, Any]:
    """The final response object."""
    response = shell(asked, identifier, model)
    cut = INCOMPLETE.get(finish_reason) if asked.form == "response" else None
    response |= {"status": "incomplete" if cut else "completed", "output": output, "usage": usage}
    if cut:
        response["incomplete_details"] = {"reason": cut}
    return response


def compacted(asked: Asked, identifier: str, output: list[Item], usage: dict[str, Any]) -> dict[str, Any]:
    """The answer of POST /v1/responses/compact: what the users said, word for word, then the compaction item."""
    kept = [_user_item(item, index) for index, item in enumerate(asked.items) if item.get("role") == "user"]
    return {
        "id": identifier,
        "object": "response.compaction",
        "created_at": sealed.created_at(identifier),
        "output": [*kept, *output],
        "usage": usage,
    }


def _user_item(item: Item, index: int) -> Item:
    content = item.get("content")
    if isinstance(content, str):
        content = [{"type": "input_text", "text": content}]
    identifier = item.get("id") if isinstance(item.get("id"), str) else f"msg_user_{index}"
    return {"id": identifier, "type": "message", "status": "completed", "role": "user", "content": content}
