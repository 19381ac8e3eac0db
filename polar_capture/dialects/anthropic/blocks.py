"""Content blocks that become text or media of one message: text, images, documents, search results, server tools."""

from collections.abc import Sequence
from typing import Any

import msgspec

from polar_capture.chat import Content, MediaPart, Part, TextPart, Tool
from polar_capture.dialects.anthropic import fields
from polar_capture.dialects.anthropic.reading import (
    Path,
    an_array,
    an_object,
    array_or_empty,
    json_path,
    text,
    text_or_none,
)
from polar_capture.dialects.anthropic.tools import as_text, read_tool
from polar_capture.dialects.fidelity import unmapped_in

_SILENT = {"fallback"}
"""Blocks that Anthropic documents as never shown to the model."""


class Pieces:
    """The text and media of one message, in order."""

    def __init__(self) -> None:
        self._pieces: list[str | MediaPart] = []
        self._media = 0

    def __bool__(self) -> bool:
        return bool(self._pieces)

    def add(self, piece: str | MediaPart) -> None:
        """Append; empty texts are left out: chat templates would render a blank line for them."""
        if piece != "":
            self._pieces.append(piece)
            self._media += isinstance(piece, MediaPart)

    def put_first(self, media: Sequence[MediaPart]) -> None:
        self._pieces[:0] = media
        self._media += len(media)

    def take_media(self) -> list[MediaPart]:
        """Remove and return all media."""
        if not self._media:
            return []
        media = [piece for piece in self._pieces if isinstance(piece, MediaPart)]
        self._pieces = [piece for piece in self._pieces if isinstance(piece, str)]
        self._media = 0
        return media

    def content(self) -> Content:
        """A string (blocks joined by newlines) where there is text only, always; else parts."""
        if not self._media:
            return "\n".join(self._pieces)  # type: ignore[arg-type]  # no media among them
        parts: list[Part] = []
        for piece in self._pieces:
            if isinstance(piece, MediaPart):
                parts.append(piece)
            elif parts and isinstance(parts[-1], TextPart):
                parts[-1] = TextPart(f"{parts[-1].text}\n{piece}")
            else:
                parts.append(TextPart(piece))
        return parts


