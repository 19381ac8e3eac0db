"""The `messages` of a request → the conversation in internal form, in the order that every chat template takes."""

from typing import Any

from polar_capture.chat import MediaPart, Message, Tool, ToolCall
from polar_capture.dialects.anthropic import fields
from polar_capture.dialects.anthropic.blocks import BlockReader, Pieces
from polar_capture.dialects.anthropic.reading import (
    Path,
    an_array,
    an_object,
    boolean_or_none,
    json_path,
    text,
    text_or_none,
    wrong,
)
from polar_capture.dialects.arguments import argument_string
from polar_capture.dialects.fidelity import unmapped_in

_ORDER = {"thinking": 0, "redacted_thinking": 0, "tool_use": 2}
"""Block type → its rank within an assistant turn (others: 1). Chat has one place for each and no order between them."""


class History:
    """Builds the messages. Roles and order are the client's, but for tool results: they come first, directly behind
    their calls, and then the rest of the user's turn."""

    def __init__(self, deferred: dict[str, Tool], output_config: dict[str, Any], unmapped: list[str]) -> None:
        self.messages: list[Message] = []
        self._blocks = BlockReader(deferred, unmapped)
        self._unmapped = unmapped
        self._output_config = output_config
        self._calls: set[str] = set()
        self._behind_calls = 0

    def read(self, value: Any) -> None:
        """Read the whole array. Raises CallError."""
        if not an_array(value, ("messages",)):
            raise wrong(("messages",), "at least one message is required")
        for index, item in enumerate(value):
            path: Path = ("messages", index)
            message = an_object(item, path)
            role = message.get("role")
            content = message.get("content")
            if role == "user":
                self._user(content, (*path, "content"))
            elif role == "assistant":
                self._assistant(content, (*path, "content"))
                if self.messages and self.messages[-1].role == "assistant":
                    self._calls = {call.id for call in self.messages[-1].tool_calls}
                    self._behind_calls = len(self.messages)
            elif role == "system":
                self._system(content, (*path, "content"))
            else:
                raise wrong((*path, "role"), "Input should be 'user', 'assistant' or 'system'")
            if len(message) > 2:
                self._check(message, path)
        if not self.messages:
            raise wrong(("messages",), "at least one message must not be empty")

    def closes_with_prefill(self, count: int) -> bool:
        """Whether the conversation of `count` client messages ends in an assistant turn to be continued. An empty one
        is taken off: continuing nothing is a new turn. Raises CallError where there is no text to continue."""
        last = self.messages[-1]
        path: Path = ("messages", count - 1)
        if last.role != "assistant":
            return False
        if last.tool_calls:
            missing = ", ".join(call.id for call in last.tool_calls)
            raise wrong(path, f"`tool_use` ids were found without `tool_result` blocks immediately after: {missing}")
        if last.content:
            return True
        if last.reasoning or len(self.messages) == 1:
            raise wrong(path, "a final assistant message must hold text that can be continued")
        self.messages.pop()
        return False

    def _check(self, message: dict[str, Any], path: Path) -> None:
        self._unmapped += unmapped_in(message, fields.MESSAGE, json_path(path))
        config = message.get("output_config")
        if config is None:
            return
        for name, item in an_object(config, (*path, "output_config")).items():
            if item != self._output_config.get(name):
                self._unmapped.append(json_path((*path, "output_config", name)))

    def _system(self, content: Any, path: Path) -> None:
        pieces = Pieces()
        self._blocks.read_all(content, path, pieces)
        if pieces:
            self.messages.append(Message("system", pieces.content()))

    def _user(self, content: Any, path: Path) -> None:
        if isinstance(content, str):
            self.messages.append(Message("user", content))
            return
        said = Pieces()
        shown: list[MediaPart] = []
        results = 0
        for index, item in enumerate(an_array(content, path)):
            at: Path = (*path, index)
            block = an_object(item, at)
            kind = text(block.get("type"), (*at, "type"))
            if kind == "tool_result":
                shown += self._result(block, at)
                results += 1
            elif kind in ("tool_use", "thinking", "redacted_thinking"):
                raise wrong(at, f"`{kind}` blocks can only be in `assistant` messages")
            else:
                self._blocks.read(block, kind, at, said)
        # Tool messages take text only: what tools showed opens the user's turn, behind all of them.
        said.put_first(shown)
        if said or not results:
            self.messages.append(Message("user", said.content()))

    def _result(self, block: dict[str, Any], path: Path) -> list[MediaPart]:
        """Place one tool message; the media of the result are returned."""
        pieces = Pieces()
        self._blocks.read_all(block.get("content"), (*path, "content"), pieces)
        shown = pieces.take_media()
        for _ in shown:
            pieces.add("[image: shown below]")
        said = str(pieces.content())
        failed = boolean_or_none(block.get("is_error"), (*path, "is_error"))
        if failed and "error" not in said[:40].lower():
            said = f"Error: {said}" if said else "Error"
        identifier = text(block.get("tool_use_id"), (*path, "tool_use_id"))
        self.messages.insert(self._place(identifier), Message("tool", said, tool_call_id=identifier))
        self._blocks.check(block, "tool_result", path)
        return shown

    def _place(self, identifier: str) -> int:
        """Where the result of this call belongs: behind the last assistant message and the results already there. A
        result that answers none of its calls stays where the client put it."""
        if identifier not in self._calls:
            return len(self.messages)
        self._behind_calls += 1
        return self._behind_calls - 1

    def _assistant(self, content: Any, path: Path) -> None:
        if isinstance(content, str):
            self.messages.append(Message("assistant", content))
            return
        said = Pieces()
        thoughts: list[str] = []
        calls: list[ToolCall] = []
        echo: list[str] = []
        rank, ordered = 0, True
        for index, item in enumerate(an_array(content, path)):
            at: Path = (*path, index)
            block = an_object(item, at)
            kind = block.get("type")
            if not isinstance(kind, str):
                kind = text(kind, (*at, "type"))
            place = _ORDER.get(kind, 1)
            ordered, rank = ordered and place >= rank, place
            if kind == "thinking":
                thoughts.append(text(block.get("thinking"), (*at, "thinking")))
                echo.append(text_or_none(block.get("signature"), (*at, "signature")) or "")
            elif kind == "redacted_thinking":
                echo.append(text(block.get("data"), (*at, "data")))
            elif kind == "tool_use":
                calls.append(_call(block, at))
                echo.append(calls[-1].id)
            elif kind == "tool_result":
                raise wrong(at, "`tool_result` blocks can only be in `user` messages")
            elif kind == "image":
                self._blocks.omit("image", at, said)
            else:
                self._blocks.read(block, kind, at, said)
                continue
            self._blocks.check(block, kind, at)
        if not ordered:
            self._unmapped.append(json_path(path))
        for _ in said.take_media():
            self._blocks.omit("media", path, said)
        words = said.content()
        self.messages.append(
            Message(
                "assistant",
                content=None if calls and not words else words,
                reasoning="\n".join(thought for thought in thoughts if thought) or None,
                tool_calls=calls,
                echo=[identifier for identifier in echo if identifier],
            )
        )


def _call(block: dict[str, Any], path: Path) -> ToolCall:
    return ToolCall(
        id=text(block.get("id"), (*path, "id")),
        name=text(block.get("name"), (*path, "name")),
        arguments=argument_string(an_object(block.get("input"), (*path, "input"))),
    )
