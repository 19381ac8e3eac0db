"""The `tools` and `tool_choice` of a Messages request.

Deferred tools are left out of the list: their schemas stand in the conversation where the client discovered them, so
that the prompt's front never changes (Claude Code inserts discovered tools in the middle of the array).
"""

from typing import Any

import msgspec

from polar_capture.chat import Tool, ToolChoice
from polar_capture.dialects.anthropic import fields
from polar_capture.dialects.anthropic.client_tools import client_tool
from polar_capture.dialects.anthropic.reading import (
    Path,
    an_object,
    array_or_empty,
    boolean_or_none,
    json_path,
    text,
    text_or_none,
    wrong,
)
from polar_capture.dialects.fidelity import unmapped_in


class ToolSet(msgspec.Struct):
    """The tools of one request: `offered` up front; `deferred` by name; `hosted` the types of those that Anthropic's
    own servers would run, which are not available here."""

    offered: list[Tool] = []
    deferred: dict[str, Tool] = {}
    hosted: list[str] = []


def read_tools(value: Any, unmapped: list[str]) -> ToolSet:
    """Read the array. Raises CallError for wrong types; what cannot be offered is listed in `unmapped`."""
    found = ToolSet()
    waiting: list[tuple[int, Tool]] = []
    for index, item in enumerate(array_or_empty(value, ("tools",))):
        path: Path = ("tools", index)
        tool = an_object(item, path)
        function = read_tool(tool, path, unmapped)
        if function is None:
            found.hosted.append(tool["type"])
        elif boolean_or_none(tool.get("defer_loading"), (*path, "defer_loading")):
            waiting.append((len(found.offered), function))
            found.deferred[function.name] = function
        else:
            found.offered.append(function)
    if any(kind.startswith("tool_search_tool") for kind in found.hosted):
        # Anthropic's servers would search; nobody does here, so the model must see them from the start.
        for position, function in reversed(waiting):
            found.offered.insert(position, function)
        found.deferred = {}
    return found


def read_tool(tool: dict[str, Any], path: Path, unmapped: list[str]) -> Tool | None:
    """One entry of `tools` as a function; None for a hosted tool, which is then listed in `unmapped`."""
    kind = text_or_none(tool.get("type"), (*path, "type")) or "custom"
    schema = tool.get("input_schema")
    if kind != "custom" and schema is None:
        function = client_tool(kind, tool["name"], tool) if isinstance(tool.get("name"), str) else None
        if function is None:
            unmapped.append(json_path(path))
            return None
    else:
        function = Tool(
            name=text(tool.get("name"), (*path, "name")),
            description=text_or_none(tool.get("description"), (*path, "description")),
            parameters=an_object(schema, (*path, "input_schema")),
        )
    if not function.name:
        raise wrong((*path, "name"), "String should have at least 1 character")
    function.strict = boolean_or_none(tool.get("strict"), (*path, "strict"))
    if not tool.keys() <= fields.CARRIED_OF_TOOLS:
        unmapped += unmapped_in(tool, fields.TOOL, json_path(path))
    return function


def as_text(tool: Tool) -> str:
    """A tool's declaration as a line of prompt text, in the shape in which chat templates list tools."""
    function = {"name": tool.name, "description": tool.description or "", "parameters": tool.parameters}
    return msgspec.json.encode({"type": "function", "function": function}).decode()


def read_choice(value: Any, tools: ToolSet, unmapped: list[str]) -> tuple[ToolChoice | None, bool | None]:
    """(tool choice, parallel tool calls) of `tool_choice`. A named tool that was deferred is offered after all."""
    if value is None:
        return None, None
    path: Path = ("tool_choice",)
    choice = an_object(value, path)
    kind = text(choice.get("type"), (*path, "type"))
    alone = boolean_or_none(choice.get("disable_parallel_tool_use"), (*path, "disable_parallel_tool_use"))
    parallel = False if alone else None
    if kind not in ("auto", "any", "none", "tool"):
        raise wrong((*path, "type"), "Input should be 'auto', 'any', 'tool' or 'none'")
    name = text(choice.get("name"), (*path, "name")) if kind == "tool" else ""
    if name in tools.deferred:
        tools.offered.append(tools.deferred[name])
    if not tools.offered:
        if kind in ("any", "tool"):
            if not tools.hosted:
                raise wrong(path, "tool_choice may only be specified while providing tools")
            unmapped.append("$.tool_choice")
        return None, None
    if kind == "tool":
        if all(tool.name != name for tool in tools.offered):
            if not tools.hosted:
                raise wrong((*path, "name"), f"Tool '{name}' not found in provided tools")
            unmapped.append("$.tool_choice")
            return None, parallel
        return ToolChoice("function", name), parallel
    return {"auto": ToolChoice("auto"), "any": ToolChoice("required"), "none": ToolChoice("none")}[kind], parallel
