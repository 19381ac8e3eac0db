"""Tools whose schema OpenAI's models know by heart, described to ours as functions and turned back.

Only those that the client itself carries out: local_shell, shell, apply_patch and a client-side tool_search. Shapes:
openai-python, `types/responses/response_input_item.py`.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from polar_capture.chat import Tool

TEXT = {"type": "string"}
COUNT = {"type": "integer"}


class NativeTool(msgspec.Struct, frozen=True):
    """One such tool. `read` makes the item's own fields from the model's argument object, or None where it cannot;
    `write` makes the argument object from an item of the history."""

    tool: Tool
    call_type: str
    id_prefix: str
    read: Callable[[dict[str, Any]], dict[str, Any] | None]
    write: Callable[[dict[str, Any]], Any]


def _schema(required: list[str], **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _filled(value: Any) -> Any:
    """An object without its null and empty members: what the model did not say, the item still has to hold."""
    return {k: v for k, v in value.items() if v is not None and v != {}} if isinstance(value, dict) else value


def _texts(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(item, str) for item in value)


def _read_local_shell(said: dict[str, Any]) -> dict[str, Any] | None:
    if not _texts(said.get("command")):
        return None
    env = said.get("env")
    action: dict[str, Any] = {
        "type": "exec",
        "command": said["command"],
        "env": {str(k): str(v) for k, v in env.items()} if isinstance(env, dict) else {},
    }
    for field, kind in (("timeout_ms", int), ("user", str), ("working_directory", str)):
        action[field] = said[field] if isinstance(said.get(field), kind) else None
    return {"action": action}


def _write_local_shell(item: dict[str, Any]) -> Any:
    action = _filled(item.get("action"))
    return {k: v for k, v in action.items() if k != "type"} if isinstance(action, dict) else action


def _read_shell(said: dict[str, Any]) -> dict[str, Any] | None:
    if not _texts(said.get("commands")):
        return None
    limits = {f: said[f] if isinstance(said.get(f), int) else None for f in ("timeout_ms", "max_output_length")}
    return {"action": {"commands": said["commands"], **limits}, "environment": {"type": "local"}}


def _read_apply_patch(said: dict[str, Any]) -> dict[str, Any] | None:
    kind, path, diff = said.get("type"), said.get("path"), said.get("diff")
    if not isinstance(path, str):
        return None
    if kind == "delete_file":
        return {"operation": {"type": kind, "path": path}}
    if kind in ("create_file", "update_file") and isinstance(diff, str):
        return {"operation": {"type": kind, "path": path, "diff": diff}}
    return None


LOCAL_SHELL = NativeTool(
    Tool(
        "local_shell",
        "Runs a command on the user's machine and returns its output.",
        _schema(
            ["command"],
            command={"type": "array", "items": TEXT, "description": "The program and its arguments."},
            working_directory=TEXT,
            env={"type": "object", "additionalProperties": TEXT},
            timeout_ms=COUNT,
            user=TEXT,
        ),
    ),
    "local_shell_call",
    "lsh_",
    _read_local_shell,
    _write_local_shell,
)
SHELL = NativeTool(
    Tool(
        "shell",
        "Runs shell commands on the user's machine, concurrently, and returns the output of each.",
        _schema(["commands"], commands={"type": "array", "items": TEXT}, timeout_ms=COUNT, max_output_length=COUNT),
    ),
    "shell_call",
    "sh_",
    _read_shell,
    lambda item: _filled(item.get("action")),
)
APPLY_PATCH = NativeTool(
    Tool(
        "apply_patch",
        "Creates, updates or deletes one file. `diff` is the file's new content for create_file and a V4A diff for "
        "update_file; delete_file needs none.",
        _schema(
            ["type", "path"],
            type={"type": "string", "enum": ["create_file", "update_file", "delete_file"]},
            path=TEXT,
            diff=TEXT,
        ),
    ),
    "apply_patch_call",
    "apc_",
    _read_apply_patch,
    lambda item: _filled(item.get("operation")),
)
TOOL_SEARCH = NativeTool(
    Tool(
        "tool_search",
        "Searches for further tools. The tools found can be called from then on.",
        _schema(["query"], query=TEXT),
    ),
    "tool_search_call",
    "tsc_",
    lambda said: {"arguments": said, "execution": "client"},
    lambda item: item.get("arguments"),
)

NATIVE = {native.tool.name: native for native in (LOCAL_SHELL, SHELL, APPLY_PATCH, TOOL_SEARCH)}
BY_CALL_TYPE = {native.call_type: native for native in NATIVE.values()}


def offered_here(declared: dict[str, Any]) -> bool:
    """Whether the client itself carries the declared tool out; a container or a search of OpenAI's is out of reach."""
    if declared["type"] == "tool_search":
        return declared.get("execution") == "client"
    environment = declared.get("environment")
    return not (isinstance(environment, dict) and str(environment.get("type", "local")).startswith("container"))


def as_tool(declared: dict[str, Any]) -> Tool:
    """The function that stands for a declared native tool; a tool_search may bring its own words and schema."""
    native = NATIVE[declared["type"]].tool
    description, parameters = declared.get("description"), declared.get("parameters")
    return Tool(
        native.name,
        description if isinstance(description, str) else native.description,
        parameters if isinstance(parameters, dict) else native.parameters,
    )
