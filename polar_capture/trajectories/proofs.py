"""Check a sample against the stored calls: an independent recount, which shares nothing with the builders but the rows.

A sample is proved when its arrays fit each other, every sampled span is its call's completion bit for bit, the tokens
before a span are the prompt that the call was sampled from, masked-in logprobs are those of the call, and the mask is
1 on trained spans and nowhere else. That no call trains in two samples of a strategy is counted by
who reads them all.
"""

import enum
from collections.abc import Callable

import msgspec
import numpy as np

from polar_capture.outcomes import Verdict
from polar_capture.trajectories.rows import Float32Array, Int32Array, Sample, Span


class Mismatch(enum.StrEnum):
    """What is wrong with a sample."""

    LENGTHS = "lengths"  # ids, mask, logprobs or the stored length disagree
    MASK = "mask"  # not 0 or 1, or not exactly the trained spans
    SPAN_BOUNDS = "span_bounds"  # spans overlap, are empty, or leave the sample
    CALL_MISSING = "call_missing"  # a span's call is not in the database, or has no tokens
    COMPLETION = "completion"  # the span is not the call's completion
    CONTEXT = "context"  # the tokens before the span are not the call's prompt
    LOGPROBS = "logprobs"  # a masked-in logprob is not the call's, or one stands where the mask is 0
    PROMPT_LEN = "prompt_len"  # not where the first prompt ends
    TRAINED_TWICE = "trained_twice"  # a call trains in two samples of one strategy
    VERDICT = "verdict"  # says more than the sample can prove


class Finding(msgspec.Struct, frozen=True):
    """One mismatch. `at` is an index into the sample's tokens, where it has one."""

    sample_id: str
    kind: Mismatch
    at: int | None = None
    call_id: str | None = None
    detail: str = ""

    def __str__(self) -> str:
        where = (f" at token {self.at}" if self.at is not None else "") + (
            f", call {self.call_id}" if self.call_id else ""
        )
        return f"sample {self.sample_id}: {self.kind}{where}{': ' + self.detail if self.detail else ''}"


class CallTokens(msgspec.Struct):
    """A call as it is stored: prompt and completion ids int32, logprobs float32."""

    prompt_ids: Int32Array
    completion_ids: Int32Array
    logprobs: Float32Array


Tokens = Callable[[str], CallTokens | None]


def check(sample: Sample, tokens: Tokens, stored_length: int | None = None) -> list[Finding]:
    """Everything that is wrong with one sample; empty when it is proved. `stored_length` is the column `length`."""
    found: list[Finding] = []

    def note(kind: Mismatch, at: int | None = None, call: str | None = None, detail: str = "") -> None:
        found.append(Finding(sample.id, kind, at, call, detail))

    n = len(sample.input_ids)
    lengths = {n, len(sample.loss_mask), len(sample.logprobs), n if stored_length is None else stored_length}
    if len(lengths) > 1:
        note(Mismatch.LENGTHS, detail=f"{n} ids, {len(sample.loss_mask)} mask, {len(sample.logprobs)} logprobs")
        return found
    bad = _bad_bounds(sample.turn_spans, n)
    if bad is not None:
        note(Mismatch.SPAN_BOUNDS, bad.start, bad.call_id, f"[{bad.start}, {bad.end}) of {n}")
        return found
    expected = np.zeros(n, np.uint8)
    for span in sample.turn_spans:
        expected[span.start : span.end] = span.trained
    if (at := _first(expected != sample.loss_mask)) is not None:
        note(Mismatch.MASK, at, detail=f"{int(sample.loss_mask[at])} where the spans say {int(expected[at])}")
    if (at := _first(~np.isnan(sample.logprobs) & (expected == 0))) is not None:
        note(Mismatch.LOGPROBS, at, detail="a logprob where the mask is 0")
    blocks = _Blocks(sample, tokens)
    for span in sample.turn_spans:
        call = tokens(span.call_id)
        if call is None:
            note(Mismatch.CALL_MISSING, span.start, span.call_id)
            continue
        _check_span(sample, span, call, blocks.context(span), note)
    if sample.turn_spans and sample.prompt_len != sample.turn_spans[0].start:
        note(Mismatch.PROMPT_LEN, sample.prompt_len, detail=f"the first sampled token is {sample.turn_spans[0].start}")
    _check_verdict(sample, note)
    return found


Note = Callable[..., None]


def _check_span(sample: Sample, span: Span, call: CallTokens, context: Int32Array, note: Note) -> None:
    ids = sample.input_ids[span.start : span.end]
    if len(ids) != len(call.completion_ids):
        note(
            Mismatch.COMPLETION,
            span.start,
            span.call_id,
            f"{len(ids)} tokens, the call sampled {len(call.completion_ids)}",
        )
        return
    if (at := _first(ids != call.completion_ids)) is not None:
        note(Mismatch.COMPLETION, span.start + at, span.call_id, f"id {ids[at]}, sampled was {call.completion_ids[at]}")
    if len(context) != len(call.prompt_ids):
        note(
            Mismatch.CONTEXT,
            None,
            span.call_id,
            f"{len(context)} tokens before it, the prompt has {len(call.prompt_ids)}",
        )
    elif (at := _first(context != call.prompt_ids)) is not None:
        note(Mismatch.CONTEXT, at, span.call_id, f"id {context[at]}, the prompt has {call.prompt_ids[at]}")
    if not span.trained:
        return
    values = sample.logprobs[span.start : span.end]
    if len(values) != len(call.logprobs):
        note(Mismatch.LOGPROBS, span.start, span.call_id, f"the call has {len(call.logprobs)}")
    elif (at := _first(values != call.logprobs)) is not None:
        note(Mismatch.LOGPROBS, span.start + at, span.call_id, f"{values[at]}, sampled was {call.logprobs[at]}")


def _check_verdict(sample: Sample, note: Note) -> None:
    trains = bool(sample.loss_mask.any())
    if trains == (sample.verdict == Verdict.NOT_TRAINABLE):
        note(Mismatch.VERDICT, detail=f"{sample.verdict} with {int(sample.loss_mask.sum())} trained tokens")


def _bad_bounds(spans: list[Span], n: int) -> Span | None:
    end = 0
    for span in spans:
        if not end <= span.start < span.end <= n:
            return span
        end = span.end
    return None


def _first(where: np.ndarray) -> int | None:
    """Index of the first true value."""
    found = int(where.argmax()) if len(where) else 0
    return found if len(where) and bool(where[found]) else None


class _Blocks:
    """The template blocks that a repaired sample holds over and above the prompts its turns were sampled from.

    Each join names the predecessor whose prompt ends with the block. The block stands right before that call's span.
    """

    def __init__(self, sample: Sample, tokens: Tokens) -> None:
        self._sample = sample
        self._cuts: list[tuple[int, int, int]] = []
        if sample.verdict != Verdict.REPAIRED:
            return
        starts = {span.call_id: span.start for span in sample.turn_spans}
        for record in sample.breaks:
            if record.predecessor in starts and record.call_id in starts:
                call = tokens(record.predecessor)
                end = starts[record.predecessor]
                size = 0 if call is None else len(call.prompt_ids) - record.at
                self._cuts.append((end - size, end, starts[record.call_id]))

    def context(self, span: Span) -> Int32Array:
        """What stands before the span, without the blocks that the call did not see."""
        keep = np.ones(span.start, bool)
        for start, end, since in self._cuts:
            if span.start >= since:
                keep[start:end] = False
        return self._sample.input_ids[: span.start] if keep.all() else self._sample.input_ids[: span.start][keep]
