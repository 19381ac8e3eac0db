"""What the client carries for us unread: the ids of a turn, and a compacted history in one opaque string.

A compaction item must work where our store does not know it any more (a resumed run against a new database), so its
`encrypted_content` is an id of ours, a dot, and the summary itself: zlib, then base64.
"""

import base64
import binascii
import re
import zlib

_SHORTEST = len("x_") + 32
_MINTED = re.compile(r"[a-z]+_([0-9a-f]{32})(?:_\d+)?")
_OPAQUE_HEAD = base64.b64encode(b"polar1")[:8].decode()
_STEM = re.compile(rb"polar1:([0-9a-f]{32}):")
_LONGEST_SUMMARY = 16 << 20


def turn_of(identifier: str) -> str | None:
    """The turn (32 hex digits of its call id) that an id or opaque token of ours belongs to; None for anybody
    else's."""
    if len(identifier) < _SHORTEST:
        return None
    found = _MINTED.fullmatch(identifier)
    if found:
        return found[1]
    if not identifier.startswith(_OPAQUE_HEAD):
        return None
    try:
        inside = _STEM.match(base64.b64decode(identifier[:64], validate=True))
    except binascii.Error:
        return None
    return inside[1].decode() if inside else None


def created_at(identifier: str) -> int:
    """When the call of an id of ours began, epoch seconds: call ids are UUIDv7, which begin with the time in ms.
    0 for other ids."""
    stem = turn_of(identifier)
    return int(stem[:12], 16) // 1000 if stem and stem[12] == "7" else 0


def seal(token: str, summary: str) -> str:
    """The `encrypted_content` of a compaction item: `token` is minted, `summary` any text without lone surrogates."""
    return f"{token}.{base64.b64encode(zlib.compress(summary.encode())).decode()}"


def token_of(encrypted: str) -> str:
    """The minted part of an `encrypted_content`: what finds the turn in the store."""
    return encrypted.partition(".")[0]


def unseal(encrypted: str) -> str | None:
    """The summary in an `encrypted_content` that we sealed; None for anybody else's and for a damaged one."""
    token, dot, packed = encrypted.partition(".")
    if not dot or turn_of(token) is None:
        return None
    try:
        unpacking = zlib.decompressobj()
        summary = unpacking.decompress(base64.b64decode(packed, validate=True), _LONGEST_SUMMARY)
        return summary.decode() if unpacking.eof else None
    except (binascii.Error, zlib.error, UnicodeDecodeError, ValueError):
        return None
