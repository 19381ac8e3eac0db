"""What the writer remembers of recent calls, so that their children can be packed against them without reading the
database."""

from collections import OrderedDict
from dataclasses import dataclass, field

import numpy as np

from polar_capture.store.codec import Float32Array, Int32Array, PromptHash

NO_IDS: Int32Array = np.empty(0, np.int32)
NO_LOGPROBS: Float32Array = np.empty(0, np.float32)


class Body:
    """A body in full, its depth in the chain of bodies, and its key: the last body of the chain at a multiple of
    the key's hops."""

    __slots__ = ("depth", "key", "middle", "text")

    def __init__(self, text: bytes, middle: bytes, depth: int, key: "Body | None") -> None:
        self.text, self.middle, self.depth = text, middle, depth
        self.key = key or self


@dataclass(slots=True)
class Context:
    """One recorded call as its children see it. `tokens` is its prompt + completion, int32 [n]."""

    tokens: Int32Array = field(default_factory=lambda: NO_IDS)
    tokens_depth: int = 0
    prompt_hash: PromptHash | None = None
    request: Body | None = None
    chat_request: Body | None = None
    message: bytes = b""
    said: tuple[bytes, ...] = ()
    """The messages from the call of its request's key to its own, oldest first."""
    secret: bool = False
    """Something in it has the shape of a credential; its children have that in their prompts too."""

    def size(self) -> int:
        """Bytes held; a shared key counts for everyone who holds it."""
        bodies = [body for body in (self.request, self.chat_request) if body]
        texts = sum(
            len(body.text) + len(body.middle) + (len(body.key.text) if body.key is not body else 0) for body in bodies
        )
        return self.tokens.nbytes + len(self.message) + texts


class RecentContexts:
    """The contexts of the calls used last, up to a number of bytes."""

    def __init__(self, max_bytes: int = 256 * 1024 * 1024) -> None:
        self._max_bytes = max_bytes
        self._bytes = 0
        self._contexts: OrderedDict[str, Context] = OrderedDict()

    def get(self, call_id: str) -> Context | None:
        context = self._contexts.get(call_id)
        if context is not None:
            self._contexts.move_to_end(call_id)
        return context

    def put(self, call_id: str, context: Context) -> None:
        self.drop(call_id)
        self._contexts[call_id] = context
        self._bytes += context.size()
        while self._bytes > self._max_bytes and len(self._contexts) > 1:
            self.drop(next(iter(self._contexts)))

    def retire(self, call_id: str) -> None:
        """Let this one go first: its child was packed, and few calls have two. So hundreds of sessions at once keep the
        one context each that they need."""
        if call_id in self._contexts:
            self._contexts.move_to_end(call_id, last=False)

    def drop(self, call_id: str) -> None:
        gone = self._contexts.pop(call_id, None)
        if gone is not None:
            self._bytes -= gone.size()

    def clear(self) -> None:
        self._contexts.clear()
        self._bytes = 0
