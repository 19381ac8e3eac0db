"""Cutting a finished answer into stream deltas of a size that real servers send."""

SHORTEST = 24
"""Characters of a delta; longer ones only where the answer would need more than MOST deltas."""
MOST = 160


def pieces(text: str, shortest: int = SHORTEST, most: int = MOST) -> list[str]:
    """Cut `text` into at most `most` consecutive pieces; joined they are the text again. An empty text has none.

    Cuts fall between code points, never inside one: a UTF-16 client sees no lone surrogate.
    """
    size = max(shortest, -(-len(text) // most))
    return [text[start : start + size] for start in range(0, len(text), size)]
