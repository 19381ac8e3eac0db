"""Logprobs for clients that ask to see them (`include: message.output_text.logprobs`): the text's alone.

The engine lists every sampled token, of the thought and the calls too. The text's tokens are found by their bytes.
"""

from typing import Any

import msgspec


class Alternative(msgspec.Struct):
    token: str
    logprob: float
    bytes: list[int] | None = None


class Position(Alternative):
    top_logprobs: list[Alternative] = []


def of_text(raw: bytes | None, content: str) -> list[dict[str, Any]]:
    """The objects {token, bytes, logprob, top_logprobs} of the tokens that make up `content`, its last occurrence among
    the sampled bytes; [] where the engine gave none or the text is not found in them."""
    if raw is None or not content:
        return []
    try:
        positions = msgspec.json.decode(raw, type=list[Position])
    except (msgspec.DecodeError, UnicodeDecodeError):
        return []
    sampled = [_bytes(position) for position in positions]
    start = b"".join(sampled).rfind(content.encode())
    if start < 0:
        return []
    end = start + len(content.encode())
    shown, at = [], 0
    for position, piece in zip(positions, sampled, strict=True):
        if at < end and at + len(piece) > start:
            shown.append(_told(position) | {"top_logprobs": [_told(other) for other in position.top_logprobs]})
        at += len(piece)
    return shown


def _bytes(position: Alternative) -> bytes:
    return position.token.encode() if position.bytes is None else bytes(position.bytes)


def _told(position: Alternative) -> dict[str, Any]:
    return {"token": position.token, "bytes": list(_bytes(position)), "logprob": position.logprob}
