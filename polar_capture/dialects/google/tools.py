"""Function declarations and the function calling config → tools and tool choice."""

from typing import Any

import msgspec

from polar_capture.chat import Tool, ToolChoice
from polar_capture.dialects.fidelity import unmapped_in
from polar_capture.dialects.google import fields
from polar_capture.dialects.google.schemas import json_schema
from polar_capture.dialects.google.spelling import named
from polar_capture.dialects.json_body import an_array, text, text_or_none
from polar_capture.faults import invalid

_MODE = "toolConfig.functionCallingConfig"


class ToolSet(msgspec.Struct):
    """The tools of one request."""

    tools: list[Tool] = []
    choice: ToolChoice | None = None
    unmapped: list[str] = []


def read_tools(tools: Any, config: Any) -> ToolSet:
    """All that a request says of tools. Hosted tools (Google Search, code execution, …) are listed and not offered."""
    result = ToolSet()
    listed = [] if tools is None else tools if isinstance(tools, list) else [tools]
    for index, item in enumerate(listed):
        tool = named(item, f"tools[{index}]")
        declared = tool.pop("functionDeclarations", [])
        result.unmapped += unmapped_in(tool, {}, f"$.tools[{index}]")
        param = f"tools[{index}].functionDeclarations"
        for number, one in enumerate(an_array(declared, param)):
            result.tools.append(_declared(one, f"{param}[{number}]", result))
    if config is not None:
        _read_config(named(config, "toolConfig"), result)
    return result


def _declared(value: Any, param: str, result: ToolSet) -> Tool:
    function = named(value, param)
    result.unmapped += unmapped_in(function, fields.FUNCTION_DECLARATION, f"$.{param}")
    name = text_or_none(function.get("name"), f"{param}.name")
    if not name:
        raise invalid(f"* GenerateContentRequest.{param}.name: must not be empty", f"{param}.name")
    tool = Tool(name, text_or_none(function.get("description"), f"{param}.description"))
    for field in ("parametersJsonSchema", "parameters"):
        if field in function:
            schema = json_schema(function[field], f"{param}.{field}")
            tool.parameters = schema if isinstance(schema, dict) else {}
            break
    return tool


def _read_config(config: dict[str, Any], result: ToolSet) -> None:
    calling = named(config.pop("functionCallingConfig", {}), _MODE)
    result.unmapped += unmapped_in(config, {}, "$.toolConfig")
    mode = text(calling.pop("mode", "AUTO"), f"{_MODE}.mode").upper()
    names = [
        text(name, f"{_MODE}.allowedFunctionNames[{index}]")
        for index, name in enumerate(an_array(calling.pop("allowedFunctionNames", []), f"{_MODE}.allowedFunctionNames"))
    ]
    calling.pop("streamFunctionCallArguments", None)
    result.unmapped += unmapped_in(calling, {}, f"$.{_MODE}")
    if mode not in ("AUTO", "ANY", "NONE", "VALIDATED", "MODE_UNSPECIFIED"):
        raise invalid(
            f"Invalid value at '{_MODE}.mode': {mode[:40]!r}. Use AUTO, ANY, NONE or VALIDATED.", f"{_MODE}.mode"
        )
    for name in names:
        if all(tool.name != name for tool in result.tools):
            raise invalid(
                f"Allowed function name {name[:80]!r} is not among the function declarations.",
                f"{_MODE}.allowedFunctionNames",
            )
    if not result.tools:
        if mode == "ANY":
            result.unmapped.append(f"$.{_MODE}.mode")
        return
    result.choice = _choice(mode, names)
    if names and result.choice.mode in ("auto", "required"):
        # The engine has no other way to keep the model from the rest.
        result.tools = [tool for tool in result.tools if tool.name in names]


def _choice(mode: str, names: list[str]) -> ToolChoice:
    if mode == "NONE":
        return ToolChoice("none")
    if mode != "ANY":
        return ToolChoice("auto")
    return ToolChoice("function", names[0]) if len(set(names)) == 1 else ToolChoice("required")
