"""Every field of a Responses request and what becomes of it; whatever is not named here is unmapped and reported.

Fields: https://developers.openai.com/api/reference/resources/responses/methods/create and openai-python 3.57.
"""

from polar_capture.dialects.fidelity import Fields, Treatment

_MAPPED = Treatment.MAPPED
_KEPT = Treatment.KEPT
_EMULATED = Treatment.EMULATED
_IGNORED = Treatment.IGNORED
_UNMAPPED = Treatment.UNMAPPED

REQUEST: Fields = {
    "model": _KEPT,  # recorded, the one model answers
    "input": _MAPPED,
    "instructions": _MAPPED,
    "tools": _MAPPED,  # hosted ones are unmapped one by one
    "tool_choice": _MAPPED,
    "parallel_tool_calls": _MAPPED,
    "reasoning": _MAPPED,
    "text": _MAPPED,
    "max_output_tokens": _MAPPED,
    "temperature": _MAPPED,
    "top_p": _MAPPED,
    "top_k": _MAPPED,  # of other servers, as the next five
    "min_p": _MAPPED,
    "presence_penalty": _MAPPED,
    "frequency_penalty": _MAPPED,
    "repetition_penalty": _MAPPED,
    "seed": _MAPPED,
    "stop": _MAPPED,
    "stream": _EMULATED,  # the engine never streams
    "previous_response_id": _EMULATED,  # the conversation is put in from our own store
    "generate": _EMULATED,  # false: a prewarm, answered at once
    "include": _KEPT,  # encrypted reasoning and logprobs of texts; others are unmapped
    "top_logprobs": _EMULATED,  # always asked of the engine, shown only where the client asked
    "store": _KEPT,  # false: not told again
    "metadata": _KEPT,
    "user": _KEPT,
    "safety_identifier": _KEPT,
    "prompt_cache_key": _KEPT,  # a session hint
    "prompt_cache_retention": _KEPT,
    "service_tier": _KEPT,
    "client_metadata": _KEPT,  # Codex: session, thread, turn
    "stream_id": _KEPT,
    "type": _KEPT,  # of a WebSocket's frame
    "stream_options": _IGNORED,
    "prompt_cache_options": _IGNORED,
    "background_options": _IGNORED,
    "background": Treatment.REFUSED,  # true only
    "conversation": Treatment.REFUSED,  # the conversation is with OpenAI
    "prompt": Treatment.REFUSED,  # the prompt is with OpenAI
    "truncation": _UNMAPPED,  # disabled is what is done, and not listed
    "context_management": _UNMAPPED,
    "max_tool_calls": _UNMAPPED,  # of hosted tools
    "moderation": _UNMAPPED,
    "access_programs": _UNMAPPED,
    "image": _UNMAPPED,
}

REASONING: Fields = {
    "effort": _MAPPED,
    "summary": _EMULATED,  # thoughts are always shown whole: only then does their echo equal what was sampled
    "generate_summary": _EMULATED,  # the older name of summary
    "context": _UNMAPPED,  # auto and all_turns are what is done, and not listed
    "mode": _UNMAPPED,
}

TEXT: Fields = {"format": _MAPPED, "verbosity": _UNMAPPED}

_ITEM: Fields = {
    "type": _MAPPED,
    "id": _KEPT,  # may be one of ours
    "status": _IGNORED,
    "internal_chat_message_metadata_passthrough": _KEPT,  # Codex: its turn
}
_CALL: Fields = {**_ITEM, "call_id": _MAPPED, "caller": _UNMAPPED, "async": _UNMAPPED}
_OUTPUT: Fields = {**_ITEM, "call_id": _MAPPED, "output": _MAPPED, "caller": _UNMAPPED}
_COMPACTION: Fields = {**_ITEM, "encrypted_content": _EMULATED}  # ours holds the summary

