"""The tools of a request: declared in this dialect's many kinds, offered to the engine as plain functions, turned back.

A function of a namespace is offered as `namespace__name`. A custom (free text, grammar) tool is offered as a function
with one string property `input`.
"""

from typing import Any, Literal

import msgspec

from polar_capture.chat import Tool, ToolChoice
from polar_capture.dialects.fidelity import unmapped_in
from polar_capture.dialects.json_body import an_array, an_object, boolean_or_none, text, text_or_none
from polar_capture.dialects.openai_responses import fields
from polar_capture.dialects.openai_responses.native_tools import NATIVE, as_tool, offered_here
from polar_capture.faults import invalid

Kind = Literal["function", "custom", "native"]


class Declared(msgspec.Struct, frozen=True):
    """What the client calls a tool."""

    kind: Kind
    name: str
    namespace: str | None = None


class ToolBook:
    """All tools of one request by the names that the engine knows them by.

    `offered` go into the prompt's tool list. Tools found later (by a tool search) are known too, but stay out of that
    list: it stands at the front of the prompt, and a changed front would match no earlier prefix.
    """

    def __init__(self) -> None:
        self.offered: list[Tool] = []
        self.unmapped: list[str] = []
        self._declared: dict[str, Declared] = {}
        self._upstream: dict[Declared, str] = {}
        self._deferred: list[Tool] = []
        self._searchable = False

    def declare(self, tools: Any, param: str) -> None:
        """Take in a `tools` array. Raises CallError; what cannot be offered is added to `unmapped` by JSON path."""
        for index, tool in enumerate(an_array(tools, param)):
            self._declare(an_object(tool, f"{param}[{index}]"), f"{param}[{index}]", self._offer)

    def discover(self, tools: Any, param: str) -> list[Tool]:
        """Take in tools that stand within the conversation; those that are new are returned, to be shown there."""
        new: list[Tool] = []

        def show(tool: Tool, deferred: bool) -> None:
            if all(tool != known for known in self.offered):
                new.append(tool)

        for index, tool in enumerate(an_array(tools, param)):
            self._declare(an_object(tool, f"{param}[{index}]"), f"{param}[{index}]", show)
        return new

    def take_unmapped(self) -> list[str]:
        """The JSON paths collected since the last time."""
        taken, self.unmapped = self.unmapped, []
        return taken

    def close(self) -> None:
        """No further declarations: deferred tools that no client-side search can bring up are offered at once."""
        if not self._searchable:
            for tool in self._deferred:
                self._put(tool)

    def upstream(self, kind: Kind, name: str, namespace: str | None = None) -> str:
        """The engine's name of a tool; for one that is not declared, the name it would have."""
        known = self._upstream.get(Declared(kind, name, namespace))
        return known or (f"{namespace.rstrip('_')}__{name}" if namespace else name)

    def recognise(self, called: str) -> Declared:
        """The tool that the model meant. Models also say a bare or a dotted name where only one tool can be meant."""
        known = self._declared.get(called)
        if known is not None:
            return known
        meant = [d for d in self._declared.values() if called in (d.name, f"{d.namespace or ''}.{d.name}")]
        return meant[0] if len(meant) == 1 else Declared("function", called)

    def restrict(self, names: set[str]) -> None:
        """Offer only these (an `allowed_tools` choice)."""
        self.offered = [tool for tool in self.offered if tool.name in names]

    def _declare(
        self, tool: dict[str, Any], param: str, take: Any, namespace: str | None = None, about: str = ""
    ) -> None:
        kind = text(tool.get("type"), f"{param}.type")
        if kind == "namespace" and namespace is None:
            self._declare_namespace(tool, param, take)
        elif kind == "function":
            self._take(_function(tool, param), "function", namespace, about, tool, take)
        elif kind == "custom":
            self._take(_custom(tool, param), "custom", namespace, about, tool, take)
        elif kind in NATIVE and offered_here(tool):
            self._searchable = self._searchable or kind == "tool_search"
            self._take(as_tool(tool), "native", None, "", tool, take)
        else:
            self.unmapped.append(f"$.{param}")
            return
        self.unmapped += unmapped_in(tool, fields.TOOLS[kind], f"$.{param}")

    def _declare_namespace(self, group: dict[str, Any], param: str, take: Any) -> None:
        name = text(group.get("name"), f"{param}.name")
        about = text_or_none(group.get("description"), f"{param}.description") or ""
        for index, tool in enumerate(an_array(group.get("tools"), f"{param}.tools")):
            where = f"{param}.tools[{index}]"
            # The group's own words go with its first tool, so that they are said once.
            self._declare(an_object(tool, where), where, take, name, about if index == 0 else "")

    def _take(
        self, tool: Tool, kind: Kind, namespace: str | None, about: str, source: dict[str, Any], take: Any
    ) -> None:
        declared = Declared(kind, tool.name, namespace)
        tool.name = self._free_name(declared)
        if about:
            tool.description = f"{about}\n\n{tool.description}" if tool.description else about
        self._declared[tool.name] = declared
        self._upstream[declared] = tool.name
        take(tool, source.get("defer_loading") is True)

    def _free_name(self, declared: Declared) -> str:
        name = self.upstream(declared.kind, declared.name, declared.namespace)
        number = 2
        while self._declared.get(name, declared) != declared:
            name = f"{self.upstream(declared.kind, declared.name, declared.namespace)}_{number}"
            number += 1
        return name

    def _offer(self, tool: Tool, deferred: bool) -> None:
        if deferred:
            self._deferred.append(tool)
        else:
            self._put(tool)

    def _put(self, tool: Tool) -> None:
        for index, known in enumerate(self.offered):
            if known.name == tool.name:
                self.offered[index] = tool
                return
        self.offered.append(tool)


