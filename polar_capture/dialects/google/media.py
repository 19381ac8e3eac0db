"""Inline data → the engine's part of its kind."""

import base64
import binascii
from typing import Any

from polar_capture.chat import MediaPart, Part, TextPart
from polar_capture.dialects.json_body import text
from polar_capture.faults import invalid

_STANDARD_ALPHABET = str.maketrans("-_", "+/")
_AUDIO_FORMATS = {"mpeg": "mp3", "x-wav": "wav", "wave": "wav", "vnd.wave": "wav", "x-flac": "flac"}


def media_part(data: dict[str, Any], param: str) -> Part | None:
    """Images, audio and video as they came, text decoded; None for what the engine has no part for (PDF, for one).

    `data` holds `mimeType` and base64 `data`, of either alphabet. Raises CallError for text that is none.
    """
    mime = text(data.get("mimeType", ""), f"{param}.mimeType").partition(";")[0].strip().lower()
    encoded = text(data.get("data", ""), f"{param}.data")
    if "-" in encoded or "_" in encoded:
        encoded = encoded.translate(_STANDARD_ALPHABET)
    kind, _, form = mime.partition("/")
    if kind == "image":
        return MediaPart("image_url", {"url": f"data:{mime};base64,{encoded}"})
    if kind == "video":
        return MediaPart("video_url", {"url": f"data:{mime};base64,{encoded}"})
    if kind == "audio":
        return MediaPart("input_audio", {"data": encoded, "format": _AUDIO_FORMATS.get(form, form)})
    if kind == "text" or mime == "application/json":
        try:
            return TextPart(base64.b64decode(encoded, validate=True).decode())
        except (binascii.Error, UnicodeDecodeError):
            raise invalid(f"Invalid value at '{param}.data': not base64 of UTF-8 text.", f"{param}.data") from None
    return None
