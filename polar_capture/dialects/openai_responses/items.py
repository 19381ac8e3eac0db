"""Input items as messages of the internal form.

The items' shapes: https://developers.openai.com/api/reference/resources/responses, `input`.
"""

from collections.abc import Callable
from itertools import takewhile
from typing import Any

import msgspec

from polar_capture.chat import Content, Message, Tool
from polar_capture.dialects.fidelity import unmapped_in
from polar_capture.dialects.json_body import an_array, an_object, array_or_empty, text, text_or_none, wrong_type
from polar_capture.dialects.openai_responses import compaction, fields, sealed
from polar_capture.dialects.openai_responses.content import read_content, read_text
from polar_capture.dialects.openai_responses.native_tools import BY_CALL_TYPE
from polar_capture.dialects.openai_responses.tools import ToolBook
from polar_capture.dialects.openai_responses.turns import Turns
from polar_capture.faults import invalid

Item = dict[str, Any]

COMPACTED = ("compaction", "compaction_summary", "context_compaction")
HOSTED = (
    "web_search_call",
    "file_search_call",
    "code_interpreter_call",
    "image_generation_call",
    "computer_call",
    "mcp_call",
    "mcp_list_tools",
    "mcp_approval_request",
    "program",
)
"""Items of tools that a provider ran, or of a computer that no text model drives: told in words."""
_BULKY = {"id", "type", "status", "result", "screenshot"}


def as_items(value: Any) -> list[Item]:
    """The request's `input` as a list of items; a string is one user message. Raises CallError."""
    if value is None:
        return []
    if isinstance(value, str):
        return [{"type": "message", "role": "user", "content": value}]
    if not isinstance(value, list):
        raise wrong_type(value, "input", "a string or an array of input items")
    return [an_object(item, f"input[{index}]") for index, item in enumerate(value)]


def kind_of_item(item: Item) -> str | None:
    """The item's type; short forms have none: a role makes a message, an id alone a reference."""
    kind = item.get("type")
    if kind is not None:
        return kind if isinstance(kind, str) else None
    if "role" in item:
        return "message"
    return "item_reference" if "id" in item else None


def read_items(items: list[Item], book: ToolBook, offset: int = 0) -> "Reading":
    """Read a whole conversation. The first `offset` items are earlier history: paths count from behind them, and what
    is lost of them was reported with the call that brought them. Raises CallError for items with fields of wrong
    types."""
    reading = Reading(book)
    for index, item in enumerate(items):
        before = len(reading.unmapped)
        reading.read(item, f"input[{index - offset}]")
        if index < offset:
            del reading.unmapped[before:]
    reading.finish()
    return reading


