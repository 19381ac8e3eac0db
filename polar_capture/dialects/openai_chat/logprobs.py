"""Logprobs for the few clients that ask to see them: the engine's own array, cut to what was asked."""

from typing import Any

import msgspec

from polar_capture.chat import Choice


def shown_entries(choice: Choice, top: int | None) -> list[dict[str, Any]] | None:
    """One object a sampled token: token, logprob, bytes and at most `top` alternatives (the engine may give more)."""
    if top is None or choice.logprobs_content is None:
        return None
    return [
        {
            "token": entry.get("token", ""),
            "logprob": entry.get("logprob"),
            "bytes": entry.get("bytes"),
            "top_logprobs": (entry.get("top_logprobs") or [])[:top],
        }
        for entry in msgspec.json.decode(choice.logprobs_content)
    ]


def by_text(entries: list[dict[str, Any]], content: str, run: int = 8) -> list[tuple[str, list[dict[str, Any]]]] | None:
    """Cut `content` between tokens, `run` tokens a piece, so that each piece has its own logprobs.

    None where the tokens do not spell the text (thoughts and tool calls are tokens too; half characters spell nothing).
    Tokens behind the text, the end token for one, go with the last piece.
    """
    cut: list[tuple[str, list[dict[str, Any]]]] = []
    at = 0
    for start in range(0, len(entries), run):
        some = entries[start : start + run]
        spelled = "".join(entry["token"] for entry in some)
        piece = content[at : at + len(spelled)]
        if not spelled.startswith(piece):
            return None
        at += len(piece)
        if piece or not cut:
            cut.append((piece, some))
        else:
            cut[-1][1].extend(some)
    return cut if cut and at == len(content) else None


def spread(entries: list[dict[str, Any]], deltas: int) -> list[list[dict[str, Any]]]:
    """Cut the entries into `deltas` runs of about equal length, in order, nothing left out."""
    return [entries[len(entries) * k // deltas : len(entries) * (k + 1) // deltas] for k in range(deltas)]
