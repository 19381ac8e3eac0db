"""Messages of Chat Completions → messages of the internal form, in place and in order."""

import json
from typing import Any

import msgspec

from polar_capture.chat import Content, MediaPart, Message, Part, TextPart, ToolCall
from polar_capture.dialects.fidelity import unmapped_in
from polar_capture.dialects.json_body import (
    an_array,
    an_object,
    array_or_empty,
    kind_of,
    text,
    text_or_none,
    wrong_type,
)
from polar_capture.dialects.openai_chat import fields
from polar_capture.faults import invalid

ROLES = ("system", "developer", "user", "assistant", "tool", "function")
_MEDIA = ("image_url", "input_audio", "audio_url", "video_url")
_TEXTS = {"text": "text", "refusal": "refusal", "input_text": "text", "output_text": "text"}


class Conversation:
    """Reads a request's `messages`. `unmapped` collects the JSON paths of what could not be carried over."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.unmapped: list[str] = []
        self.continue_final = False
        self._legacy_calls: list[tuple[str, str]] = []

    def read(self, value: Any) -> None:
        """Read the whole array. Raises CallError for an empty one and for what no server would take."""
        if value is None:
            raise invalid("Missing required parameter: 'messages'.", "messages")
        items = an_array(value, "messages")
        if not items:
            raise invalid("Invalid 'messages': empty array. Expected at least one message.", "messages")
        for index, item in enumerate(items):
            param = f"messages[{index}]"
            self.messages.append(self._message(an_object(item, param), param))
        last = items[-1]
        self.continue_final = last["role"] == "assistant" and (
            last.get("prefix") is True or last.get("partial") is True
        )

    def _message(self, item: dict[str, Any], param: str) -> Message:
        if "role" not in item:
            raise invalid(f"Missing required parameter: '{param}.role'.", f"{param}.role")
        role = text(item["role"], f"{param}.role")
        self.unmapped += unmapped_in(item, fields.MESSAGE, f"$.{param}")
        content = self._content(item.get("content"), f"{param}.content")
        name = text_or_none(item.get("name"), f"{param}.name")
        if role in ("system", "developer"):
            return Message("system", content=content if content is not None else "", name=name)
        if role == "user":
            return Message("user", content=content if content is not None else "", name=name)
        if role == "assistant":
            return self._assistant(item, content, name, param)
        if role == "tool":
            if item.get("tool_call_id") is None:
                raise invalid(f"Missing required parameter: '{param}.tool_call_id'.", f"{param}.tool_call_id")
            call_id = text(item["tool_call_id"], f"{param}.tool_call_id")
            return Message("tool", content=content if content is not None else "", tool_call_id=call_id, name=name)
        if role == "function":
            return Message(
                "tool", content=content if content is not None else "", tool_call_id=self._answered(name), name=name
            )
        known = ", ".join(f"'{known}'" for known in ROLES)
        raise invalid(f"Invalid value: '{role[:40]}'. Supported values are: {known}.", f"{param}.role")

    def _assistant(self, item: dict[str, Any], content: Content, name: str | None, param: str) -> Message:
        if content is None and isinstance(item.get("refusal"), str):
            content = item["refusal"]
        calls = [
            self._tool_call(an_object(call, f"{param}.tool_calls[{index}]"), f"{param}.tool_calls[{index}]")
            for index, call in enumerate(array_or_empty(item.get("tool_calls"), f"{param}.tool_calls"))
        ]
        echo = [call.id for call in calls]
        if isinstance(item.get("id"), str):
            echo.insert(0, item["id"])
        if not calls and item.get("function_call") is not None:
            calls = [self._legacy_call(item["function_call"], f"{param}.function_call")]
        return Message(
            "assistant", content=content, reasoning=_reasoning(item, param), tool_calls=calls, name=name, echo=echo
        )

    def _content(self, value: Any, param: str) -> Content:
        if value is None or isinstance(value, str):
            return value
        if not isinstance(value, list):
            raise wrong_type(value, param, "a string or an array of content parts")
        parts = [self._part(part, f"{param}[{index}]") for index, part in enumerate(value)]
        if any(isinstance(part, MediaPart) for part in parts):
            return parts
        # vLLM joins text parts by a line break too: one form for one text keeps prefixes equal from turn to turn.
        return "\n".join(part.text for part in parts if isinstance(part, TextPart))

    def _part(self, value: Any, param: str) -> Part:
        if isinstance(value, str):
            return TextPart(value)
        part = an_object(value, param)
        kind = text(part.get("type", "text"), f"{param}.type")
        if kind in _TEXTS or kind in _MEDIA:
            self.unmapped += unmapped_in(part, fields.PART, f"$.{param}")
        if kind in _TEXTS:
            return TextPart(text(part.get(_TEXTS[kind]), f"{param}.{_TEXTS[kind]}"))
        if kind in _MEDIA:
            media = part.get(kind)
            return MediaPart(kind, {"url": media} if isinstance(media, str) else an_object(media, f"{param}.{kind}"))
        self.unmapped.append(f"$.{param}")
        return TextPart(f"[{kind[:40]} omitted{_described(part.get('file'))}]")

    def _tool_call(self, call: dict[str, Any], param: str) -> ToolCall:
        if call.get("id") is None:
            raise invalid(f"Missing required parameter: '{param}.id'.", f"{param}.id")
        call_id = text(call["id"], f"{param}.id")
        if call.get("type") == "custom":
            custom = an_object(call.get("custom"), f"{param}.custom")
            given = text(custom.get("input"), f"{param}.custom.input")
            return ToolCall(call_id, text(custom.get("name"), f"{param}.custom.name"), custom_arguments(given))
        function = an_object(call.get("function"), f"{param}.function")
        return ToolCall(
            call_id,
            text(function.get("name"), f"{param}.function.name"),
            _arguments(function.get("arguments"), f"{param}.function.arguments"),
        )

    def _legacy_call(self, value: Any, param: str) -> ToolCall:
        """A call of the time before tools: it has no id, so its place in the conversation makes one."""
        call = an_object(value, param)
        name = text(call.get("name"), f"{param}.name")
        call_id = f"call_legacy_{len(self._legacy_calls)}"
        self._legacy_calls.append((name, call_id))
        return ToolCall(call_id, name, _arguments(call.get("arguments"), f"{param}.arguments"))

    def _answered(self, name: str | None) -> str:
        for called, call_id in reversed(self._legacy_calls):
            if called == name:
                return call_id
        return "call_legacy_unknown"


def custom_arguments(given: str) -> str:
    """The arguments by which a custom tool's free text is said as a function call."""
    return msgspec.json.encode({"input": given}).decode()


def _arguments(value: Any, param: str) -> str:
    """The raw string, untouched. Empty means no arguments; some servers parse it and would refuse the whole session."""
    if value is None or value == "":
        return "{}"
    if isinstance(value, dict):
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    if not isinstance(value, str):
        raise invalid(f"Invalid type for '{param}': expected a string, but got {kind_of(value)} instead.", param)
    return value


def _described(file: Any) -> str:
    """What is known of a file that the engine can't have: its name and its type."""
    if not isinstance(file, dict):
        return ""
    data = file.get("file_data")
    media = data[5:].partition(";")[0][:80] if isinstance(data, str) and data.startswith("data:") else None
    known = [one for one in (file.get("filename"), media) if isinstance(one, str) and one]
    return f": {', '.join(known)}" if known else ""


def _reasoning(item: dict[str, Any], param: str) -> str | None:
    for name in ("reasoning_content", "reasoning", "reasoning_text"):
        given = text_or_none(item.get(name), f"{param}.{name}")
        if given:
            return given
    details = item.get("reasoning_details")
    if isinstance(details, list):
        said = [detail.get("text") or detail.get("summary") for detail in details if isinstance(detail, dict)]
        return "".join(one for one in said if isinstance(one, str)) or None
    return None