class Reading:
    """One pass over the items. `messages` is the result, `unmapped` the JSON paths of what is lost."""

    def __init__(self, book: ToolBook) -> None:
        self.messages: list[Message] = []
        self.unmapped: list[str] = []
        self._book = book
        self._turns = Turns()
        self._summaries: list[Message] = []
        self._readers: dict[str, Callable[[Item, str], None]] = {
            "message": self._message,
            "reasoning": self._reasoning,
            "function_call": self._function_call,
            "custom_tool_call": self._custom_call,
            "function_call_output": self._output,
            "custom_tool_call_output": self._output,
            "local_shell_call_output": self._output,
            "shell_call_output": self._shell_output,
            "apply_patch_call_output": self._patch_output,
            "computer_call_output": self._screenshot,
            "tool_search_output": self._found_tools,
            "additional_tools": self._late_tools,
            "agent_message": self._agent_message,
            "mcp_approval_response": self._told,
            "program_output": self._told,
            **dict.fromkeys(BY_CALL_TYPE, self._native_call),
            **dict.fromkeys(COMPACTED, self._compacted),
            **dict.fromkeys(HOSTED, self._hosted),
        }

    def read(self, item: Item, param: str) -> None:
        kind = kind_of_item(item)
        if kind in fields.ITEMS:
            self.unmapped += unmapped_in(item, fields.ITEMS[kind], f"$.{param}")
        if kind == "additional_tools" and not self._begun:
            self._book.declare(array_or_empty(item.get("tools"), f"{param}.tools"), f"{param}.tools")
            self.unmapped += self._book.take_unmapped()
            return
        reader = self._readers.get(kind or "")
        if reader is None:
            # New kinds of items come with every release: they never fail a request.
            self.unmapped.append(f"$.{param}")
        else:
            reader(item, param)

    def finish(self) -> None:
        """After a compaction the summary comes in front of the instructions; a prompt begins with the instructions."""
        messages = self._turns.finish()
        start = list(takewhile(lambda m: m.role == "system" or any(m is s for s in self._summaries), messages))
        start.sort(key=lambda m: m.role != "system")
        self.messages = start + messages[len(start) :]

    @property
    def _begun(self) -> bool:
        """Whether the model has said anything yet: before that, tools may still join the front of the prompt."""
        return any(message.role in ("assistant", "tool") for message in self._turns.messages)

    def _message(self, item: Item, param: str) -> None:
        role = item.get("role")
        if role == "assistant":
            self._turns.speak(read_text(item.get("content"), f"{param}.content"), _ids(item))
        elif role in ("user", "system", "developer"):
            content = read_content(item.get("content"), f"{param}.content", self.unmapped)
            self._turns.say(Message("user" if role == "user" else "system", content=content))
        else:
            supported = "assistant, system, developer, user"
            raise invalid(
                f"Invalid value for '{param}.role': '{role}'. Supported values: {supported}.", f"{param}.role"
            )

    def _reasoning(self, item: Item, param: str) -> None:
        thought = read_text(item.get("content"), f"{param}.content")
        thought = thought or read_text(item.get("summary"), f"{param}.summary", "\n\n")
        encrypted = text_or_none(item.get("encrypted_content"), f"{param}.encrypted_content")
        if encrypted and not thought and sealed.turn_of(encrypted) is None:
            self.unmapped.append(f"$.{param}.encrypted_content")
        self._turns.reason(thought, _ids(item, encrypted))

    def _function_call(self, item: Item, param: str) -> None:
        name = self._called(item, param, "function")
        arguments = item.get("arguments")
        said = "" if arguments is None else text(arguments, f"{param}.arguments")
        self._turns.call(name, said, _call_id(item, param), _ids(item))

    def _custom_call(self, item: Item, param: str) -> None:
        name = self._called(item, param, "custom")
        said = _json({"input": text(item.get("input"), f"{param}.input")})
        self._turns.call(name, said, _call_id(item, param), _ids(item))

    def _called(self, item: Item, param: str, kind: Any) -> str:
        namespace = text_or_none(item.get("namespace"), f"{param}.namespace")
        return self._book.upstream(kind, text(item.get("name"), f"{param}.name"), namespace)

    def _native_call(self, item: Item, param: str) -> None:
        native = BY_CALL_TYPE[item["type"]]
        name = self._book.upstream("native", native.tool.name)
        call_id = text_or_none(item.get("call_id"), f"{param}.call_id") or text(item.get("id"), f"{param}.id")
        self._turns.call(name, _json(native.write(item)), call_id, _ids(item))

    def _output(self, item: Item, param: str) -> None:
        output = item.get("output")
        if isinstance(output, dict):
            output = _json(output)
        self._answer(item, param, read_content(output, f"{param}.output", self.unmapped))

    def _answer(self, item: Item, param: str, content: Content) -> None:
        # A local shell's output names its call by `id`.
        named = item.get("call_id") or (item.get("id") if item.get("type") == "local_shell_call_output" else None)
        call_id = text_or_none(named, f"{param}.call_id") or self._turns.last_call
        if call_id is None:
            raise invalid(f"Missing required parameter: '{param}.call_id'.", f"{param}.call_id")
        self._turns.answer(Message("tool", content=content, tool_call_id=call_id))

    def _shell_output(self, item: Item, param: str) -> None:
        if isinstance(item.get("output"), str):
            return self._output(item, param)
        told = []
        for index, chunk in enumerate(array_or_empty(item.get("output"), f"{param}.output")):
            an_object(chunk, f"{param}.output[{index}]")
            told.append(_json({k: chunk[k] for k in ("stdout", "stderr", "outcome") if k in chunk}))
        return self._answer(item, param, "\n".join(told))

    def _patch_output(self, item: Item, param: str) -> None:
        log = text_or_none(item.get("output"), f"{param}.output")
        self._answer(item, param, log or text_or_none(item.get("status"), f"{param}.status") or "")

    def _screenshot(self, item: Item, param: str) -> None:
        self._answer(item, param, read_content([item.get("output")], f"{param}.output", self.unmapped))

    def _found_tools(self, item: Item, param: str) -> None:
        found = an_array(item.get("tools"), f"{param}.tools")
        new = self._book.discover(found, f"{param}.tools")
        self.unmapped += self._book.take_unmapped()
        self._answer(item, param, _described(new) if new or not found else "The tools found are known already.")

    def _late_tools(self, item: Item, param: str) -> None:
        new = self._book.discover(array_or_empty(item.get("tools"), f"{param}.tools"), f"{param}.tools")
        self.unmapped += self._book.take_unmapped()
        if new:
            self._turns.say(Message("system", content=f"Further tools can be called from here on:\n{_described(new)}"))

    def _agent_message(self, item: Item, param: str) -> None:
        content = read_content(item.get("content"), f"{param}.content", self.unmapped)
        self._turns.say(Message("user", content=content))

    def _compacted(self, item: Item, param: str) -> None:
        encrypted = text_or_none(item.get("encrypted_content"), f"{param}.encrypted_content") or ""
        summary = sealed.unseal(encrypted)
        if summary is None:
            self.unmapped.append(f"$.{param}.encrypted_content")
        words = compaction.UNREADABLE if summary is None else compaction.RESTORED.format(summary)
        echo = [i for i in _ids(item, sealed.token_of(encrypted)) if sealed.turn_of(i)]
        message = Message("user", content=words, echo=echo)
        self._summaries.append(message)
        self._turns.say(message)

    def _hosted(self, item: Item, param: str) -> None:
        self.unmapped.append(f"$.{param}")
        if item["type"] == "computer_call" and isinstance(item.get("call_id"), str):
            self._turns.call("computer", _json(item.get("action")), item["call_id"], _ids(item))
        else:
            self._turns.speak(_note(item), _ids(item))

    def _told(self, item: Item, param: str) -> None:
        self._turns.say(Message("user", content=_note(item)))


def _ids(item: Item, *more: str | None) -> list[str]:
    return [i for i in (item.get("id"), *more) if isinstance(i, str)]


def _call_id(item: Item, param: str) -> str:
    return text(item.get("call_id"), f"{param}.call_id")


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _note(item: Item) -> str:
    said = {k: v for k, v in item.items() if k not in _BULKY and v is not None}
    return f"[{item['type']} {_json(said)}]"


def _described(tools: list[Tool]) -> str:
    return "\n".join(
        _json({"name": tool.name, "description": tool.description, "parameters": tool.parameters}) for tool in tools
    )
