"""Joins over the template's empty think block, where the tokens prove that nothing else differs.

With thinking off, Qwen3's template ends the *generation* prompt with an empty think block that the replayed turn does
not have, so that no prompt begins with the one before it. A join is proved when the prompts agree up to a block of at
most 8 tokens at the end of the predecessor's prompt, the predecessor's whole completion follows in its place, and the
block is known for glue: the request asked for no thinking, or the same block was lost in every such place of the
session, at least twice.
"""

from collections import Counter

from polar_capture.trajectories.links import Link, SessionTree


def stitched(tree: SessionTree) -> dict[str, Link]:
    """The predecessor that each call is joined to, by call id."""
    broken = [link for link in tree.links.values() if link.glue is not None and link.predecessor is not None]
    blocks = Counter(link.glue.tobytes() for link in broken if link.glue is not None)
    if len(blocks) != 1 or not broken:
        return {}
    certain = blocks.total() > 1 or all(link.thinking_off for link in broken)
    return {link.row.id: link.predecessor for link in broken if link.predecessor is not None} if certain else {}
