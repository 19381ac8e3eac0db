"""Token arrays as a page carries them: each call holds only what no earlier call has.

A call is {base, keep, prompt, sampled, logprobs}: its prompt is the first `keep` tokens of call number `base`'s
prompt + sampled, then `prompt`. Arrays are base64 of little-endian int32 and float32.
"""

import base64
from typing import Any

import numpy as np

from polar_capture.trajectories.links import Link, SessionTree


def packed_tokens(tree: SessionTree, link: Link, numbers: dict[str, int]) -> dict[str, Any]:
    """One call's arrays; `numbers` are the places of the calls in the page."""
    place, row = link.place, link.row
    base = place.owner.row.id if place.owner is not None else None
    keep = min(place.shared, place.prompt_len)
    if base is None or base not in numbers or not keep:
        base, keep = None, 0
    sampled = row.completion_ids if row.completion_ids is not None else np.empty(0, np.int32)
    return {
        "base": -1 if base is None else numbers[base],
        "keep": keep,
        "prompt": base64_of(tree.tokens.tokens(place, keep, place.prompt_len), "<i4"),
        "sampled": base64_of(sampled, "<i4"),
        "logprobs": None if row.logprobs is None else base64_of(row.logprobs, "<f4"),
    }


def distinct_ids(tree: SessionTree) -> set[int]:
    """Every token id of a session."""
    found: set[int] = set()
    for link in tree.links.values():
        place = link.place
        keep = min(place.shared, place.prompt_len)
        found.update(np.unique(tree.tokens.tokens(place, keep, place.full_len)).tolist())
    return found


def vocabulary(pieces: dict[int, bytes]) -> dict[str, str | list[int]]:
    """Pieces by id: text, or a list of bytes where a token holds a part of a character only."""
    shown: dict[str, str | list[int]] = {}
    for token, piece in pieces.items():
        try:
            shown[str(token)] = piece.decode()
        except UnicodeDecodeError:
            shown[str(token)] = list(piece)
    return shown


def base64_of(values: np.ndarray, kind: str) -> str:
    """An array in the byte layout of `kind`, as base64."""
    return base64.b64encode(np.ascontiguousarray(values).astype(kind).tobytes()).decode()
