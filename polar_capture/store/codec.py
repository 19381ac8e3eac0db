"""The packed columns of `calls`, as pure functions: token arrays and bodies to bytes and back.

The format is described for readers in any language in `db/README.md`. Two headers exist, both little-endian, each
followed by one zstd frame with a content checksum:

    token arrays   u8 version = 1 | u8 kind | u16 depth | u32 count                            (8 bytes)
    bodies         u8 version = 2 | u8 kind | u16 depth | u32 length | u32 head | u32 tail    (16 bytes)

A token array is either WHOLE, or the TAIL of a prompt that begins with its parent's prompt + completion. A body is
either WHOLE, or a change of another body (its base): the base's first `head` bytes, the frame's content, the base's
last `tail` bytes.
"""

import hashlib
import struct
import sys
import threading
from array import array as array_of_c
from collections.abc import Sequence
from functools import lru_cache
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

BODY_VERSION = 2
KEY_HOPS = {1: 32, 2: 16}
"""By version of packed bodies. In version 2 the messages sampled on the way to the key are beside it, and a
chat_request has less context, since the request beside it says the same."""
WHOLE_BODY_EVERY = 256
WHOLE_TOKENS_EVERY = 256

_TOKENS = struct.Struct("<BBHI")
_BODY = struct.Struct("<BBHIII")
_LEVEL, _LEVEL_OF_TEXT, _LARGE = 3, 6, 262144  # 6 makes ids 2 % smaller and takes three times as long
_WINDOW_LOG_MIN, _WINDOW_LOG_MAX = 17, 27
_SHORTEST_PREFIX = 8  # zstd takes no shorter one
_SMALL = 8192
_WORTH_A_PREFIX = 16  # a body that came again has no change at all: nothing to show the compressor a prefix for
_CONTEXT, _CONTEXT_OF_CHAT = 32768, 8192


class CodecError(ValueError):
    """A packed value that can't be unpacked, or does not verify; the message says what is wrong with it."""


class TokensHeader(NamedTuple):
    kind: int
    depth: int
    """How many parents are needed to unpack it."""
    size: int
    """Length of the whole array, the parent's part included."""


class BodyHeader(NamedTuple):
    version: int
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


class _Compressors(threading.local):
    def __init__(self) -> None:
        self.by_level: dict[int, zstd.ZstdCompressor] = {}


_compressors = _Compressors()


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
    return PromptHash(prompt).digest()


class PromptHash:
    """`prompt_hash` that a longer prompt with the same beginning can go on from: each turn hashes only what is new."""

    __slots__ = ("_state", "size")

    def __init__(self, prompt: Int32Array, parent: "PromptHash | None" = None) -> None:
        """`parent` is of the first `parent.size` ids of `prompt`."""
        self.size = len(prompt)
        self._state: Any = hashlib.sha256() if parent is None else parent._state.copy()
        new = prompt if parent is None else prompt[parent.size :]
        if new.size:
            self._state.update(np.ascontiguousarray(new, "<i4").data)

    def digest(self) -> bytes:
        """The 32 bytes."""
        return self._state.digest()


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
    _check_version(version, VERSION)
    if kind not in (WHOLE, TAIL, LOGPROBS):
        raise CodecError(f"kind {kind} is no token array")
    return TokensHeader(kind, depth, count)


def unpack_own_ids(packed: bytes) -> tuple[TokensHeader, Int32Array]:
    """Header and the ids that the value itself holds: all of them (WHOLE) or the last ones (TAIL). Not to be written
    to."""
    return _small_own_ids(packed) if len(packed) <= _SMALL else _own_ids(packed)


def _own_ids(packed: bytes) -> tuple[TokensHeader, Int32Array]:
    header = tokens_header(packed)
    ids = np.frombuffer(_decompress(memoryview(packed)[_TOKENS.size :]), "<i4").astype(np.int32, copy=False)
    whole = header.kind == WHOLE
    if header.kind == LOGPROBS or len(ids) > header.size or (whole and len(ids) != header.size):
        raise CodecError(f"{len(ids)} ids are packed where the header says kind {header.kind}, {header.size}")
    return header, ids


# The turns of a session share their chain: whoever reads one after the other unpacks each link once.
_small_own_ids = lru_cache(maxsize=1024)(_own_ids)
forget_links = _small_own_ids.cache_clear


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
    head = _equal_bytes(old, new, at_end=False)
    rest = min(len(old), len(new)) - head
    tail = _equal_bytes(old[len(old) - rest :], new[len(new) - rest :], at_end=True)
    return Change(head, tail, body[head : len(body) - tail])


def context_bytes(version: int, kind: int, column: str) -> int:
    """How much of the base before the changed part is shown to the compressor as well."""
    beside_says_it = version > 1 and column == "chat_request" and kind != AGAINST_REQUEST
    return _CONTEXT_OF_CHAT if beside_says_it else _CONTEXT


def pack_body(body: bytes) -> bytes:
    """Packs a body that stands for itself."""
    return _BODY.pack(BODY_VERSION, WHOLE, 0, len(body), 0, 0) + _compress_text(body)


