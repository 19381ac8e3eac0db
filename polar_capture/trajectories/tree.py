"""A radix tree of token sequences: which call continues which, and how far any two agree, by token identity alone.

Each call adds the path prompt + completion. Only what no earlier call holds is kept, so 10,000 calls of 100k tokens
that grow out of each other take the memory of the tokens that differ. Two ways in, both linear in the tokens given:

- a whole prompt is found again by its blocks: every 256 tokens of every path is known by a BLAKE2b digest of all
  tokens up to there, so that a long prompt skips the nodes in between;
- a prompt given as "so many tokens of that call, then these" starts there, wherever the call lies.
"""

import hashlib
from typing import NamedTuple

import numpy as np

from polar_capture.trajectories.rows import CallRow, Int32Array

BLOCK = 256


class Node:
    """An edge of the tree with the tokens on it; covers the depths (start, start + len(tokens)]."""

    __slots__ = ("children", "ends", "owner", "parent", "start", "tokens")

    def __init__(self, start: int, tokens: Int32Array | None, parent: "Node | None", owner: "Place | None") -> None:
        self.start = start
        self.tokens = tokens
        self.parent = parent
        self.owner = owner
        self.children: dict[int, Node] = {}
        self.ends: list[Place] = []

    @property
    def end(self) -> int:
        return self.start + (0 if self.tokens is None else len(self.tokens))


class Place:
    """Where a call lies in the tree: lengths in tokens, and the nodes that hold the two ends."""

    __slots__ = ("_prompt_node", "end_node", "full_len", "owner", "prompt_len", "row", "shared")

    def __init__(self, row: CallRow) -> None:
        self.row = row
        self._prompt_node: Node
        self.end_node: Node
        self.prompt_len = 0
        self.full_len = 0
        self.shared = 0
        """Longest prefix of the prompt that any earlier call's prompt + completion begins with."""
        self.owner: Place | None = None
        """An earlier call that begins with that prefix."""

    @property
    def prompt_node(self) -> Node:
        """The node that holds the last prompt token (a split leaves the lower part of a node to the node itself)."""
        self._prompt_node = _above(self._prompt_node, self.prompt_len)
        return self._prompt_node


class _Spot(NamedTuple):
    node: Node
    depth: int


def _above(node: Node, depth: int) -> Node:
    """The node on the way from the root to `node` that holds the token before `depth`; the root for 0."""
    while node.parent is not None and node.start >= depth:
        node = node.parent
    return node


def common_prefix(a: Int32Array, b: Int32Array) -> int:
    """Length of the longest common prefix of two arrays."""
    n = min(len(a), len(b))
    differs = a[:n] != b[:n]
    if not n or not differs[first := int(differs.argmax())]:
        return n
    return first


