"""Which earlier call a prompt continues, by token identity, without keeping whole prompts in memory.

A sequence is cut into blocks of `BLOCK` tokens; the running BLAKE2b digest at each block's end stands for everything
before it, so equal digests mean equal prefixes. One more digest stands for the whole of prompt + completion.
"""

import hashlib
from bisect import insort

import msgspec
import numpy as np

BLOCK = 512
_DIGEST = 16


class Match(msgspec.Struct, frozen=True):
    """The best earlier call for a prompt. `length` tokens of the prompt are the call's prompt + completion; `exact`
    says that this is all of the call: the prompt continues it. Else `length` is a lower bound, whole blocks only."""

    call_id: str
    length: int
    exact: bool


class Fingerprint:
    """The digests of one token sequence (1-D int32): at every block boundary, and on request at any position."""

    def __init__(self, ids: np.ndarray, _before: "Fingerprint | None" = None) -> None:
        self._ids = np.ascontiguousarray(ids, dtype="<i4")
        self._bytes = memoryview(self._ids).cast("B")
        self._states: list[hashlib.blake2b] = [hashlib.blake2b(digest_size=_DIGEST)]
        self.blocks: list[bytes] = []
        if _before is not None:
            self._states, self.blocks = list(_before._states), list(_before.blocks)
        for start in range(len(self.blocks) * BLOCK, len(ids) - BLOCK + 1, BLOCK):
            state = self._states[-1].copy()
            state.update(self._bytes[start * 4 : (start + BLOCK) * 4])
            self._states.append(state)
            self.blocks.append(state.digest())

    def __len__(self) -> int:
        return len(self._ids)

    def at(self, length: int) -> bytes:
        """The digest of the first `length` tokens."""
        block = length // BLOCK
        state = self._states[block].copy()
        state.update(self._bytes[block * BLOCK * 4 : length * 4])
        return state.digest()

    def extended(self, ids: np.ndarray) -> "Fingerprint":
        """The fingerprint of this sequence with `ids` behind it; what is hashed already is not hashed again."""
        return Fingerprint(np.concatenate([self._ids, np.asarray(ids, dtype="<i4")]), self)


class PrefixIndex:
    """The calls of one session: about N/512 digests a call, shared where prefixes are."""

    def __init__(self) -> None:
        self._blocks: dict[bytes, tuple[bytes, str]] = {}
        self._of_call: dict[str, list[bytes]] = {}
        self._whole_of: dict[str, tuple[int, bytes]] = {}
        self._wholes: dict[tuple[int, bytes], str] = {}
        self._lengths: list[int] = []

    def __len__(self) -> int:
        return len(self._of_call)

    def __contains__(self, call_id: str) -> bool:
        return call_id in self._of_call

    def add(self, call_id: str, whole: Fingerprint) -> None:
        """Remember a call by the fingerprint of its prompt + completion."""
        # One object a digest: the equal prefixes of many calls share it.
        self._of_call[call_id] = [self._blocks.setdefault(digest, (digest, call_id))[0] for digest in whole.blocks]
        key = self._whole_of[call_id] = (len(whole), whole.at(len(whole)))
        if key not in self._wholes:
            insort(self._lengths, len(whole))
        self._wholes[key] = call_id

    def find(self, prompt: Fingerprint) -> Match | None:
        """The call which the prompt continues, the longest first; else the one sharing most leading blocks; else
        None."""
        shared = self._deepest(prompt.blocks)
        for length in reversed(self._lengths):
            if length <= len(prompt) and length // BLOCK <= shared:
                call_id = self._wholes.get((length, prompt.at(length)))
                if call_id is not None:
                    return Match(call_id, length, exact=True)
        if shared == 0:
            return None
        return Match(self._blocks[prompt.blocks[shared - 1]][1], shared * BLOCK, exact=False)

    def common(self, call_id: str, prompt: Fingerprint) -> Match | None:
        """How far the prompt goes along one given call; None for a call that is not known."""
        digests = self._of_call.get(call_id)
        if digests is None:
            return None
        shared = 0
        for ours, theirs in zip(prompt.blocks, digests, strict=False):
            if ours != theirs:
                break
            shared += 1
        length, whole = self._whole_of[call_id]
        # Not merely some call's whole: calls of one length may part in their last tokens.
        if length <= len(prompt) and shared == len(digests) and prompt.at(length) == whole:
            return Match(call_id, length, exact=True)
        return Match(call_id, shared * BLOCK, exact=False)

    def _deepest(self, digests: list[bytes]) -> int:
        """How many leading blocks are known: binary search, since a known prefix has only known prefixes."""
        low, high = 0, len(digests)
        while low < high:
            middle = (low + high + 1) // 2
            if digests[middle - 1] in self._blocks:
                low = middle
            else:
                high = middle - 1
        return low
