"""The schemas of Anthropic's typed client tools, which requests name only by type (`bash_20250124`).

The model behind us was not trained on them, so they are offered as functions with the inputs that their documentation
gives: https://docs.anthropic.com/en/docs/agents-and-tools/tool-use (bash, text editor, memory, computer use).
"""

import re
from typing import Any

from polar_capture.chat import Tool

_TEXT = {"type": "string"}
_POINT = {"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 2}

_BASH_TEXT = "Run a command in a persistent bash session and return its output."
_EDITOR_TEXT = "View, create and edit text files."
_MEMORY_TEXT = "Read and change the files of the memory directory /memories, which outlives this conversation."
_COMPUTER_TEXT = "Use a computer's screen, mouse and keyboard. Coordinates are [x, y] in pixels from the top left."

_ACTIONS_2024 = ("key", "type", "mouse_move", "left_click", "left_click_drag", "right_click", "middle_click")
_ACTIONS_2024_LAST = ("double_click", "screenshot", "cursor_position")
_ACTIONS_2025 = ("left_mouse_down", "left_mouse_up", "triple_click", "scroll", "hold_key", "wait")

_TYPE = re.compile(r"(bash|text_editor|memory|computer)_(\d{8})")


def client_tool(kind: str, name: str, tool: dict[str, Any]) -> Tool | None:
    """The function for a tool of this type; None when the type is none of the client tools that we know."""
    found = _TYPE.fullmatch(kind)
    if found is None:
        return None
    family, version = found[1], int(found[2])
    if family == "bash":
        restart = {"type": "boolean", "description": "Set to true to restart the session instead of running a command."}
        return Tool(name, _BASH_TEXT, _object({"command": _TEXT, "restart": restart}))
    if family == "text_editor":
        return Tool(name, _editor_text(tool.get("max_characters")), _editor(version))
    if family == "memory":
        return Tool(name, _MEMORY_TEXT, _memory())
    return Tool(name, _computer_text(tool), _computer(version, bool(tool.get("enable_zoom"))))


def _object(properties: dict[str, Any], *required: str) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    if required:
        schema["required"] = list(required)
    return schema


def _choice(*values: str) -> dict[str, Any]:
    return {"type": "string", "enum": list(values)}


def _editor_text(most: Any) -> str:
    return f"{_EDITOR_TEXT} A view shows at most {most} characters." if isinstance(most, int) else _EDITOR_TEXT


def _editor(version: int) -> dict[str, Any]:
    commands = ["view", "create", "str_replace", "insert"]
    if version < 20250429:
        commands.append("undo_edit")
    properties = {
        "command": _choice(*commands),
        "path": {"type": "string", "description": "Absolute path of a file or directory."},
        "view_range": {
            "type": "array",
            "items": {"type": "integer"},
            "description": "For view: first and last line, from 1; -1 is the end.",
        },
        "file_text": {"type": "string", "description": "For create: the content."},
        "old_str": {"type": "string", "description": "For str_replace: the text to replace; it must occur once."},
        "new_str": {"type": "string", "description": "For str_replace: the new text."},
        "insert_line": {"type": "integer", "description": "For insert: the line after which to insert; 0 is the top."},
    }
    if version >= 20250728:
        properties["insert_text"] = {"type": "string", "description": "For insert: the text to insert."}
    else:
        properties["new_str"] = {"type": "string", "description": "For str_replace and insert: the new text."}
    return _object(properties, "command", "path")


def _memory() -> dict[str, Any]:
    properties = {
        "command": _choice("view", "create", "str_replace", "insert", "delete", "rename"),
        "path": {"type": "string", "description": "A path below /memories; not for rename."},
        "view_range": {"type": "array", "items": {"type": "integer"}, "description": "For view: first and last line."},
        "file_text": {"type": "string", "description": "For create: the content."},
        "old_str": {"type": "string", "description": "For str_replace: the text to replace."},
        "new_str": {"type": "string", "description": "For str_replace: the new text."},
        "insert_line": {"type": "integer", "description": "For insert: the line after which to insert."},
        "insert_text": {"type": "string", "description": "For insert: the text to insert."},
        "old_path": {"type": "string", "description": "For rename: the present path."},
        "new_path": {"type": "string", "description": "For rename: the new path."},
    }
    return _object(properties, "command")


def _computer_text(tool: dict[str, Any]) -> str:
    width, height = tool.get("display_width_px"), tool.get("display_height_px")
    if isinstance(width, int) and isinstance(height, int):
        return f"{_COMPUTER_TEXT} The screen is {width}x{height} pixels."
    return _COMPUTER_TEXT


def _computer(version: int, zoom: bool) -> dict[str, Any]:
    actions = [*_ACTIONS_2024, *_ACTIONS_2024_LAST]
    properties: dict[str, Any] = {
        "action": {},
        "text": {"type": "string", "description": "For type, key and hold_key: the text, or keys such as ctrl+s."},
        "coordinate": {**_POINT, "description": "Where to act; for left_click_drag its end."},
    }
    if version >= 20250124:
        actions += _ACTIONS_2025
        properties |= {
            "start_coordinate": {**_POINT, "description": "For left_click_drag: its start."},
            "scroll_direction": _choice("up", "down", "left", "right"),
            "scroll_amount": {"type": "integer", "description": "For scroll: how many clicks of the wheel."},
            "duration": {"type": "number", "description": "For wait and hold_key: seconds."},
        }
    if version >= 20251124 and zoom:
        actions.append("zoom")
        region = {"type": "array", "items": {"type": "integer"}, "minItems": 4, "maxItems": 4}
        properties["region"] = {**region, "description": "For zoom: [x1, y1, x2, y2]."}
    properties["action"] = _choice(*actions)
    return _object(properties, "action")
