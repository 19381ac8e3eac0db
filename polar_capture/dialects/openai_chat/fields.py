"""Every request field of Chat Completions and what becomes of it, extensions of other servers included."""

from polar_capture.dialects.fidelity import EMULATED, IGNORED, KEPT, MAPPED, UNMAPPED, Fields

REQUEST: Fields = {
    "messages": MAPPED,
    "tools": MAPPED,
    "tool_choice": MAPPED,
    "parallel_tool_calls": MAPPED,
    "functions": EMULATED,  # as tools, answered in the old shape
    "function_call": EMULATED,  # as tool_choice
    "response_format": MAPPED,
    "max_completion_tokens": MAPPED,  # wins over max_tokens
    "max_tokens": MAPPED,
    "temperature": MAPPED,
    "top_p": MAPPED,
    "top_k": MAPPED,
    "min_p": MAPPED,
    "presence_penalty": MAPPED,
    "frequency_penalty": MAPPED,
    "repetition_penalty": MAPPED,
    "seed": MAPPED,
    "stop": MAPPED,
    "n": MAPPED,
    "logit_bias": MAPPED,
    "logprobs": EMULATED,  # always asked of the engine, shown only where the client asked
    "top_logprobs": EMULATED,  # cut from what the engine gives
    "reasoning_effort": MAPPED,
    "enable_thinking": MAPPED,
    "thinking": MAPPED,  # its budget is unmapped
    "thinking_budget": MAPPED,  # 0 only; others are unmapped
    "reasoning": MAPPED,  # OpenRouter: effort, enabled, exclude; max_tokens is unmapped
    "include_reasoning": EMULATED,  # vLLM would drop the token ids with it: hidden by us
    "chat_template_kwargs": MAPPED,  # enable_thinking and thinking only
    "continue_final_message": MAPPED,
    "add_generation_prompt": IGNORED,  # follows from continue_final_message
    "model": KEPT,  # recorded, the one model answers
    "stream": EMULATED,  # the engine never streams
    "stream_options": EMULATED,  # usage in a chunk of its own; no obfuscation
    "prompt_cache_key": KEPT,  # a session hint
    "return_token_ids": IGNORED,  # always asked of the engine, never shown
    "audio": UNMAPPED,
    "modalities": UNMAPPED,  # ["text"] is no news and not listed
    "web_search_options": UNMAPPED,
    "verbosity": UNMAPPED,
    "prediction": IGNORED,  # speed only
    "metadata": IGNORED,
    "moderation": IGNORED,
    "prompt_cache_options": IGNORED,
    "prompt_cache_retention": IGNORED,
    "safety_identifier": IGNORED,
    "service_tier": IGNORED,
    "store": IGNORED,
    "user": IGNORED,
    "usage": IGNORED,  # OpenRouter's switch for usage details, which are always there
    "provider": IGNORED,  # OpenRouter's routing
    "transforms": IGNORED,
    "session_id": KEPT,
}

TOOL: Fields = {
    "type": MAPPED,
    "function": MAPPED,
    "custom": EMULATED,  # a function of one string
    "cache_control": IGNORED,
}

FUNCTION: Fields = {
    "name": MAPPED,
    "description": MAPPED,
    "parameters": MAPPED,
    "strict": MAPPED,
}

CUSTOM: Fields = {
    "name": MAPPED,
    "description": MAPPED,
    "format": MAPPED,  # text; a grammar is unmapped
}

REASONING: Fields = {
    "effort": MAPPED,
    "enabled": MAPPED,
    "exclude": EMULATED,  # thoughts are sampled and not shown
    "summary": IGNORED,
    "max_tokens": UNMAPPED,
}

THINKING: Fields = {
    "type": MAPPED,
    "clear_thinking": IGNORED,
    "display": IGNORED,
    "budget_tokens": UNMAPPED,
}

PART: Fields = {
    "type": MAPPED,
    "text": MAPPED,
    "refusal": MAPPED,
    "image_url": MAPPED,
    "input_audio": MAPPED,
    "audio_url": MAPPED,
    "video_url": MAPPED,
    "file": UNMAPPED,  # named in its place
    "cache_control": IGNORED,
    "prompt_cache_breakpoint": IGNORED,
    "annotations": IGNORED,
}

MESSAGE: Fields = {
    "role": MAPPED,
    "content": MAPPED,
    "name": MAPPED,
    "tool_calls": MAPPED,
    "tool_call_id": MAPPED,
    "function_call": EMULATED,  # as a tool call with an id made for it
    "reasoning_content": MAPPED,
    "reasoning": MAPPED,
    "reasoning_details": EMULATED,  # its text, where no other field has it
    "reasoning_text": MAPPED,
    "reasoning_opaque": IGNORED,
    "thinking_blocks": IGNORED,  # litellm repeats the reasoning in them
    "provider_specific_fields": IGNORED,
    "refusal": EMULATED,  # as text, where there is no content
    "id": KEPT,  # may be one of ours
    "prefix": MAPPED,
    "partial": MAPPED,
    "annotations": IGNORED,
    "cache_control": IGNORED,
    "audio": UNMAPPED,
}
