"""The packed columns of `calls`, as pure functions: token arrays and bodies to bytes and back.

The format is described for readers in any language in `db/README.md`. Two headers exist, both little-endian, each
followed by one zstd frame with a content checksum:

    token arrays   u8 version = 1 | u8 kind | u16 depth | u32 count                            (8 bytes)
    bodies         u8 version = 1 | u8 kind | u16 depth | u32 length | u32 head | u32 tail    (16 bytes)

A token array is either WHOLE, or the TAIL of a prompt that begins with its parent's prompt + completion. A body is
either WHOLE, or a change of another body (its base): the base's first `head` bytes, the frame's content, the base's
last `tail` bytes.
"""

import hashlib
import struct
import sys
from array import array as array_of_c
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

Int32Array = npt.NDArray[np.int32]
Float32Array = npt.NDArray[np.float32]

VERSION = 1

WHOLE = 1
"""Nothing else is needed to unpack it."""
TAIL = 2
"""Prompt ids behind those that the parent's prompt + completion begin with."""
LOGPROBS = 3
"""float32 values, all of them."""
AGAINST_PARENT = 4
"""A body as a change of the parent call's body in the same column."""
AGAINST_KEY = 5
"""A body as a change of the body KEY_HOPS parents up, so that no body needs more than a few changes to be read."""
AGAINST_REQUEST = 6
"""A chat_request as a change of the same row's request."""

KEY_HOPS = 32  # 16 cost 60 KB more in a 60-turn session and saved 2 ms of reading
WHOLE_BODY_EVERY = 256
WHOLE_TOKENS_EVERY = 256
CONTEXT_BYTES = 32768
"""How much of the base before the changed part is shown to the compressor as well."""

_TOKENS = struct.Struct("<BBHI")
_BODY = struct.Struct("<BBHIII")
_LEVEL, _LEVEL_OF_LARGE, _LARGE = 6, 3, 65536
_WINDOW_LOG_MIN, _WINDOW_LOG_MAX = 17, 27
_SHORTEST_PREFIX = 8  # zstd takes no shorter one


class CodecError(ValueError):
    """A packed value that can't be unpacked, or does not verify; the message says what is wrong with it."""


class TokensHeader(NamedTuple):
    kind: int
    depth: int
    """How many parents are needed to unpack it."""
    size: int
    """Length of the whole array, the parent's part included."""


class BodyHeader(NamedTuple):
    kind: int
    depth: int
    """Length of the parent chain of bodies behind it, modulo WHOLE_BODY_EVERY."""
    length: int
    """Length of the whole body in bytes."""
    head: int
    tail: int


class Change(NamedTuple):
    """How a body differs from its base: base[:head] + middle + base[len(base) - tail:]."""

    head: int
    tail: int
    middle: bytes


def as_int32(ids: Sequence[int] | Int32Array) -> Int32Array:
    """Token ids as an int32 array [n]; ValueError for what is no token id (negative, 2**31 or more, not a whole
    number)."""
    if isinstance(ids, np.ndarray) and ids.dtype == np.int32:
        array = ids
    else:
        try:  # not by numpy, which takes "7" and 1.5 for whole numbers
            array = np.frombuffer(array_of_c("i", ids), np.intc).astype(np.int32, copy=False)
        except (OverflowError, TypeError) as error:
            raise ValueError(f"token ids must be whole numbers from 0 to 2**31 - 1: {error}") from None
    if array.size and int(array.min()) < 0:
        raise ValueError(f"token ids must be whole numbers from 0 to 2**31 - 1: {int(array.min())}")
    return np.ascontiguousarray(array, dtype="<i4")


def prompt_hash(prompt: Int32Array) -> bytes:
    """SHA-256 of the ids as little-endian int32."""
    return hashlib.sha256(prompt.astype("<i4", copy=False).data if prompt.size else b"").digest()


def common_prefix(a: npt.NDArray[Any], b: npt.NDArray[Any]) -> int:
    """Length of the longest common prefix of two arrays of one dtype."""
    n = min(len(a), len(b))
    if n == 0:
        return 0
    differs = a[:n] != b[:n]
    first = int(differs.argmax())
    return first if differs[first] else n


def pack_ids(ids: Int32Array, shared: int = 0, parent_depth: int = 0) -> bytes:
    """Packs token ids; `shared` > 0 leaves out that many leading ones, which the parent (of that depth) has."""
    if shared and parent_depth + 1 < WHOLE_TOKENS_EVERY:
        header = _TOKENS.pack(VERSION, TAIL, parent_depth + 1, len(ids))
        return header + _compress(ids[shared:].tobytes())
    return _TOKENS.pack(VERSION, WHOLE, 0, len(ids)) + _compress(ids.tobytes())


def pack_logprobs(logprobs: Sequence[float] | Float32Array) -> bytes:
    """Packs logprobs as float32: the precision that engines compute in. NaN and infinities are kept."""
    with np.errstate(over="ignore"):  # beyond float32: stored as infinity, and such a call is not trainable anyway
        array = np.asarray(logprobs, dtype="<f4")
    return _TOKENS.pack(VERSION, LOGPROBS, 0, len(array)) + _compress(array.tobytes())


def tokens_header(packed: bytes) -> TokensHeader:
    """The header of a packed token array; CodecError for what is none."""
    if len(packed) < _TOKENS.size:
        raise CodecError(f"a packed token array has at least {_TOKENS.size} bytes, this one {len(packed)}")
    version, kind, depth, count = _TOKENS.unpack_from(packed)
    _check_version(version)
    if kind not in (WHOLE, TAIL, LOGPROBS):
        raise CodecError(f"kind {kind} is no token array")
    return TokensHeader(kind, depth, count)


