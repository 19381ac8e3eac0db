"""Content parts of messages and tool outputs, as the engine takes them."""

import base64
import binascii
import contextlib
from typing import Any

from polar_capture.chat import Content, MediaPart, Part, TextPart
from polar_capture.dialects.fidelity import unmapped_in
from polar_capture.dialects.json_body import an_array, an_object, text, text_or_none, wrong_type
from polar_capture.dialects.openai_responses import fields

_TEXT = {"input_text", "output_text", "text", "summary_text", "reasoning_text"}
_TEXT_FILES = ("text/", "application/json", "application/xml", "application/x-yaml", "application/javascript")


def read_content(value: Any, param: str, omitted: list[str]) -> Content:
    """A message's or tool output's content: the string itself, or its parts; a single text part becomes a string.

    Paths of parts that the engine cannot have are added to `omitted`; a line of text stands where each was.
    """
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if not isinstance(value, list):
        raise wrong_type(value, param, "a string or an array of content parts")
    parts = [read_part(part, f"{param}[{index}]", omitted) for index, part in enumerate(value)]
    if not parts:
        return ""
    if len(parts) == 1 and isinstance(parts[0], TextPart):
        return parts[0].text
    return parts


def read_text(value: Any, param: str, joint: str = "") -> str:
    """The texts of an assistant message's content, joined as OpenAI's `output_text` joins them, or by `joint`."""
    if value is None or isinstance(value, str):
        return value or ""
    texts = []
    for index, part in enumerate(an_array(value, param)):
        where = f"{param}[{index}]"
        texts.append(part if isinstance(part, str) else _text_of(an_object(part, where), where) or "")
    return joint.join(filter(None, texts))


def _text_of(part: dict[str, Any], param: str) -> str | None:
    """The text of a part that is one; None for any other part."""
    for field in ("text", "refusal", "encrypted_content"):
        if field in part:
            # Codex types the task of a spawned agent `encrypted_content`, although it is plain text.
            return text(part[field], f"{param}.{field}")
    return None


def read_part(value: Any, param: str, omitted: list[str]) -> Part:
    """One content part. Raises CallError where its fields have the wrong types."""
    if isinstance(value, str):
        return TextPart(value)
    part = an_object(value, param)
    kind = text_or_none(part.get("type"), f"{param}.type")
    omitted += unmapped_in(part, fields.PART, f"$.{param}")
    if kind in _TEXT:
        return TextPart(text(part.get("text"), f"{param}.text"))
    if kind in ("input_image", "image_url", "computer_screenshot"):
        return _image(part, param, omitted)
    if kind == "input_file":
        return _file(part, param, omitted)
    if kind == "input_audio":
        return MediaPart("input_audio", an_object(part.get("input_audio"), f"{param}.input_audio"))
    if kind == "input_video":
        return MediaPart("video_url", {"url": _url(part.get("video_url"), f"{param}.video_url")})
    plain = _text_of(part, param)
    if plain is not None:
        return TextPart(plain)
    return _omit(f"{kind} content" if kind else "content", param, omitted)


def _image(part: dict[str, Any], param: str, omitted: list[str]) -> Part:
    if part.get("image_url") is None:
        return _omit("image", param, omitted)
    value: dict[str, Any] = {"url": _url(part["image_url"], f"{param}.image_url")}
    if part.get("detail") is not None:
        value["detail"] = text(part["detail"], f"{param}.detail")
    return MediaPart("image_url", value)


def _url(value: Any, param: str) -> str:
    """A URL, plain as this dialect writes it or in the object that Chat Completions wraps it in."""
    if isinstance(value, dict):
        return text(value.get("url"), f"{param}.url")
    return text(value, param)


def _file(part: dict[str, Any], param: str, omitted: list[str]) -> Part:
    """A file that holds text is put in as text; others need a file store or a parser that the engine has not."""
    name = part.get("filename") if isinstance(part.get("filename"), str) else "file"
    data = part.get("file_data")
    if isinstance(data, str) and data.startswith("data:") and ";base64," in data:
        media, _, encoded = data[5:].partition(";base64,")
        if media.startswith(_TEXT_FILES):
            with contextlib.suppress(binascii.Error, UnicodeDecodeError):
                return TextPart(f'<file name="{name}">\n{base64.b64decode(encoded).decode()}\n</file>')
        name = f"{name} ({media[:80]})"
    return _omit(f"file {name}", param, omitted)


def _omit(what: str, param: str, omitted: list[str]) -> TextPart:
    while omitted and omitted[-1].startswith(f"$.{param}."):
        omitted.pop()  # the whole part is named, so none of its fields is
    omitted.append(f"$.{param}")
    return TextPart(f"[{what} omitted]")