class TokenTree:
    """The tree of one session. Add calls in their order of arrival."""

    def __init__(self) -> None:
        self._root = Node(0, None, None, None)
        self._blocks: dict[bytes, Node] = {}
        self.places: dict[str, Place] = {}

    def add(self, row: CallRow) -> Place:
        """Adds a call with ids. ValueError when it starts from a call that was not added before it."""
        prompt, completion = row.prompt_ids, row.completion_ids
        if prompt is None or completion is None:
            raise ValueError(f"call {row.id} has no ids and so has no place in the token tree")
        place = Place(row)
        digests: list[bytes] = []
        if row.base_call_id is None:
            digests = _block_digests(prompt)
            spot = self._deepest_block(digests)
            rest = prompt[spot.depth :]
        else:
            base = self.places.get(row.base_call_id)
            if base is None:
                raise ValueError(f"call {row.id} starts from call {row.base_call_id}, which does not precede it")
            if not 0 <= row.base_len <= base.full_len:
                raise ValueError(f"call {row.id} shares {row.base_len} tokens with call {base.row.id}, which has fewer")
            spot, rest = _Spot(_above(base.end_node, row.base_len), row.base_len), prompt
        place.prompt_len = spot.depth + len(rest)
        place.full_len = place.prompt_len + len(completion)

        stop, used = self._walk(spot, rest)
        place.shared, place.owner = stop.depth, stop.node.owner
        at_prompt = self._grow(stop, rest[used:], place)
        for digest in reversed(digests):
            if digest in self._blocks:
                break
            self._blocks[digest] = at_prompt.node
        place._prompt_node = at_prompt.node

        stop, used = self._walk(at_prompt, completion)
        end = self._grow(stop, completion[used:], place)
        place.end_node = self._split(end.node, end.depth) if end.depth < end.node.end else end.node
        if len(completion):
            place.end_node.ends.append(place)
        self.places[row.id] = place
        return place

    def continued_by(self, place: Place) -> list[Place]:
        """The calls whose prompt + completion is the longest such beginning of this call's prompt; empty for a root.

        Several only where calls are equal token by token. Calls that sampled nothing can't be continued.
        """
        node: Node | None = place.prompt_node
        if node is not None and node.end > place.prompt_len:
            node = node.parent
        while node is not None:
            found = [other for other in node.ends if other is not place]
            if found:
                return found
            node = node.parent
        return []

    def agreement(self, place: Place, earlier: Place) -> int:
        """Length of the longest common prefix of `place`'s prompt and `earlier`'s prompt + completion."""
        a, b = place.prompt_node, earlier.end_node
        seen = a
        while a is not b:
            if a.start >= b.start and a.parent is not None:
                a = a.parent
            elif b.parent is not None:
                b = b.parent
            else:
                a = b = self._root
        return place.prompt_len if a is seen else min(a.end, place.prompt_len)

    def tokens(self, place: Place, start: int = 0, end: int | None = None) -> Int32Array:
        """Tokens [start, end) of the call's prompt + completion, int32."""
        end = place.full_len if end is None else end
        parts: list[Int32Array] = []
        node: Node | None = place.end_node
        while node is not None and node.tokens is not None and node.end > start:
            if node.start < end:
                parts.append(node.tokens[max(0, start - node.start) : end - node.start])
            node = node.parent
        return np.concatenate(parts[::-1]) if parts else np.empty(0, np.int32)

    def _deepest_block(self, digests: list[bytes]) -> _Spot:
        """The deepest known block boundary of a prompt."""
        low, high = 0, len(digests)
        while low < high:
            middle = (low + high + 1) // 2
            if digests[middle - 1] in self._blocks:
                low = middle
            else:
                high = middle - 1
        if not low:
            return _Spot(self._root, 0)
        depth = low * BLOCK
        node = self._blocks[digests[low - 1]] = _above(self._blocks[digests[low - 1]], depth)
        return _Spot(node, depth)

    @staticmethod
    def _walk(spot: _Spot, ids: Int32Array) -> tuple[_Spot, int]:
        """Follows the tree from a spot as long as it agrees with the ids; returns where it ends and how many agreed."""
        node, depth = spot
        used = 0
        while used < len(ids):
            if depth == node.end:
                child = node.children.get(int(ids[used]))
                if child is None:
                    break
                node = child
            assert node.tokens is not None
            agreed = common_prefix(node.tokens[depth - node.start :], ids[used:])
            used += agreed
            depth += agreed
            if depth < node.end:
                break
        return _Spot(node, depth), used

    def _grow(self, spot: _Spot, ids: Int32Array, owner: Place) -> _Spot:
        """Adds ids behind a spot where no child begins with them."""
        node, depth = spot
        if not len(ids):
            return spot
        if depth < node.end:
            node = self._split(node, depth)
        child = Node(depth, ids.copy(), node, owner)
        node.children[int(ids[0])] = child
        return _Spot(child, depth + len(ids))

    @staticmethod
    def _split(node: Node, depth: int) -> Node:
        """Cuts a node in two and returns the upper part; the lower part stays the node itself."""
        assert node.tokens is not None
        assert node.parent is not None
        cut = depth - node.start
        upper = Node(node.start, node.tokens[:cut], node.parent, node.owner)
        node.parent.children[int(node.tokens[0])] = upper
        node.start, node.tokens, node.parent = depth, node.tokens[cut:], upper
        upper.children[int(node.tokens[0])] = node
        return upper


def _block_digests(ids: Int32Array) -> list[bytes]:
    """A digest of ids[:256], ids[:512], …: each of everything up to there."""
    running = hashlib.blake2b(digest_size=16)
    view = memoryview(ids.astype("<i4", copy=False)).cast("B") if len(ids) else memoryview(b"")
    digests = []
    for end in range(BLOCK * 4, len(view) + 1, BLOCK * 4):
        running.update(view[end - BLOCK * 4 : end])
        digests.append(running.copy().digest())
    return digests
