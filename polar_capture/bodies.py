"""Request bodies out of their content-encodings, with a bound on what a small body may unpack to."""

import sys
import zlib

import brotli

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

from polar_capture.faults import CallError, Fault, FaultKind, invalid

MAX_BODY = 64 * 1024 * 1024
"""Bytes of a request body, packed or unpacked. Anthropic's own limit is 32 MB."""


def too_large(limit: int = MAX_BODY) -> CallError:
    return CallError(Fault(FaultKind.TOO_LARGE, f"request body exceeds the maximum of {limit // 2**20} MB"))


def decode(body: bytes, encoding: str, limit: int = MAX_BODY) -> bytes:
    """`body` without its content-encoding (gzip, deflate, br, zstd, or several, the last applied first).

    Raises CallError: INVALID for an unknown or broken coding, TOO_LARGE beyond `limit` bytes.
    """
    for coding in reversed([part.strip().lower() for part in encoding.split(",") if part.strip()]):
        if coding == "identity":
            continue
        decoder = _DECODERS.get(coding)
        if decoder is None:
            raise invalid(f"content-encoding {coding!r} is not supported: use gzip, deflate, br, zstd or none")
        try:
            body = decoder(body, limit)
        except (zlib.error, brotli.error, zstd.ZstdError, EOFError) as error:
            raise invalid(f"the request body is not valid {coding}: {error}") from error
    if len(body) > limit:
        raise too_large(limit)
    return body


def _inflate(body: bytes, room: int, wbits: int) -> tuple[bytes, bytes]:
    """One stream's content, cut where it is longer than `room`, and what stands behind it."""
    inflater = zlib.decompressobj(wbits)
    out = inflater.decompress(body, room + 1)
    if len(out) <= room and not inflater.eof:
        raise zlib.error("the body ends early")
    return out, inflater.unused_data


def _gzip(body: bytes, limit: int) -> bytes:
    out = bytearray()
    while True:  # members may follow each other (RFC 1952)
        member, body = _inflate(body, limit - len(out), 16 + zlib.MAX_WBITS)
        out += member
        if len(out) > limit:
            raise too_large(limit)
        if not body.strip(b"\0"):
            return bytes(out)


def _deflate(body: bytes, limit: int) -> bytes:
    # "deflate" is zlib by RFC 9110, but some clients send the raw stream.
    try:
        out, _ = _inflate(body, limit, zlib.MAX_WBITS)
    except zlib.error:
        out, _ = _inflate(body, limit, -zlib.MAX_WBITS)
    if len(out) > limit:
        raise too_large(limit)
    return out


def _brotli(body: bytes, limit: int) -> bytes:
    decompressor = brotli.Decompressor()
    out = decompressor.process(body, output_buffer_limit=limit + 1)
    if len(out) > limit or not decompressor.can_accept_more_data():
        raise too_large(limit)
    if not decompressor.is_finished():
        raise EOFError("the body ends early")
    return out


def _zstd(body: bytes, limit: int) -> bytes:
    out = bytearray()
    while True:  # frames may follow each other (RFC 8878)
        decompressor = zstd.ZstdDecompressor()
        out += decompressor.decompress(body, limit + 1 - len(out))
        if len(out) > limit:
            raise too_large(limit)
        if not decompressor.eof:
            raise EOFError("the body ends early")
        body = decompressor.unused_data
        if not body:
            return bytes(out)


_DECODERS = {"gzip": _gzip, "x-gzip": _gzip, "deflate": _deflate, "br": _brotli, "zstd": _zstd}
