"""Tools and tool choice of Chat Completions, the functions of before them, and custom (free text) tools."""

from typing import Any

import msgspec

from polar_capture.chat import Tool, ToolChoice
from polar_capture.dialects.fidelity import unmapped_in
from polar_capture.dialects.json_body import (
    an_array,
    an_object,
    array_or_empty,
    boolean_or_none,
    text,
    text_or_none,
    wrong_type,
)
from polar_capture.dialects.openai_chat import fields
from polar_capture.faults import invalid

_FREE_TEXT = {"type": "object", "properties": {"input": {"type": "string"}}, "required": ["input"]}


class ToolSet(msgspec.Struct):
    """The tools of one request. `custom` are the names that are answered as custom tool calls; `legacy` says that the
    client declared `functions` and expects `function_call` answers."""

    tools: list[Tool] = []
    choice: ToolChoice | None = None
    parallel: bool | None = None
    custom: frozenset[str] = frozenset()
    legacy: bool = False
    unmapped: list[str] = []


def read_tools(body: dict[str, Any]) -> ToolSet:
    """All that a request says of tools. Raises CallError."""
    result = ToolSet(parallel=boolean_or_none(body.get("parallel_tool_calls"), "parallel_tool_calls"))
    declared = array_or_empty(body.get("tools"), "tools")
    for index, item in enumerate(declared):
        _read_tool(an_object(item, f"tools[{index}]"), f"tools[{index}]", result)
    functions = array_or_empty(body.get("functions"), "functions")
    if functions and declared:
        result.unmapped.append("$.functions")
    elif functions:
        result.legacy = True
        result.parallel = False  # the old shape has room for one call
        for index, item in enumerate(functions):
            result.tools.append(_function(an_object(item, f"functions[{index}]"), f"functions[{index}]", result))
    if result.legacy:
        _read_legacy_choice(body.get("function_call"), result)
    else:
        _read_choice(body.get("tool_choice"), bool(declared), result)
    return result


def _read_tool(item: dict[str, Any], param: str, result: ToolSet) -> None:
    kind = text(item.get("type", "function"), f"{param}.type")
    if kind in ("function", "custom"):
        result.unmapped += unmapped_in(item, fields.TOOL, f"$.{param}")
    if kind == "function":
        function = an_object(item.get("function"), f"{param}.function")
        result.tools.append(_function(function, f"{param}.function", result))
    elif kind == "custom":
        custom = an_object(item.get("custom"), f"{param}.custom")
        result.unmapped += unmapped_in(custom, fields.CUSTOM, f"$.{param}.custom")
        name = _name(custom, f"{param}.custom")
        description = text_or_none(custom.get("description"), f"{param}.custom.description")
        result.tools.append(Tool(name, description, _FREE_TEXT))
        result.custom |= {name}
        form = custom.get("format")
        if isinstance(form, dict) and form.get("type") not in (None, "text"):
            result.unmapped.append(f"$.{param}.custom.format")
    else:
        result.unmapped.append(f"$.{param}")


def _function(function: dict[str, Any], param: str, result: ToolSet) -> Tool:
    result.unmapped += unmapped_in(function, fields.FUNCTION, f"$.{param}")
    tool = Tool(
        _name(function, param),
        text_or_none(function.get("description"), f"{param}.description"),
        strict=boolean_or_none(function.get("strict"), f"{param}.strict"),
    )
    if function.get("parameters") is not None:
        tool.parameters = an_object(function["parameters"], f"{param}.parameters")
    return tool


def _name(item: dict[str, Any], param: str) -> str:
    name = text_or_none(item.get("name"), f"{param}.name")
    if not name:
        raise invalid(f"Missing required parameter: '{param}.name'.", f"{param}.name")
    return name


def _read_legacy_choice(value: Any, result: ToolSet) -> None:
    if value is None or value == "auto":
        return
    if value == "none":
        result.choice = ToolChoice("none")
    elif isinstance(value, dict):
        result.choice = _named(text(value.get("name"), "function_call.name"), "function_call", result)
    else:
        raise wrong_type(value, "function_call", "'none', 'auto' or an object with a name")


def _read_choice(value: Any, declared: bool, result: ToolSet) -> None:
    if value is None:
        return
    if isinstance(value, str):
        if value not in ("auto", "none", "required"):
            raise invalid(
                f"Invalid value: '{value[:40]}'. Supported values are: 'none', 'auto', 'required'.", "tool_choice"
            )
        if value == "required" and not result.tools:
            if not declared:
                raise invalid("'tool_choice' is only allowed when 'tools' are specified.", "tool_choice")
            result.unmapped.append("$.tool_choice")
        elif result.tools:
            result.choice = ToolChoice(value)  # type: ignore[arg-type]
        return
    choice = an_object(value, "tool_choice")
    kind = text(choice.get("type", "function"), "tool_choice.type")
    if kind in ("function", "custom"):
        named = an_object(choice.get(kind), f"tool_choice.{kind}")
        result.choice = _named(text(named.get("name"), f"tool_choice.{kind}.name"), "tool_choice", result)
    elif kind == "allowed_tools":
        # The SDK nests what the documentation shows flat.
        allowed = choice.get("allowed_tools")
        _restrict(an_object(allowed, "tool_choice.allowed_tools") if allowed is not None else choice, result)
    else:
        result.unmapped.append("$.tool_choice")


def _named(name: str, param: str, result: ToolSet) -> ToolChoice:
    if all(tool.name != name for tool in result.tools):
        raise invalid(f"Tool choice '{name[:80]}' not found in 'tools' parameter.", param)
    return ToolChoice("function", name)


def _restrict(allowed: dict[str, Any], result: ToolSet) -> None:
    """Offer the allowed tools only: the engine has no other way to keep the model from the rest."""
    param = "tool_choice.allowed_tools"
    mode = text(allowed.get("mode", "auto"), f"{param}.mode")
    if mode not in ("auto", "required"):
        raise invalid(f"Invalid value: '{mode[:40]}'. Supported values are: 'auto', 'required'.", f"{param}.mode")
    names: list[str] = []
    for index, item in enumerate(an_array(allowed.get("tools"), f"{param}.tools")):
        one = an_object(item, f"{param}.tools[{index}]")
        kind = text(one.get("type", "function"), f"{param}.tools[{index}].type")
        inner = one.get(kind)
        name = inner.get("name") if isinstance(inner, dict) else one.get("name")
        names.append(text(name, f"{param}.tools[{index}].name"))
    if not names:
        raise invalid(f"Invalid '{param}.tools': empty array. Expected at least one tool.", f"{param}.tools")
    for name in names:
        _named(name, param, result)
    if mode == "required" and len(set(names)) == 1:
        # One required name leaves the offered tools, and so the prompt's prefix, as they are.
        result.choice = ToolChoice("function", names[0])
        return
    result.tools = [tool for tool in result.tools if tool.name in names]
    result.choice = ToolChoice("required" if mode == "required" else "auto")
