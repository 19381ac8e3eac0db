"""Every request field of Chat Completions and what becomes of it, extensions of other servers included."""

from polar_capture.dialects.fidelity import Fields, Treatment

_MAPPED = Treatment.MAPPED
_KEPT = Treatment.KEPT
_EMULATED = Treatment.EMULATED
_IGNORED = Treatment.IGNORED

REQUEST: Fields = {
    "messages": _MAPPED,
    "tools": _MAPPED,
    "tool_choice": _MAPPED,
    "parallel_tool_calls": _MAPPED,
    "functions": _EMULATED,  # as tools, answered in the old shape
    "function_call": _EMULATED,  # as tool_choice
    "response_format": _MAPPED,
    "max_completion_tokens": _MAPPED,  # wins over max_tokens
    "max_tokens": _MAPPED,
    "temperature": _MAPPED,
    "top_p": _MAPPED,
    "top_k": _MAPPED,
    "min_p": _MAPPED,
    "presence_penalty": _MAPPED,
    "frequency_penalty": _MAPPED,
    "repetition_penalty": _MAPPED,
    "seed": _MAPPED,
    "stop": _MAPPED,
    "n": _MAPPED,
    "logit_bias": _MAPPED,
    "logprobs": _EMULATED,  # always asked of the engine, shown only where the client asked
    "top_logprobs": _EMULATED,  # cut from what the engine gives
    "reasoning_effort": _MAPPED,
    "enable_thinking": _MAPPED,
    "thinking": _MAPPED,  # its budget is unmapped
    "thinking_budget": _MAPPED,  # 0 only; others are unmapped
    "reasoning": _MAPPED,  # OpenRouter: effort, enabled, exclude; max_tokens is unmapped
    "include_reasoning": _EMULATED,  # vLLM would drop the token ids with it: hidden by us
    "chat_template_kwargs": _MAPPED,  # enable_thinking and thinking only
    "continue_final_message": _MAPPED,
    "add_generation_prompt": _IGNORED,  # follows from continue_final_message
    "model": _KEPT,  # recorded, the one model answers
    "stream": _EMULATED,  # the engine never streams
    "stream_options": _EMULATED,  # usage in a chunk of its own; no obfuscation
    "prompt_cache_key": _KEPT,  # a session hint
    "return_token_ids": _IGNORED,  # always asked of the engine, never shown
    "audio": Treatment.UNMAPPED,
    "modalities": Treatment.UNMAPPED,  # ["text"] is no news and not listed
    "web_search_options": Treatment.UNMAPPED,
    "verbosity": Treatment.UNMAPPED,
    "prediction": _IGNORED,  # speed only
    "metadata": _IGNORED,
    "moderation": _IGNORED,
    "prompt_cache_options": _IGNORED,
    "prompt_cache_retention": _IGNORED,
    "safety_identifier": _IGNORED,
    "service_tier": _IGNORED,
    "store": _IGNORED,
    "user": _IGNORED,
    "usage": _IGNORED,  # OpenRouter's switch for usage details, which are always there
    "provider": _IGNORED,  # OpenRouter's routing
    "transforms": _IGNORED,
    "session_id": _KEPT,
}

TOOL: Fields = {
    "type": _MAPPED,
    "function": _MAPPED,
    "custom": _EMULATED,  # a function of one string
    "cache_control": _IGNORED,
}

FUNCTION: Fields = {
    "name": _MAPPED,
    "description": _MAPPED,
    "parameters": _MAPPED,
    "strict": _MAPPED,
}

CUSTOM: Fields = {
    "name": _MAPPED,
    "description": _MAPPED,
    "format": _MAPPED,  # text; a grammar is unmapped
}

REASONING: Fields = {
    "effort": _MAPPED,
    "enabled": _MAPPED,
    "exclude": _EMULATED,  # thoughts are sampled and not shown
    "summary": _IGNORED,
    "max_tokens": Treatment.UNMAPPED,
}

THINKING: Fields = {
    "type": _MAPPED,
    "clear_thinking": _IGNORED,
    "display": _IGNORED,
    "budget_tokens": Treatment.UNMAPPED,
}

PART: Fields = {
    "type": _MAPPED,
    "text": _MAPPED,
    "refusal": _MAPPED,
    "image_url": _MAPPED,
    "input_audio": _MAPPED,
    "audio_url": _MAPPED,
    "video_url": _MAPPED,
    "file": Treatment.UNMAPPED,  # named in its place
    "cache_control": _IGNORED,
    "prompt_cache_breakpoint": _IGNORED,
    "annotations": _IGNORED,
}

MESSAGE: Fields = {
    "role": _MAPPED,
    "content": _MAPPED,
    "name": _MAPPED,
    "tool_calls": _MAPPED,
    "tool_call_id": _MAPPED,
    "function_call": _EMULATED,  # as a tool call with an id made for it
    "reasoning_content": _MAPPED,
    "reasoning": _MAPPED,
    "reasoning_details": _EMULATED,  # its text, where no other field has it
    "reasoning_text": _MAPPED,
    "reasoning_opaque": _IGNORED,
    "thinking_blocks": _IGNORED,  # litellm repeats the reasoning in them
    "provider_specific_fields": _IGNORED,
    "refusal": _EMULATED,  # as text, where there is no content
    "id": _KEPT,  # may be one of ours
    "prefix": _MAPPED,
    "partial": _MAPPED,
    "annotations": _IGNORED,
    "cache_control": _IGNORED,
    "audio": Treatment.UNMAPPED,
}
