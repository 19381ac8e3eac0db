"""Every field of a Messages request and what becomes of it; whatever is not named here is unmapped and reported."""

from polar_capture.dialects.fidelity import EMULATED, IGNORED, KEPT, MAPPED, REFUSED, UNMAPPED, Fields

REQUEST: Fields = {
    "model": KEPT,  # recorded, the one model answers
    "messages": MAPPED,
    "system": MAPPED,  # without its volatile lines (dialects.volatile)
    "max_tokens": MAPPED,
    "temperature": MAPPED,
    "top_p": MAPPED,
    "top_k": MAPPED,
    "stop_sequences": MAPPED,
    "tools": MAPPED,  # hosted ones are unmapped one by one
    "tool_choice": MAPPED,
    "thinking": MAPPED,  # type only
    "output_config": MAPPED,  # effort and format
    "output_format": MAPPED,  # the older place of output_config.format
    "stream": EMULATED,  # the engine never streams
    "metadata": KEPT,  # user_id holds a session id
    "diagnostics": KEPT,  # previous_message_id names the parent turn; no cache diagnosis is made
    "thread": REFUSED,  # Pi then resends the whole conversation
    "cache_control": IGNORED,
    "betas": IGNORED,
    "service_tier": UNMAPPED,
    "speed": UNMAPPED,
    "inference_geo": UNMAPPED,
    "container": UNMAPPED,
    "context_management": UNMAPPED,
    "compaction": UNMAPPED,
    "mcp_servers": UNMAPPED,
    "fallbacks": UNMAPPED,
    "safeguards": UNMAPPED,
}

OUTPUT_CONFIG: Fields = {"effort": MAPPED, "format": MAPPED, "task_budget": UNMAPPED}

THINKING: Fields = {
    "type": MAPPED,  # between_tools counts as enabled
    "budget_tokens": UNMAPPED,
    "display": UNMAPPED,  # thoughts are always shown whole: only then does their echo equal what was sampled
}

METADATA: Fields = {"user_id": KEPT}

MESSAGE: Fields = {
    "role": MAPPED,
    "content": MAPPED,
    "output_config": MAPPED,  # where it repeats the request's own
    "clear_at": UNMAPPED,  # the text stays: taking it out later would rewrite the prefix
}

TOOL: Fields = {
    "type": MAPPED,
    "name": MAPPED,
    "description": MAPPED,
    "input_schema": MAPPED,
    "strict": MAPPED,
    "defer_loading": EMULATED,  # the schema stands where the tool was discovered
    "cache_control": IGNORED,
    "eager_input_streaming": IGNORED,  # inputs come whole
    "allowed_callers": UNMAPPED,
    "input_examples": UNMAPPED,
    # of the typed client tools
    "max_characters": MAPPED,
    "display_width_px": MAPPED,
    "display_height_px": MAPPED,
    "display_number": IGNORED,
    "enable_zoom": MAPPED,
}

_PLAIN: Fields = {"type": MAPPED, "cache_control": IGNORED}

BLOCKS: dict[str, Fields] = {
    "text": {**_PLAIN, "text": MAPPED, "citations": UNMAPPED},
    "image": {**_PLAIN, "source": MAPPED},
    "document": {**_PLAIN, "source": MAPPED, "title": MAPPED, "context": MAPPED, "citations": UNMAPPED},
    "search_result": {
        **_PLAIN,
        "source": MAPPED,
        "title": MAPPED,
        "content": MAPPED,
        "citations": UNMAPPED,
    },
    "thinking": {**_PLAIN, "thinking": MAPPED, "signature": KEPT},
    "redacted_thinking": {**_PLAIN, "data": KEPT},
    "tool_use": {
        **_PLAIN,
        "id": KEPT,
        "name": MAPPED,
        "input": MAPPED,
        "caller": UNMAPPED,
        "toolset_name": UNMAPPED,
    },
    "tool_result": {
        **_PLAIN,
        "tool_use_id": KEPT,
        "content": MAPPED,
        "is_error": EMULATED,  # said in words before the result
        "toolset_name": UNMAPPED,
    },
    "tool_reference": {**_PLAIN, "tool_name": EMULATED},  # the tool is described there
    "tool_addition": {**_PLAIN, "tool": EMULATED},  # the tool is described there
    "tool_removal": {**_PLAIN, "tool": EMULATED},  # said in words
    "compaction": {
        **_PLAIN,
        "content": MAPPED,
        "encrypted_content": KEPT,
        "signature": KEPT,
        "tool_changes": UNMAPPED,
    },
}
"""Block type → its fields. Blocks of server tools are rendered as text, whatever fields they have."""

CARRIED_OF_TOOLS = frozenset(name for name, treatment in TOOL.items() if treatment is not UNMAPPED)

CARRIED: dict[str, frozenset[str]] = {
    kind: frozenset(name for name, treatment in known.items() if treatment is not UNMAPPED)
    for kind, known in BLOCKS.items()
}
"""Block type → the fields that are carried over: a block which has no other needs no closer look."""
