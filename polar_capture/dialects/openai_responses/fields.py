"""Every field of a Responses request and what becomes of it; whatever is not named here is unmapped and reported.

Fields: https://developers.openai.com/api/reference/resources/responses/methods/create and openai-python 3.57.
"""

from polar_capture.dialects.fidelity import EMULATED, IGNORED, KEPT, MAPPED, REFUSED, UNMAPPED, Fields

REQUEST: Fields = {
    "model": KEPT,  # recorded, the one model answers
    "input": MAPPED,
    "instructions": MAPPED,
    "tools": MAPPED,  # hosted ones are unmapped one by one
    "tool_choice": MAPPED,
    "parallel_tool_calls": MAPPED,
    "reasoning": MAPPED,
    "text": MAPPED,
    "max_output_tokens": MAPPED,
    "temperature": MAPPED,
    "top_p": MAPPED,
    "top_k": MAPPED,  # of other servers, as the next five
    "min_p": MAPPED,
    "presence_penalty": MAPPED,
    "frequency_penalty": MAPPED,
    "repetition_penalty": MAPPED,
    "seed": MAPPED,
    "stop": MAPPED,
    "stream": EMULATED,  # the engine never streams
    "previous_response_id": EMULATED,  # the conversation is put in from our own store
    "generate": EMULATED,  # false: a prewarm, answered at once
    "include": KEPT,  # encrypted reasoning and logprobs of texts; others are unmapped
    "top_logprobs": EMULATED,  # always asked of the engine, shown only where the client asked
    "store": KEPT,  # false: not told again
    "metadata": KEPT,
    "user": KEPT,
    "safety_identifier": KEPT,
    "prompt_cache_key": KEPT,  # a session hint
    "prompt_cache_retention": KEPT,
    "service_tier": KEPT,
    "client_metadata": KEPT,  # Codex: session, thread, turn
    "stream_id": KEPT,
    "type": KEPT,  # of a WebSocket's frame
    "stream_options": IGNORED,
    "prompt_cache_options": IGNORED,
    "background_options": IGNORED,
    "background": REFUSED,  # true only
    "conversation": REFUSED,  # the conversation is with OpenAI
    "prompt": REFUSED,  # the prompt is with OpenAI
    "truncation": UNMAPPED,  # disabled is what is done, and not listed
    "context_management": UNMAPPED,
    "max_tool_calls": UNMAPPED,  # of hosted tools
    "moderation": UNMAPPED,
    "access_programs": UNMAPPED,
    "image": UNMAPPED,
}

REASONING: Fields = {
    "effort": MAPPED,
    "summary": EMULATED,  # thoughts are always shown whole: only then does their echo equal what was sampled
    "generate_summary": EMULATED,  # the older name of summary
    "context": UNMAPPED,  # auto and all_turns are what is done, and not listed
    "mode": UNMAPPED,
}

TEXT: Fields = {"format": MAPPED, "verbosity": UNMAPPED}

_ITEM: Fields = {
    "type": MAPPED,
    "id": KEPT,  # may be one of ours
    "status": IGNORED,
    "internal_chat_message_metadata_passthrough": KEPT,  # Codex: its turn
}
_CALL: Fields = {**_ITEM, "call_id": MAPPED, "caller": UNMAPPED, "async": UNMAPPED}
_OUTPUT: Fields = {**_ITEM, "call_id": MAPPED, "output": MAPPED, "caller": UNMAPPED}
_COMPACTION: Fields = {**_ITEM, "encrypted_content": EMULATED}  # ours holds the summary

