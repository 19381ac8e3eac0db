"""Sampled tokens in the terminal: their text coloured by probability, and the least likely of them."""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from polar_capture.views.visible import visible

if TYPE_CHECKING:
    from rich.text import Text

_BINS = (
    (0.9, "underline"),
    (0.6, "black on rgb(185,212,234)"),
    (0.3, "black on rgb(255,227,168)"),
    (0.1, "black on rgb(255,191,105)"),
    (0.0, "bold black on rgb(240,137,74)"),
)
"""Least probability and style; the bins of the HTML pages."""
_MOST = 2000
UNSURE = 0.9
"""Tokens below this probability are told as unlikely ones."""


def strip(ids: Sequence[int], logprobs: Sequence[float] | None, pieces: Mapping[int, bytes]) -> "Text":
    """The text of sampled tokens, each in the colour of its probability, under a legend."""
    from rich.text import Text

    drawn = Text("sampled, by probability: ")
    for least, style in _BINS:
        drawn.append(f"≥ {least:g}" if least else f"< {_BINS[-2][0]:g}", style)
        drawn.append(" ")
    drawn.append("\n")
    waiting = b""
    for place, token in enumerate(ids[:_MOST]):
        waiting += pieces.get(token, f"⟨{token}⟩".encode())
        try:
            text, waiting = waiting.decode(), b""
        except UnicodeDecodeError:
            if len(waiting) < 4 and place + 1 < min(len(ids), _MOST):
                continue  # a character that is spread over tokens stands with its last one
            text, waiting = waiting.decode("utf-8", "replace"), b""
        value = math.nan if logprobs is None else logprobs[place]
        drawn.append(visible(text).replace("\n", "↵\n"), _style(value))
    if len(ids) > _MOST:
        drawn.append(f"\n… {len(ids) - _MOST:,} more tokens", "dim")
    return drawn


def least_likely(
    ids: Sequence[int], logprobs: Sequence[float] | None, pieces: Mapping[int, bytes] | None, most: int = 5
) -> list[tuple[Any, ...]]:
    """The unlikeliest sampled tokens, (place, id, text, logprob, probability), in order of place."""
    if logprobs is None:
        return []
    order = sorted(range(len(ids)), key=lambda place: logprobs[place])[:most]
    return [
        (place, ids[place], _text(ids[place], pieces), f"{logprobs[place]:.4f}", f"{math.exp(logprobs[place]):.4f}")
        for place in sorted(order)
        if math.exp(min(logprobs[place], 0.0)) < UNSURE
    ]


def _style(logprob: float) -> str:
    if math.isnan(logprob):
        return ""
    return next(style for least, style in _BINS if math.exp(min(logprob, 0.0)) >= least)


def _text(token: int, pieces: Mapping[int, bytes] | None) -> str:
    if pieces is None or token not in pieces:
        return ""
    return repr(visible(pieces[token].decode("utf-8", "replace")))