class BlockReader:
    """Reads blocks into `Pieces`. What the prompt cannot hold is named in it as omitted and listed in `unmapped`."""

    def __init__(self, deferred: dict[str, Tool], unmapped: list[str]) -> None:
        self.unmapped = unmapped
        self._deferred = deferred

    def read(self, block: dict[str, Any], kind: str, path: Path, into: Pieces) -> None:
        """Append what a block of this type says. Raises CallError for wrong types."""
        if kind == "text":
            said = block.get("text")
            into.add(said if isinstance(said, str) else text(said, (*path, "text")))
        elif kind == "image":
            into.add(self._image(an_object(block.get("source"), (*path, "source")), (*path, "source")))
        elif kind == "document":
            self._document(block, path, into)
        elif kind == "search_result":
            into.add(text_or_none(block.get("title"), (*path, "title")) or "")
            into.add(text_or_none(block.get("source"), (*path, "source")) or "")
            self.read_all(block.get("content"), (*path, "content"), into)
        elif kind == "tool_reference":
            into.add(self._reference(text(block.get("tool_name"), (*path, "tool_name")), path))
        elif kind in ("tool_addition", "tool_removal"):
            into.add(self._tool_change(kind, an_object(block.get("tool"), (*path, "tool")), (*path, "tool")))
        elif kind == "compaction":
            into.add(text_or_none(block.get("content"), (*path, "content")) or "")
        elif kind in ("server_tool_use", "mcp_tool_use"):
            into.add(f"[{kind}: {text(block.get('name'), (*path, 'name'))} {_compact(block.get('input') or {})}]")
        elif kind.endswith("_tool_result"):
            self._server_result(block, kind, path, into)
        elif kind not in _SILENT:
            into.add(self._omitted(kind, path))
        self.check(block, kind, path)

    def read_all(self, value: Any, path: Path, into: Pieces) -> None:
        """Append a content: null, a string, or an array of blocks."""
        if isinstance(value, str):
            into.add(value)
            return
        for index, item in enumerate(array_or_empty(value, path)):
            block = an_object(item, (*path, index))
            self.read(block, text(block.get("type"), (*path, index, "type")), (*path, index), into)

    def check(self, block: dict[str, Any], kind: str, path: Path) -> None:
        """List the fields of a block that were not carried over."""
        carried = fields.CARRIED.get(kind)
        if carried is not None and not block.keys() <= carried:
            self.unmapped += unmapped_in(block, fields.BLOCKS[kind], json_path(path))

    def omit(self, what: str, path: Path, into: Pieces) -> None:
        """Say in the prompt that something is left out, and list it."""
        into.add(self._omitted(what, path))

    def _omitted(self, what: str, path: Path) -> str:
        self.unmapped.append(json_path(path))
        return f"[omitted: {what}]"

    def _image(self, source: dict[str, Any], path: Path) -> str | MediaPart:
        kind = text(source.get("type"), (*path, "type"))
        if kind == "base64":
            media_type = text(source.get("media_type"), (*path, "media_type"))
            data = text(source.get("data"), (*path, "data"))
            return MediaPart("image_url", {"url": f"data:{media_type};base64,{data}"})
        if kind == "url":
            return MediaPart("image_url", {"url": text(source.get("url"), (*path, "url"))})
        return self._omitted(f"image ({kind})", path)

    def _document(self, block: dict[str, Any], path: Path, into: Pieces) -> None:
        source, at = an_object(block.get("source"), (*path, "source")), (*path, "source")
        title = text_or_none(block.get("title"), (*path, "title")) or ""
        into.add(title)
        into.add(text_or_none(block.get("context"), (*path, "context")) or "")
        kind = text(source.get("type"), (*at, "type"))
        if kind == "text":
            into.add(text(source.get("data"), (*at, "data")))
        elif kind == "content":
            self.read_all(source.get("content"), (*at, "content"), into)
        else:
            media_type = text_or_none(source.get("media_type"), (*at, "media_type"))
            into.add(self._omitted(f"document {media_type or 'application/pdf'} ({kind})", at))

    def _reference(self, name: str, path: Path) -> str:
        tool = self._deferred.get(name)
        # Without a deferred definition it is a tool that the prompt's front already lists, or an unknown one.
        return f"Tool available: {name}" if tool is None else f"Tool available: {as_text(tool)}"

    def _tool_change(self, kind: str, tool: dict[str, Any], path: Path) -> str:
        if tool.get("type") == "tool_definition":
            definition, at = an_object(tool.get("definition"), (*path, "definition")), (*path, "definition")
            function = read_tool(definition, at, self.unmapped)
            return "" if function is None else f"Tool available: {as_text(function)}"
        name = text_or_none(tool.get("name"), (*path, "name"))
        if name is None:
            return self._omitted(f"{kind} {tool.get('type')}", path)
        return f"Tool no longer available: {name}" if kind == "tool_removal" else self._reference(name, path)

    def _server_result(self, block: dict[str, Any], kind: str, path: Path, into: Pieces) -> None:
        """What a tool on Anthropic's side gave back: its texts, else its JSON without what only servers can read."""
        content = block.get("content")
        if kind == "mcp_tool_result" or isinstance(content, str):
            self.read_all(content, (*path, "content"), into)
        elif kind == "tool_search_tool_result" and isinstance(content, dict) and "tool_references" in content:
            at = (*path, "content", "tool_references")
            for index, item in enumerate(an_array(content["tool_references"], at)):
                reference = an_object(item, (*at, index))
                into.add(self._reference(text(reference.get("tool_name"), (*at, index, "tool_name")), (*at, index)))
        else:
            into.add(f"[{kind}: {_compact(_readable(content))}]")


def _compact(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _readable(value: Any) -> Any:
    """A result without encrypted payloads, embedded files and cache marks."""
    if isinstance(value, list):
        return [_readable(item) for item in value]
    if isinstance(value, dict):
        if value.get("type") == "base64":
            return {name: item for name, item in value.items() if name != "data"}
        return {
            name: _readable(item)
            for name, item in value.items()
            if not name.startswith("encrypted_") and name != "cache_control"
        }
    return value