ITEMS: dict[str, Fields] = {
    "message": {
        **_ITEM,
        "role": _MAPPED,
        "content": _MAPPED,
        "phase": _IGNORED,
        "end_turn": _IGNORED,
    },
    "reasoning": {
        **_ITEM,
        "content": _MAPPED,
        "summary": _MAPPED,
        "encrypted_content": _KEPT,  # ours finds the sampled turn; another's without words is unmapped
    },
    "function_call": {**_CALL, "name": _MAPPED, "namespace": _MAPPED, "arguments": _MAPPED},
    "custom_tool_call": {**_CALL, "name": _MAPPED, "namespace": _MAPPED, "input": _MAPPED},
    "local_shell_call": {**_CALL, "action": _MAPPED},
    "shell_call": {**_CALL, "action": _MAPPED, "environment": _IGNORED, "created_by": _IGNORED},
    "apply_patch_call": {**_CALL, "operation": _MAPPED, "created_by": _IGNORED},
    "tool_search_call": {**_CALL, "arguments": _MAPPED, "execution": _IGNORED, "created_by": _IGNORED},
    "function_call_output": {**_OUTPUT, "name": _IGNORED, "namespace": _IGNORED},
    "custom_tool_call_output": {**_OUTPUT, "name": _IGNORED, "namespace": _IGNORED},
    "local_shell_call_output": _OUTPUT,
    "shell_call_output": {**_OUTPUT, "max_output_length": _IGNORED, "created_by": _IGNORED},
    "apply_patch_call_output": {**_OUTPUT, "created_by": _IGNORED},
    "computer_call_output": {**_OUTPUT, "acknowledged_safety_checks": _IGNORED},
    "tool_search_output": {
        **_ITEM,
        "call_id": _MAPPED,
        "tools": _EMULATED,  # described where they were found
        "execution": _IGNORED,
        "created_by": _IGNORED,
    },
    "additional_tools": {
        **_ITEM,
        "role": _IGNORED,
        "tools": _MAPPED,  # before the first turn; later they are described where they stand
    },
    "agent_message": {**_ITEM, "content": _MAPPED, "author": _IGNORED, "recipient": _IGNORED},
    "compaction": {**_COMPACTION, "created_by": _IGNORED},
    "compaction_summary": _COMPACTION,
    "context_compaction": _COMPACTION,
    "compaction_trigger": {**_ITEM},  # asks for a summary
    "item_reference": {**_ITEM},
}
"""Item type → its fields. Items of hosted tools are told in words, whatever fields they have, and listed."""

PART: Fields = {
    "type": _MAPPED,
    "text": _MAPPED,
    "refusal": _MAPPED,
    "encrypted_content": _MAPPED,  # Codex types the task of a spawned agent so, although it is plain text
    "image_url": _MAPPED,
    "detail": _MAPPED,
    "input_audio": _MAPPED,
    "video_url": _MAPPED,
    "filename": _MAPPED,
    "file_data": _MAPPED,  # of text files; others are named in their place and unmapped
    "file_id": _UNMAPPED,
    "file_url": _UNMAPPED,
    "annotations": _IGNORED,
    "logprobs": _IGNORED,
    "prompt_cache_breakpoint": _IGNORED,
}
"""A content part, of whatever type."""

_TOOL: Fields = {"type": _MAPPED, "allowed_callers": _UNMAPPED}
_DECLARED: Fields = {
    **_TOOL,
    "name": _MAPPED,
    "description": _MAPPED,
    "defer_loading": _EMULATED,  # the tool is described where a search finds it
    "async": _UNMAPPED,
}

TOOLS: dict[str, Fields] = {
    "function": {
        **_DECLARED,
        "parameters": _MAPPED,
        "strict": _MAPPED,
        "output_schema": _IGNORED,  # describes the client's side
        "function": _MAPPED,  # the nested form of Chat Completions
    },
    "custom": {**_DECLARED, "format": _EMULATED},  # a function of one string; the grammar is told, not enforced
    "namespace": {"type": _MAPPED, "name": _MAPPED, "description": _MAPPED, "tools": _MAPPED},
    "local_shell": _TOOL,
    "shell": {**_TOOL, "environment": _EMULATED},  # the client's own; a container at OpenAI is unmapped
    "apply_patch": _TOOL,
    "tool_search": {
        **_TOOL,
        "description": _MAPPED,
        "execution": _EMULATED,  # the client's own; the server's is unmapped
        "parameters": _MAPPED,
    },
}
"""Tool type → its fields; other types are hosted and unmapped as a whole."""
