"""How each harness says a turn of ours back (measured), and how it talks in its API: for whole conversations."""

import copy
import json
from typing import Any, Literal, Protocol

import msgspec

Items = list[dict[str, Any]]
PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {"timeout": {"type": "number"}, "command": {"type": "string"}},
    "required": ["command"],
}


class Echo(msgspec.Struct, frozen=True):
    """What a harness does to a turn before it sends it back. `arguments` of an API that has objects are values anyway:
    there only their order can change."""

    arguments: Literal["raw", "compact", "ascii", "reordered"] = "raw"
    thoughts: Literal["exact", "stripped", "dropped"] = "exact"
    text: Literal["exact", "rstripped"] = "exact"

    def value(self, arguments: Any) -> Any:
        if self.arguments == "reordered" and isinstance(arguments, dict):
            return dict(sorted(arguments.items()))
        return arguments

    def string(self, arguments: str) -> str:
        if self.arguments == "raw":
            return arguments
        try:
            value = self.value(json.loads(arguments))
        except ValueError:
            return arguments
        separators = (",", ":") if self.arguments == "compact" else None
        return json.dumps(value, ensure_ascii=self.arguments == "ascii", separators=separators)

    def said(self, text: str) -> str:
        return text.rstrip() if self.text == "rstripped" else text

    def thought(self, text: str) -> str | None:
        return {"exact": text, "stripped": text.strip(), "dropped": None}[self.thoughts]


class Api(Protocol):
    """One API as a client uses it: a history of items, a body from it, and what to add of an answer."""

    url: str

    def body(self, history: Items, tool: str) -> dict[str, Any]: ...

    def asked(self, text: str) -> Items: ...

    def echoed(self, answer: dict[str, Any], echo: Echo) -> Items: ...

    def results(self, answer: dict[str, Any], text: str) -> Items:
        """The results of all tool calls of an answer; [] where it has none."""


class Chat:
    url = "https://api.openai.com/v1/chat/completions"

    def body(self, history: Items, tool: str) -> dict[str, Any]:
        function = {"name": tool, "parameters": PARAMETERS}
        return {"model": "m", "messages": history, "tools": [{"type": "function", "function": function}]}

    def asked(self, text: str) -> Items:
        return [{"role": "user", "content": text}]

    def echoed(self, answer: dict[str, Any], echo: Echo) -> Items:
        message = copy.deepcopy(answer["choices"][0]["message"])
        if isinstance(message["content"], str):
            message["content"] = echo.said(message["content"])
        for call in message.get("tool_calls") or []:
            call["function"]["arguments"] = echo.string(call["function"]["arguments"])
        thought = message.pop("reasoning_content", None)
        message.pop("reasoning", None)
        if thought is not None and echo.thoughts != "dropped":
            message |= {"reasoning_content": echo.thought(thought), "reasoning": echo.thought(thought)}
        return [message]

    def results(self, answer: dict[str, Any], text: str) -> Items:
        calls = answer["choices"][0]["message"].get("tool_calls") or []
        return [{"role": "tool", "tool_call_id": call["id"], "content": text} for call in calls]


class Messages:
    """`cache_control` stands on the last block of each request, and so moves; strings and blocks alternate."""

    url = "https://api.anthropic.com/v1/messages"

    def body(self, history: Items, tool: str) -> dict[str, Any]:
        messages = copy.deepcopy(history)
        last = messages[-1]
        if isinstance(last["content"], str):
            last["content"] = [{"type": "text", "text": last["content"]}]
        last["content"][-1]["cache_control"] = {"type": "ephemeral"}
        tools = [{"name": tool, "input_schema": PARAMETERS}]
        return {"model": "m", "max_tokens": 400, "messages": messages, "tools": tools}

    def asked(self, text: str) -> Items:
        return [{"role": "user", "content": text}]

    def echoed(self, answer: dict[str, Any], echo: Echo) -> Items:
        blocks: Items = []
        for block in copy.deepcopy(answer["content"]):
            if block["type"] == "thinking":
                if echo.thoughts == "dropped":
                    continue
                block["thinking"] = echo.thought(block["thinking"])
            elif block["type"] == "text":
                block["text"] = echo.said(block["text"])
            elif block["type"] == "tool_use":
                block["input"] = echo.value(block["input"])
            blocks.append(block)
        return [{"role": "assistant", "content": blocks}]

    def results(self, answer: dict[str, Any], text: str) -> Items:
        uses = [block for block in answer["content"] if block["type"] == "tool_use"]
        blocks = [{"type": "tool_result", "tool_use_id": use["id"], "content": text} for use in uses]
        return [{"role": "user", "content": blocks}] if blocks else []


