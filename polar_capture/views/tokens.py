"""A call's tokens as a table: place, id, text, logprob and probability side by side."""

import math
from collections.abc import Iterable, Mapping, Sequence

from polar_capture.store.records import CallRecord
from polar_capture.views.visible import visible

PROMPT_TAIL = 12
"""Tokens of the prompt that are shown: where the sampling began."""

_MOST_ROWS = 4000
_BAR = 10


def heading(row: CallRecord) -> str:
    """One line: whose turn it is, how long, and whether it trains."""
    who = "" if row.agent == "main" else f" {row.agent}"
    kind = "" if row.kind == "turn" else f" {row.kind}"
    verdict = "trainable" if row.trainable else f"not trainable: {row.reason}"
    sizes = f"{row.prompt_tokens or 0:,}+{row.completion_tokens or 0:,} tokens"
    return visible(f"{row.session_id} · turn {row.seq}{who}{kind} · {verdict} · {sizes}")


def token_table(row: CallRecord, pieces: Mapping[int, bytes] | None) -> str:
    """The end of the prompt and all sampled tokens. Texts are JSON strings, so that blanks and line breaks show; where
    `pieces` is None they are not known (yet)."""
    lines = [heading(row)]
    if row.prompt_ids is None or row.completion_ids is None:
        return "\n".join([*lines, row.error or "the engine gave no token ids"])
    known = list(row.prompt_ids)
    prompt = known[-PROMPT_TAIL:]
    whole = row.prompt_tokens or len(known)
    if pieces is None:
        lines.append("texts are not known: they are fetched behind the answer; --tokenizer PATH names a tokenizer")
    lines += ["", f"prompt (mask 0), the last {len(prompt)} of {whole:,} tokens", _HEAD]
    lines += _rows(whole - len(prompt), prompt, None, pieces)
    sampled = list(row.completion_ids)
    mask = 1 if row.trainable else 0
    lines += ["", f"sampled (mask {mask}), {len(sampled):,} tokens, finish {row.finish_reason}", _HEAD]
    lines += _rows(whole, sampled[:_MOST_ROWS], row.logprobs, pieces)
    if len(sampled) > _MOST_ROWS:
        lines.append(f"… {len(sampled) - _MOST_ROWS:,} more: polar-capture show {row.id} --json")
    return "\n".join(lines)


_HEAD = f"{'place':>8} {'id':>8} {'logprob':>9} {'prob':>6} {'':<{_BAR}} text"


def _rows(
    begin: int, ids: Sequence[int], logprobs: Sequence[float] | None, pieces: Mapping[int, bytes] | None
) -> Iterable[str]:
    for offset, token in enumerate(ids):
        value = logprobs[offset] if logprobs is not None and offset < len(logprobs) else None
        if value is None or math.isnan(value):
            number, share, bar = "", "", ""
        else:
            probability = math.exp(min(value, 0.0))
            number, share, bar = f"{value:.4f}", f"{probability:.3f}", "█" * round(probability * _BAR)
        yield f"{begin + offset:>8} {token:>8} {number:>9} {share:>6} {bar:<{_BAR}} {_text(int(token), pieces)}"


def _text(token: int, pieces: Mapping[int, bytes] | None) -> str:
    if pieces is None or token not in pieces:
        return ""
    try:
        text = pieces[token].decode()
    except UnicodeDecodeError:
        return "bytes " + pieces[token].hex(" ")
    quoted = text.replace("\\", "\\\\").replace("\n", "\\n").replace("\t", "\\t").replace('"', '\\"')
    return f'"{visible(quoted)}"'
