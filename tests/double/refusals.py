"""What the double refuses before it generates, in vLLM's words."""

import itertools
from typing import Any

import msgspec

from tests.double.script import Options

Refusal = tuple[int, str, str | None]
"""Status, message, param."""

_KEYS = """
model messages tools tool_choice parallel_tool_calls response_format stream stream_options logprobs top_logprobs
return_token_ids temperature top_p top_k min_p presence_penalty frequency_penalty repetition_penalty seed stop
stop_token_ids logit_bias n max_tokens max_completion_tokens chat_template_kwargs add_generation_prompt
continue_final_message kv_transfer_params reasoning_effort structured_outputs include_reasoning request_id priority
user session_id prompt_logprobs return_tokens_as_token_ids include_stop_str_in_output ignore_eos min_tokens
skip_special_tokens spaces_between_special_tokens echo documents chat_template add_special_tokens cache_salt
"""
KNOWN_KEYS = frozenset(_KEYS.split())
"""The top-level keys of a chat request that vLLM 0.32 knows."""


def refusal(body: dict[str, Any], o: Options) -> Refusal | None:
    """What vLLM (or a strict template, by option) refuses before it generates: (status, message, param)."""
    messages = body.get("messages")
    name = body.get("model")
    if not o.any_model and name is not None and name not in (o.model, *o.aliases):
        return 404, f"The model `{name}` does not exist. Valid aliases: {', '.join([o.model, *o.aliases])}.", "model"
    if not isinstance(messages, list):
        return (
            400,
            "1 validation error:\n  {'type': 'missing', 'loc': 'body.messages', 'msg': 'Field required'}",
            "body.messages",
        )
    if not messages:
        return 400, "Cannot apply chat template to an empty conversation. Provide at least one message.", None
    if body.get("tools") == []:
        return (
            400,
            "`tools` must not be an empty array. Either provide at least one tool or omit the field entirely.",
            "tools",
        )
    if body.get("tool_choice") not in (None, "none") and not body.get("tools"):
        return 400, "When using `tool_choice`, `tools` must be set. (parameter=tool_choice)", "tool_choice"
    if body.get("stream_options") and not body.get("stream"):
        return 400, "Stream options can only be defined when `stream=True`.", "stream_options"
    if body.get("top_logprobs") and not body.get("logprobs"):
        return 400, "when using `top_logprobs`, `logprobs` must be set to true.", "top_logprobs"
    if (body.get("n") or 1) > 1 and body.get("temperature") == 0:
        return 400, f"n must be 1 when using greedy sampling, got {body['n']}.", None
    unknown = sorted(set(body) - KNOWN_KEYS)
    if o.known_keys and unknown:
        return 400, f"Extra inputs are not permitted: {', '.join(unknown)}", unknown[0]
    return _template_refusal(messages, o)


def _template_refusal(messages: list[dict[str, Any]], o: Options) -> Refusal | None:
    roles = [m.get("role") for m in messages]
    if o.system_first and any(r in ("system", "developer") for r in roles[1:]):
        return 400, "System message must be at the beginning.", None
    if o.alternation:
        turns = ["user" if r == "tool" else r for r in roles if r not in ("system", "developer")]
        if turns[:1] == ["assistant"] or any(a == b for a, b in itertools.pairwise(turns)):
            return 400, "Conversation roles must alternate user/assistant/user/assistant/...", None
    if o.strict_arguments:
        for message in messages:
            for call in message.get("tool_calls") or []:
                try:
                    msgspec.json.decode(call["function"]["arguments"])
                except msgspec.DecodeError as fault:
                    return 400, f"{fault}", None
    return None


def overrun(body: dict[str, Any], prompt: int, o: Options) -> Refusal | None:
    """What does not fit the window, in the words of vLLM 0.32 (and, for `reject_overrun`, of vLLM 0.11)."""
    limit = body.get("max_completion_tokens") or body.get("max_tokens")
    window = o.window
    if body.get("max_tokens") == 0:
        return 400, "max_tokens must be at least 1, got 0. (parameter=max_tokens, value=0)", "max_tokens"
    if isinstance(limit, int) and limit > window:
        text = f"max_tokens={limit} cannot be greater than max_model_len={window}. Please request fewer output tokens."
        return 400, f"{text} (parameter=max_tokens, value={limit})", "max_tokens"
    if prompt > window:
        text = (
            f"This model's maximum context length is {window} tokens. However, your prompt contains at least"
            f" {window + 1} input tokens, which exceeds this limit even without any output tokens. Please reduce the"
            f" length of the input prompt. (parameter=input_tokens, value={window + 1})"
        )
        return 400, text, "input_tokens"
    if o.reject_overrun and isinstance(limit, int) and prompt + limit > window:
        text = (
            f"'max_tokens' or 'max_completion_tokens' is too large: {limit}. This model's maximum context length is"
            f" {window} tokens and your request has {prompt} input tokens ({limit} > {window} - {prompt})."
        )
        return 400, text, "max_tokens"
    return None