def unpack_own_ids(packed: bytes) -> tuple[TokensHeader, Int32Array]:
    """Header and the ids that the value itself holds: all of them (WHOLE) or the last ones (TAIL)."""
    header = tokens_header(packed)
    ids = np.frombuffer(_decompress(memoryview(packed)[_TOKENS.size :]), "<i4").astype(np.int32, copy=False)
    whole = header.kind == WHOLE
    if header.kind == LOGPROBS or len(ids) > header.size or (whole and len(ids) != header.size):
        raise CodecError(f"{len(ids)} ids are packed where the header says kind {header.kind}, {header.size}")
    return header, ids


def unpack_logprobs(packed: bytes) -> Float32Array:
    """Logprobs as float32 [n]."""
    header = tokens_header(packed)
    values = np.frombuffer(_decompress(memoryview(packed)[_TOKENS.size :]), "<f4").astype(np.float32, copy=False)
    if header.kind != LOGPROBS or len(values) != header.size:
        raise CodecError(f"{len(values)} logprobs are packed where the header says kind {header.kind}, {header.size}")
    return values


def change(base: bytes, body: bytes) -> Change:
    """The one contiguous change that makes `base` into `body`."""
    old, new = np.frombuffer(base, np.uint8), np.frombuffer(body, np.uint8)
    head = common_prefix(old, new)
    rest = min(len(old), len(new)) - head
    tail = common_prefix(old[len(old) - rest :][::-1], new[len(new) - rest :][::-1])
    return Change(head, tail, body[head : len(body) - tail])


def pack_body(body: bytes) -> bytes:
    """Packs a body that stands for itself."""
    return _BODY.pack(VERSION, WHOLE, 0, len(body), 0, 0) + _compress(body)


def pack_change(kind: int, depth: int, base: bytes, body: bytes, beside: bytes = b"") -> tuple[bytes, bytes]:
    """Packs a body as a change of its base and returns it with the changed middle; `beside` is further text that the
    compressor may refer to."""
    head, tail, middle = change(base, body)
    header = _BODY.pack(VERSION, kind, depth, len(body), head, tail)
    return header + _compress(middle, _reference(base, head, tail, beside)), middle


def body_header(packed: bytes) -> BodyHeader:
    """The header of a packed body; CodecError for what is none."""
    if len(packed) < _BODY.size:
        raise CodecError(f"a packed body has at least {_BODY.size} bytes, this one {len(packed)}")
    version, *rest = _BODY.unpack_from(packed)
    _check_version(version)
    header = BodyHeader(*rest)
    if header.kind not in (WHOLE, AGAINST_PARENT, AGAINST_KEY, AGAINST_REQUEST):
        raise CodecError(f"kind {header.kind} is no body")
    return header


def unpack_body(packed: bytes, base: bytes = b"", beside: bytes = b"") -> tuple[bytes, bytes]:
    """The body and its changed middle (the whole body where it has no base)."""
    header = body_header(packed)
    if header.kind == WHOLE:
        body = middle = _decompress(packed[_BODY.size :])
    else:
        if header.head + header.tail > len(base):
            raise CodecError(f"the base has {len(base)} bytes, {header.head + header.tail} of it are used")
        middle = _decompress(packed[_BODY.size :], _reference(base, header.head, header.tail, beside))
        body = base[: header.head] + middle + base[len(base) - header.tail :]
    if len(body) != header.length:
        raise CodecError(f"the body has {len(body)} bytes where its header says {header.length}")
    return body, middle


def _reference(base: bytes, head: int, tail: int, beside: bytes) -> bytes:
    return base[max(0, head - CONTEXT_BYTES) : len(base) - tail] + beside


def _check_version(version: int) -> None:
    if version != VERSION:
        raise CodecError(f"packed format version {version}; this polar-capture reads {VERSION}: use a newer one")


def _compress(data: bytes, reference: bytes = b"") -> bytes:
    options: dict[int, int] = {
        zstd.CompressionParameter.compression_level: _LEVEL if len(data) < _LARGE else _LEVEL_OF_LARGE,
        zstd.CompressionParameter.checksum_flag: 1,
    }
    if len(reference) < _SHORTEST_PREFIX:
        return zstd.compress(data, options=options)
    # The whole reference must lie inside the window, or the far end of it is lost to the compressor.
    window = (len(data) + len(reference)).bit_length()
    options[zstd.CompressionParameter.window_log] = min(max(window, _WINDOW_LOG_MIN), _WINDOW_LOG_MAX)
    return zstd.compress(data, options=options, zstd_dict=zstd.ZstdDict(reference, is_raw=True).as_prefix)


def _decompress(frame: bytes | memoryview, reference: bytes = b"") -> bytes:
    try:
        if len(reference) < _SHORTEST_PREFIX:
            return zstd.decompress(frame)
        prefix = zstd.ZstdDict(reference, is_raw=True).as_prefix
        options: dict[int, int] = {zstd.DecompressionParameter.window_log_max: _WINDOW_LOG_MAX}
        return zstd.decompress(frame, zstd_dict=prefix, options=options)
    except zstd.ZstdError as error:
        raise CodecError(f"the compressed data is damaged or its base is another one: {error}") from None