def _function(tool: dict[str, Any], param: str) -> Tool:
    if isinstance(tool.get("function"), dict):
        # The nested form of Chat Completions, which some clients send here too.
        tool, param = tool["function"], f"{param}.function"
    made = Tool(_name(tool, param), text_or_none(tool.get("description"), f"{param}.description"))
    if tool.get("parameters") is not None:
        made.parameters = an_object(tool["parameters"], f"{param}.parameters")
    made.strict = boolean_or_none(tool.get("strict"), f"{param}.strict")
    return made


def _custom(tool: dict[str, Any], param: str) -> Tool:
    rule = "Free text, passed on as it is."
    form = tool.get("format")
    if isinstance(form, dict) and form.get("type") == "grammar":
        syntax, definition = form.get("syntax"), form.get("definition")
        rule = f"Free text, passed on as it is. It must follow this {syntax} grammar:\n{definition}"
    own = text_or_none(tool.get("description"), f"{param}.description")
    return Tool(
        _name(tool, param),
        own,
        {
            "type": "object",
            "properties": {"input": {"type": "string", "description": rule}},
            "required": ["input"],
            "additionalProperties": False,
        },
    )


def _name(tool: dict[str, Any], param: str) -> str:
    name = tool.get("name")
    if not name:
        raise invalid(f"Missing required parameter: '{param}.name'.", f"{param}.name")
    return text(name, f"{param}.name")


def read_tool_choice(value: Any, book: ToolBook, unmapped: list[str]) -> ToolChoice | None:
    """The request's `tool_choice`. An `allowed_tools` choice restricts the book. A choice of a tool that is not
    offered is left to the model and listed in `unmapped`."""
    param = "tool_choice"
    if value is None:
        return None
    if isinstance(value, str):
        for mode in ("auto", "none", "required"):
            if value == mode:
                return ToolChoice(mode)
        raise invalid(f"Invalid value for '{param}': '{value}'. Supported: auto, none, required, or an object.", param)
    choice = an_object(value, param)
    if choice.get("type") == "allowed_tools":
        return _allowed(choice, book, unmapped)
    name = _chosen(choice, param, book)
    if name is None:
        unmapped.append(f"$.{param}")
        return None
    return ToolChoice("function", name)


def _chosen(choice: dict[str, Any], param: str, book: ToolBook) -> str | None:
    """The engine's name of a tool that a choice names; None where it is not offered."""
    kind = text(choice.get("type"), f"{param}.type")
    if kind in ("function", "custom"):
        nested = choice.get("function")
        name = _name(nested if isinstance(nested, dict) else choice, param)
        called = book.upstream(
            "custom" if kind == "custom" else "function",
            name,
            text_or_none(choice.get("namespace"), f"{param}.namespace"),
        )
    elif kind in NATIVE:
        called = book.upstream("native", kind)
    else:
        return None
    if any(tool.name == called for tool in book.offered):
        return called
    if kind in ("function", "custom"):
        raise invalid(f"'{param}' names the tool '{called}', which is not in 'tools'.", param)
    return None


def _allowed(choice: dict[str, Any], book: ToolBook, unmapped: list[str]) -> ToolChoice:
    names: set[str] = set()
    for index, entry in enumerate(an_array(choice.get("tools"), "tool_choice.tools")):
        where = f"tool_choice.tools[{index}]"
        name = _chosen(an_object(entry, where), where, book)
        if name is None:
            unmapped.append(f"$.{where}")
        else:
            names.add(name)
    book.restrict(names)
    required = choice.get("mode") == "required"
    if required and len(names) == 1:
        return ToolChoice("function", names.pop())
    return ToolChoice("required" if required and names else "auto" if names else "none")