class Responses:
    url = "https://api.openai.com/v1/responses"

    def body(self, history: Items, tool: str) -> dict[str, Any]:
        tools = [{"type": "function", "name": tool, "parameters": PARAMETERS}]
        return {
            "model": "m",
            "input": history,
            "tools": tools,
            "store": False,
            "include": ["reasoning.encrypted_content"],
        }

    def asked(self, text: str) -> Items:
        return [{"role": "user", "content": text}]

    def echoed(self, answer: dict[str, Any], echo: Echo) -> Items:
        items = copy.deepcopy(answer["output"])
        for item in items:
            if item["type"] == "reasoning":
                for part in item["summary"]:
                    part["text"] = echo.thought(part["text"]) or ""
                item.pop("content", None)
            elif item["type"] == "message":
                item["content"] = [part | {"text": echo.said(part["text"])} for part in item["content"]]
            elif item["type"] == "function_call":
                item["arguments"] = echo.string(item["arguments"])
        return items

    def results(self, answer: dict[str, Any], text: str) -> Items:
        calls = [item for item in answer["output"] if item["type"] == "function_call"]
        return [{"type": "function_call_output", "call_id": call["call_id"], "output": text} for call in calls]


class Google:
    url = "https://generativelanguage.googleapis.com/v1beta/models/m:generateContent"

    def body(self, history: Items, tool: str) -> dict[str, Any]:
        declared = {"name": tool, "parametersJsonSchema": PARAMETERS}
        config = {"thinkingConfig": {"includeThoughts": True}}
        tools = [{"functionDeclarations": [declared]}]
        return {"contents": history, "tools": tools, "generationConfig": config}

    def asked(self, text: str) -> Items:
        return [{"role": "user", "parts": [{"text": text}]}]

    def echoed(self, answer: dict[str, Any], echo: Echo) -> Items:
        content = copy.deepcopy(answer["candidates"][0]["content"])
        content["parts"] = [
            part for part in content["parts"] if not (part.get("thought") and echo.thoughts == "dropped")
        ]
        for part in content["parts"]:
            if part.get("thought"):
                part["text"] = echo.thought(part["text"])
            elif "functionCall" in part:
                part["functionCall"]["args"] = echo.value(part["functionCall"]["args"])
            else:
                part["text"] = echo.said(part["text"])
        return [content]

    def results(self, answer: dict[str, Any], text: str) -> Items:
        parts = [
            {"functionResponse": {"id": call["id"], "name": call["name"], "response": {"output": text}}}
            for part in answer["candidates"][0]["content"]["parts"]
            if (call := part.get("functionCall"))
        ]
        return [{"role": "user", "parts": parts}] if parts else []


STRIPPED = Echo("compact", "stripped")
HARNESSES: dict[str, tuple[Api, Echo]] = {
    "claude-code": (Messages(), Echo("reordered")),
    "codex": (Responses(), Echo()),
    "qwen-chat": (Chat(), STRIPPED),
    "qwen-messages": (Messages(), STRIPPED),
    "qwen-responses": (Responses(), STRIPPED),
    "qwen-google": (Google(), STRIPPED),
    "pi-chat": (Chat(), Echo("compact")),
    "pi-responses": (Responses(), Echo("compact")),
    "gemini-cli": (Google(), Echo(thoughts="dropped")),
    "copilot-messages": (Messages(), Echo(text="rstripped")),
    "copilot-chat-resumed": (Chat(), Echo(thoughts="dropped")),
    "openhands-chat": (Chat(), Echo("ascii", "dropped")),
    "openhands-messages": (Messages(), Echo("ascii")),
    "mini-chat": (Chat(), Echo()),
}
"""Harness → its API and what it does to a turn. OpenCode does as Pi; Copilot as mini on Chat, as Codex on Responses."""


def shared(context: list[int], prompt: list[int]) -> int:
    """How many tokens a prompt shares with the context that it continues: less than all is a break."""
    for place, (mine, theirs) in enumerate(zip(context, prompt, strict=False)):
        if mine != theirs:
            return place
    return min(len(context), len(prompt))