def pack_change(kind: int, depth: int, column: str, base: bytes, found: Change, beside: bytes = b"") -> bytes:
    """Packs a body, `column` of its row, as a change of its base; `beside` is further text that the compressor may
    refer to."""
    head, tail, middle = found
    header = _BODY.pack(BODY_VERSION, kind, depth, head + len(middle) + tail, head, tail)
    context = context_bytes(BODY_VERSION, kind, column)
    return header + _compress_text(middle, _reference(base, head, tail, context, beside))


def body_header(packed: bytes) -> BodyHeader:
    """The header of a packed body; CodecError for what is none."""
    if len(packed) < _BODY.size:
        raise CodecError(f"a packed body has at least {_BODY.size} bytes, this one {len(packed)}")
    header = BodyHeader(*_BODY.unpack_from(packed))
    _check_version(header.version, BODY_VERSION)
    if header.kind not in (WHOLE, AGAINST_PARENT, AGAINST_KEY, AGAINST_REQUEST):
        raise CodecError(f"kind {header.kind} is no body")
    return header


def unpack_body(packed: bytes, column: str, base: bytes = b"", beside: bytes = b"") -> tuple[bytes, bytes]:
    """The body, `column` of its row, and its changed middle (the whole body where it has no base)."""
    header = body_header(packed)
    if header.kind == WHOLE:
        body = middle = _decompress(packed[_BODY.size :])
    else:
        if header.head + header.tail > len(base):
            raise CodecError(f"the base has {len(base)} bytes, {header.head + header.tail} of it are used")
        context = context_bytes(header.version, header.kind, column)
        middle = _decompress(packed[_BODY.size :], _reference(base, header.head, header.tail, context, beside))
        body = base[: header.head] + middle + base[len(base) - header.tail :]
    if len(body) != header.length:
        raise CodecError(f"the body has {len(body)} bytes where its header says {header.length}")
    return body, middle


def _equal_bytes(a: npt.NDArray[np.uint8], b: npt.NDArray[np.uint8], *, at_end: bool) -> int:
    """How many bytes are equal from the beginning, or from the end, of two arrays of one length where `at_end`.

    By eights first: half a megabyte is compared for each turn.
    """
    n = min(len(a), len(b))
    words = n // 8 * 8
    equal = 0
    if words:
        part = slice(n - words, n) if at_end else slice(0, words)
        differs = a[part].view(np.uint64) != b[part].view(np.uint64)
        first = int((differs[::-1] if at_end else differs).argmax())
        equal = first * 8 if differs[-1 - first if at_end else first] else words
    stop = min(n, equal + 8)
    part = slice(n - stop, n - equal) if at_end else slice(equal, stop)
    rest = a[part] == b[part]
    return equal + int(np.logical_and.accumulate(rest[::-1] if at_end else rest).sum())


def _reference(base: bytes, head: int, tail: int, context: int, beside: bytes) -> bytes:
    return base[max(0, head - context) : len(base) - tail] + beside


def _check_version(version: int, newest: int) -> None:
    if not 1 <= version <= newest:
        raise CodecError(f"packed format version {version}; this polar-capture reads {newest}: use a newer one")


def _compress_text(data: bytes, reference: bytes = b"") -> bytes:
    level = _LEVEL_OF_TEXT if len(data) < _LARGE else _LEVEL
    if len(reference) < _SHORTEST_PREFIX or len(data) < _WORTH_A_PREFIX:
        return _compress(data, level)
    # The whole reference must lie inside the window, or the far end of it is lost to the compressor.
    window = (len(data) + len(reference)).bit_length()
    options = _options(level)
    options[zstd.CompressionParameter.window_log] = min(max(window, _WINDOW_LOG_MIN), _WINDOW_LOG_MAX)
    return zstd.compress(data, options=options, zstd_dict=zstd.ZstdDict(reference, is_raw=True).as_prefix)


def _compress(data: bytes, level: int = _LEVEL) -> bytes:
    """A frame by the thread's own compressor: to make one for each small array takes longer than to compress it."""
    kept = _compressors.by_level
    if level not in kept:
        kept[level] = zstd.ZstdCompressor(options=_options(level))
    frame: bytes = kept[level].compress(data, zstd.ZstdCompressor.FLUSH_FRAME)
    return frame


def _options(level: int) -> dict[int, int]:
    return {zstd.CompressionParameter.compression_level: level, zstd.CompressionParameter.checksum_flag: 1}


def _decompress(frame: bytes | memoryview, reference: bytes = b"") -> bytes:
    try:
        if len(reference) < _SHORTEST_PREFIX:
            return zstd.decompress(frame)
        prefix = zstd.ZstdDict(reference, is_raw=True).as_prefix
        options: dict[int, int] = {zstd.DecompressionParameter.window_log_max: _WINDOW_LOG_MAX}
        return zstd.decompress(frame, zstd_dict=prefix, options=options)
    except zstd.ZstdError as error:
        raise CodecError(f"the compressed data is damaged or its base is another one: {error}") from None