ITEMS: dict[str, Fields] = {
    "message": {
        **_ITEM,
        "role": MAPPED,
        "content": MAPPED,
        "phase": IGNORED,
        "end_turn": IGNORED,
    },
    "reasoning": {
        **_ITEM,
        "content": MAPPED,
        "summary": MAPPED,
        "encrypted_content": KEPT,  # ours finds the sampled turn; another's without words is unmapped
    },
    "function_call": {**_CALL, "name": MAPPED, "namespace": MAPPED, "arguments": MAPPED},
    "custom_tool_call": {**_CALL, "name": MAPPED, "namespace": MAPPED, "input": MAPPED},
    "local_shell_call": {**_CALL, "action": MAPPED},
    "shell_call": {**_CALL, "action": MAPPED, "environment": IGNORED, "created_by": IGNORED},
    "apply_patch_call": {**_CALL, "operation": MAPPED, "created_by": IGNORED},
    "tool_search_call": {**_CALL, "arguments": MAPPED, "execution": IGNORED, "created_by": IGNORED},
    "function_call_output": {**_OUTPUT, "name": IGNORED, "namespace": IGNORED},
    "custom_tool_call_output": {**_OUTPUT, "name": IGNORED, "namespace": IGNORED},
    "local_shell_call_output": _OUTPUT,
    "shell_call_output": {**_OUTPUT, "max_output_length": IGNORED, "created_by": IGNORED},
    "apply_patch_call_output": {**_OUTPUT, "created_by": IGNORED},
    "computer_call_output": {**_OUTPUT, "acknowledged_safety_checks": IGNORED},
    "tool_search_output": {
        **_ITEM,
        "call_id": MAPPED,
        "tools": EMULATED,  # described where they were found
        "execution": IGNORED,
        "created_by": IGNORED,
    },
    "additional_tools": {
        **_ITEM,
        "role": IGNORED,
        "tools": MAPPED,  # before the first turn; later they are described where they stand
    },
    "agent_message": {**_ITEM, "content": MAPPED, "author": IGNORED, "recipient": IGNORED},
    "compaction": {**_COMPACTION, "created_by": IGNORED},
    "compaction_summary": _COMPACTION,
    "context_compaction": _COMPACTION,
    "compaction_trigger": {**_ITEM},  # asks for a summary
    "item_reference": {**_ITEM},
}
"""Item type → its fields. Items of hosted tools are told in words, whatever fields they have, and listed."""

PART: Fields = {
    "type": MAPPED,
    "text": MAPPED,
    "refusal": MAPPED,
    "encrypted_content": MAPPED,  # Codex types the task of a spawned agent so, although it is plain text
    "image_url": MAPPED,
    "detail": MAPPED,
    "input_audio": MAPPED,
    "video_url": MAPPED,
    "filename": MAPPED,
    "file_data": MAPPED,  # of text files; others are named in their place and unmapped
    "file_id": UNMAPPED,
    "file_url": UNMAPPED,
    "annotations": IGNORED,
    "logprobs": IGNORED,
    "prompt_cache_breakpoint": IGNORED,
}
"""A content part, of whatever type."""

_TOOL: Fields = {"type": MAPPED, "allowed_callers": UNMAPPED}
_DECLARED: Fields = {
    **_TOOL,
    "name": MAPPED,
    "description": MAPPED,
    "defer_loading": EMULATED,  # the tool is described where a search finds it
    "async": UNMAPPED,
}

TOOLS: dict[str, Fields] = {
    "function": {
        **_DECLARED,
        "parameters": MAPPED,
        "strict": MAPPED,
        "output_schema": IGNORED,  # describes the client's side
        "function": MAPPED,  # the nested form of Chat Completions
    },
    "custom": {**_DECLARED, "format": EMULATED},  # a function of one string; the grammar is told, not enforced
    "namespace": {"type": MAPPED, "name": MAPPED, "description": MAPPED, "tools": MAPPED},
    "local_shell": _TOOL,
    "shell": {**_TOOL, "environment": EMULATED},  # the client's own; a container at OpenAI is unmapped
    "apply_patch": _TOOL,
    "tool_search": {
        **_TOOL,
        "description": MAPPED,
        "execution": EMULATED,  # the client's own; the server's is unmapped
        "parameters": MAPPED,
    },
}
"""Tool type → its fields; other types are hosted and unmapped as a whole."""
