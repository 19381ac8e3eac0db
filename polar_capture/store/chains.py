"""Unpacking along the parent chain: what a call shares with its parents is stored once, with the parent.

Pure functions over rows; the queries that bring the rows are in `store.links`.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from polar_capture.store import codec
from polar_capture.store.codec import CodecError, Float32Array, Int32Array
from polar_capture.store.contexts import NO_IDS, NO_LOGPROBS, Context

BODY_COLUMNS = ("request", "chat_request", "message")
_CONTEXTS_IN_HAND = 64


class Tokens(NamedTuple):
    """The tokens of one call: prompt ids int32 [p], completion ids int32 [c], logprobs float32 [c]; empty where the
    engine gave none."""

    prompt_ids: Int32Array
    completion_ids: Int32Array
    logprobs: Float32Array


class TokenLink(NamedTuple):
    """The packed arrays of one call of a chain."""

    id: str
    parent_call_id: str | None
    prompt_ids: bytes | None
    completion_ids: bytes | None
    prompt_sha256: bytes | None = None
    logprobs: bytes | None = None


class BodyLink(NamedTuple):
    """The packed bodies of one call of a chain."""

    id: str
    parent_call_id: str | None
    request: bytes | None
    chat_request: bytes | None
    message: bytes | None


def join_prompt(links: list[TokenLink]) -> Int32Array:
    """The prompt of the first link, int32 [n]; the others are its ancestors, nearest first, as far as they are needed.

    Copies each needed token once: a long chain costs no more than its last prompt. CodecError where a link is missing
    or damaged.
    """
    target = links[0]
    if target.prompt_ids is None:
        return NO_IDS
    header, own = codec.unpack_own_ids(target.prompt_ids)
    prompt = np.empty(header.size, np.int32)
    needed = header.size - len(own)
    prompt[needed:] = own
    for link, parent in zip(links, [*links[1:], None], strict=True):
        if needed == 0:
            break
        if parent is None or parent.prompt_ids is None:
            raise CodecError(
                f"call {link.id} continues call {link.parent_call_id}, whose tokens are not in the database"
            )
        header, own = codec.unpack_own_ids(parent.prompt_ids)
        if needed > header.size:
            completion = NO_IDS if parent.completion_ids is None else codec.unpack_own_ids(parent.completion_ids)[1]
            if needed - header.size > len(completion):
                raise CodecError(f"call {link.id} shares {needed} tokens with call {parent.id}, which has fewer")
            prompt[header.size : needed] = completion[: needed - header.size]
            needed = header.size
        begin = header.size - len(own)
        if needed > begin:
            prompt[begin:needed] = own[: needed - begin]
            needed = begin
    return prompt


def tokens(link: TokenLink, prompt: Int32Array) -> Tokens:
    """The call's tokens, its prompt verified by its hash; CodecError where it is another one."""
    if link.prompt_sha256 is not None and codec.prompt_hash(prompt) != link.prompt_sha256:
        raise CodecError(
            f"call {link.id}: the unpacked prompt does not match its SHA-256; run `polar-capture db check`"
        )
    completion = NO_IDS if link.completion_ids is None else codec.unpack_own_ids(link.completion_ids)[1]
    return Tokens(prompt, completion, NO_LOGPROBS if link.logprobs is None else codec.unpack_logprobs(link.logprobs))


def join_prompts(
    links: Iterable[TokenLink], outside: Callable[[str], Context | None]
) -> Iterator[tuple[TokenLink, Int32Array]]:
    """(link, prompt) of every link; each is unpacked once where parents come before their children.

    `outside` gives the context of a parent that is not among the links behind (another session's, or too far back).
    """
    contexts: OrderedDict[str, Int32Array] = OrderedDict()
    for link in links:
        prompt = context = NO_IDS
        if link.prompt_ids is not None:
            header, own = codec.unpack_own_ids(link.prompt_ids)
            shared = header.size - len(own)
            prompt = np.concatenate((_shared(link, shared, contexts, outside), own)) if shared else own
            completion = NO_IDS if link.completion_ids is None else codec.unpack_own_ids(link.completion_ids)[1]
            context = np.concatenate((prompt, completion))
        contexts[link.id] = context
        if len(contexts) > _CONTEXTS_IN_HAND:
            contexts.popitem(last=False)
        yield link, prompt


