"""Every field of a Messages request and what becomes of it; whatever is not named here is unmapped and reported."""

from polar_capture.dialects.fidelity import Fields, Treatment

_MAPPED = Treatment.MAPPED
_KEPT = Treatment.KEPT
_EMULATED = Treatment.EMULATED
_IGNORED = Treatment.IGNORED
_UNMAPPED = Treatment.UNMAPPED

REQUEST: Fields = {
    "model": _KEPT,  # recorded, the one model answers
    "messages": _MAPPED,
    "system": _MAPPED,  # without its volatile lines (dialects.volatile)
    "max_tokens": _MAPPED,
    "temperature": _MAPPED,
    "top_p": _MAPPED,
    "top_k": _MAPPED,
    "stop_sequences": _MAPPED,
    "tools": _MAPPED,  # hosted ones are unmapped one by one
    "tool_choice": _MAPPED,
    "thinking": _MAPPED,  # type only
    "output_config": _MAPPED,  # effort and format
    "output_format": _MAPPED,  # the older place of output_config.format
    "stream": _EMULATED,  # the engine never streams
    "metadata": _KEPT,  # user_id holds a session id
    "diagnostics": _KEPT,  # previous_message_id names the parent turn; no cache diagnosis is made
    "thread": Treatment.REFUSED,  # Pi then resends the whole conversation
    "cache_control": _IGNORED,
    "betas": _IGNORED,
    "service_tier": _UNMAPPED,
    "speed": _UNMAPPED,
    "inference_geo": _UNMAPPED,
    "container": _UNMAPPED,
    "context_management": _UNMAPPED,
    "compaction": _UNMAPPED,
    "mcp_servers": _UNMAPPED,
    "fallbacks": _UNMAPPED,
    "safeguards": _UNMAPPED,
}

OUTPUT_CONFIG: Fields = {"effort": _MAPPED, "format": _MAPPED, "task_budget": _UNMAPPED}

THINKING: Fields = {
    "type": _MAPPED,  # between_tools counts as enabled
    "budget_tokens": _UNMAPPED,
    "display": _UNMAPPED,  # thoughts are always shown whole: only then does their echo equal what was sampled
}

METADATA: Fields = {"user_id": _KEPT}

MESSAGE: Fields = {
    "role": _MAPPED,
    "content": _MAPPED,
    "output_config": _MAPPED,  # where it repeats the request's own
    "clear_at": _UNMAPPED,  # the text stays: taking it out later would rewrite the prefix
}

TOOL: Fields = {
    "type": _MAPPED,
    "name": _MAPPED,
    "description": _MAPPED,
    "input_schema": _MAPPED,
    "strict": _MAPPED,
    "defer_loading": _EMULATED,  # the schema stands where the tool was discovered
    "cache_control": _IGNORED,
    "eager_input_streaming": _IGNORED,  # inputs come whole
    "allowed_callers": _UNMAPPED,
    "input_examples": _UNMAPPED,
    # of the typed client tools
    "max_characters": _MAPPED,
    "display_width_px": _MAPPED,
    "display_height_px": _MAPPED,
    "display_number": _IGNORED,
    "enable_zoom": _MAPPED,
}

_PLAIN: Fields = {"type": _MAPPED, "cache_control": _IGNORED}

BLOCKS: dict[str, Fields] = {
    "text": {**_PLAIN, "text": _MAPPED, "citations": _UNMAPPED},
    "image": {**_PLAIN, "source": _MAPPED},
    "document": {**_PLAIN, "source": _MAPPED, "title": _MAPPED, "context": _MAPPED, "citations": _UNMAPPED},
    "search_result": {
        **_PLAIN,
        "source": _MAPPED,
        "title": _MAPPED,
        "content": _MAPPED,
        "citations": _UNMAPPED,
    },
    "thinking": {**_PLAIN, "thinking": _MAPPED, "signature": _KEPT},
    "redacted_thinking": {**_PLAIN, "data": _KEPT},
    "tool_use": {
        **_PLAIN,
        "id": _KEPT,
        "name": _MAPPED,
        "input": _MAPPED,
        "caller": _UNMAPPED,
        "toolset_name": _UNMAPPED,
    },
    "tool_result": {
        **_PLAIN,
        "tool_use_id": _KEPT,
        "content": _MAPPED,
        "is_error": _EMULATED,  # said in words before the result
        "toolset_name": _UNMAPPED,
    },
    "tool_reference": {**_PLAIN, "tool_name": _EMULATED},  # the tool is described there
    "tool_addition": {**_PLAIN, "tool": _EMULATED},  # the tool is described there
    "tool_removal": {**_PLAIN, "tool": _EMULATED},  # said in words
    "compaction": {
        **_PLAIN,
        "content": _MAPPED,
        "encrypted_content": _KEPT,
        "signature": _KEPT,
        "tool_changes": _UNMAPPED,
    },
}
"""Block type → its fields. Blocks of server tools are rendered as text, whatever fields they have."""

CARRIED_OF_TOOLS = frozenset(name for name, treatment in TOOL.items() if treatment is not _UNMAPPED)

CARRIED: dict[str, frozenset[str]] = {
    kind: frozenset(name for name, treatment in known.items() if treatment is not _UNMAPPED)
    for kind, known in BLOCKS.items()
}
"""Block type → the fields that are carried over: a block which has no other needs no closer look."""