def _shared(
    link: TokenLink,
    shared: int,
    contexts: OrderedDict[str, Int32Array],
    outside: Callable[[str], Context | None],
) -> Int32Array:
    parent = link.parent_call_id or ""
    tokens = contexts.get(parent)
    if tokens is None:
        context = outside(parent)
        if context is None:
            raise CodecError(f"call {link.id} continues call {parent}, whose tokens are not in the database")
        tokens = context.tokens
    if shared > len(tokens):
        raise CodecError(f"call {link.id} shares {shared} tokens with call {parent}, which has fewer")
    return tokens[:shared]


class Bodies:
    """Bodies of calls, unpacked with the help of `link`, which gives a call's packed bodies or None."""

    def __init__(self, link: Callable[[str], BodyLink | None], remembered: int = 64) -> None:
        self._link = link
        self._unpacked = lru_cache(remembered)(self._unpack)

    def body(self, call_id: str, column: str) -> bytes | None:
        """The column as it was captured, None where there is none. CodecError where a link is missing or damaged."""
        return self.with_middle(call_id, column)[0]

    def with_middle(self, call_id: str, column: str) -> tuple[bytes | None, bytes]:
        """The body and the middle in which it differs from its base."""
        try:
            return self._unpacked(call_id, column)
        except RecursionError:
            raise CodecError(f"call {call_id}: its parents form a circle") from None

    def _unpack(self, call_id: str, column: str) -> tuple[bytes | None, bytes]:
        link = self._link(call_id)
        packed = getattr(link, column) if link else None
        if link is None or packed is None:
            return None, b""
        header = codec.body_header(packed)
        kind = header.kind
        if kind == codec.WHOLE:
            return codec.unpack_body(packed, column)
        beside = b""
        if kind == codec.AGAINST_REQUEST:
            base = self.with_middle(call_id, "request")[0]
        elif kind == codec.AGAINST_PARENT:
            parent = link.parent_call_id or ""
            base = self.with_middle(parent, column)[0]
            if column == "request":
                beside = self.with_middle(parent, "message")[0] or b""
        else:
            hops = codec.KEY_HOPS[header.version]
            base = self.with_middle(self.ancestor(call_id, hops), column)[0]
            if column == "request" and header.version > 1:
                beside = b"".join(self.said(self.ancestor(call_id, 1), hops))
        if base is None:
            raise CodecError(f"call {call_id}: the body that its {column} is packed against is not in the database")
        if column == "chat_request" and kind != codec.AGAINST_REQUEST:
            beside = self.with_middle(call_id, "request")[1]
        return codec.unpack_body(packed, column, base, beside)

    def said(self, call_id: str, count: int) -> tuple[bytes, ...]:
        """The messages of that many calls up to this one, oldest first. CodecError where the chain is shorter."""
        messages = []
        for hops in range(count):
            call_id = self.ancestor(call_id, 1) if hops else call_id
            messages.append(self.body(call_id, "message") or b"")
        return tuple(reversed(messages))

    def header(self, call_id: str, column: str) -> codec.BodyHeader:
        """The header of a body that is there; CodecError where it is not."""
        link = self._link(call_id)
        packed = getattr(link, column) if link else None
        if packed is None:
            raise CodecError(f"call {call_id} has no {column}")
        return codec.body_header(packed)

    def ancestor(self, call_id: str, hops: int) -> str:
        """The call that many parents up; CodecError where the chain is shorter."""
        for _ in range(hops):
            link = self._link(call_id)
            if link is None or link.parent_call_id is None:
                raise CodecError(f"call {call_id}: a parent that its body is packed against is not in the database")
            call_id = link.parent_call_id
        return call_id
