"""Verify samples in the database: each against the stored calls, all of a strategy against each other, and, on request,
against an engine."""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import sqlalchemy as sa

from polar_capture.engine_scoring import Engine
from polar_capture.samples_table import read_samples
from polar_capture.store import Store
from polar_capture.store.codec import CodecError
from polar_capture.store.models import Sample
from polar_capture.trajectories.proofs import CallTokens, Finding, Mismatch, check
from polar_capture.trajectories.rescoring import Rescored, Worst, compare
from polar_capture.trajectories.rows import Sample as SampleRow

_KEPT = 100
"""Findings told one by one; the others are counted."""


class Verification(msgspec.Struct):
    """What was found."""

    samples: int = 0
    tokens: int = 0
    trained_tokens: int = 0
    mismatches: Counter[str] = msgspec.field(default_factory=Counter)
    findings: list[str] = msgspec.field(default_factory=list)
    rescored: int = 0
    rescored_tokens: int = 0
    mean_difference: float | None = None
    worst: Worst | None = None
    worst_text: tuple[str | None, str | None, str | None] | None = None
    """Text before the worst token, of it, and behind it."""
    beyond_tolerance: list[str] = msgspec.field(default_factory=list)
    too_long: list[str] = msgspec.field(default_factory=list)
    """Samples that the engine's window does not take."""

    @property
    def holds(self) -> bool:
        return not self.mismatches and not self.beyond_tolerance

    def as_json(self) -> dict[str, Any]:
        found = dict(msgspec.to_builtins(self)) | {"holds": self.holds}
        if self.worst is not None:
            found["worst"]["difference"] = self.worst.difference
        return found


def verify(
    captured: Store,
    *,
    session_id: str | None = None,
    rescore: Engine | None = None,
    tolerance: float = 1e-3,
    progress: Callable[[int, int], None] = lambda done, of: None,
) -> Verification:
    """Checks every sample, or those of one session. `tolerance` is the largest allowed difference of a re-scored
    logprob in nats."""
    report = Verification()
    owners: dict[tuple[str, str], str] = {}
    total = 0.0
    with captured.database.read.connect() as connection:
        lengths = _lengths(connection, session_id)
        for done, sample in enumerate(read_samples(connection, list(lengths))):
            report.samples += 1
            report.tokens += len(sample.input_ids)
            report.trained_tokens += int(sample.loss_mask.sum())
            for finding in (*_check(captured, sample, lengths[sample.id]), *_owned(sample, owners)):
                report.mismatches[finding.kind] += 1
                if len(report.findings) < _KEPT:
                    report.findings.append(str(finding))
            if rescore is not None:
                total += _rescore(report, sample, rescore, tolerance)
            progress(done + 1, len(lengths))
    if report.rescored_tokens:
        report.mean_difference = total / report.rescored_tokens
    if rescore is not None and report.worst is not None:
        worst = report.worst
        report.worst_text = (rescore.text(worst.before), rescore.text([worst.token]), rescore.text(worst.after))
    return report


def _lengths(connection: sa.Connection, session_id: str | None) -> dict[str, int]:
    query = sa.select(Sample.id, Sample.length).order_by(Sample.session_id, Sample.strategy, Sample.branch)
    if session_id is not None:
        query = query.where(Sample.session_id == session_id)
    return dict(connection.execute(query).all())


def _check(captured: Store, sample: SampleRow, length: int) -> list[Finding]:
    known: dict[str, CallTokens | None] = {}

    def tokens(call_id: str) -> CallTokens | None:
        if call_id not in known:
            known[call_id] = _tokens(captured, call_id)
        return known[call_id]

    try:
        return check(sample, tokens, length)
    except CodecError as error:  # the stored prompt does not match its own hash
        return [Finding(sample.id, Mismatch.CALL_MISSING, None, None, str(error))]


def _tokens(captured: Store, call_id: str) -> CallTokens | None:
    try:
        found = captured.tokens(call_id)
    except KeyError:
        return None
    return CallTokens(found.prompt_ids, found.completion_ids, found.logprobs)


def _owned(sample: SampleRow, owners: dict[tuple[str, str], str]) -> Iterator[Finding]:
    for span in sample.turn_spans:
        owner = owners.setdefault((sample.strategy, span.call_id), sample.id) if span.trained else sample.id
        if owner != sample.id:
            detail = f"it trains in sample {owner} as well"
            yield Finding(sample.id, Mismatch.TRAINED_TWICE, span.start, span.call_id, detail)


def _rescore(report: Verification, sample: SampleRow, engine: Engine, tolerance: float) -> float:
    """Scores one sample; returns the sum of its differences."""
    if not sample.loss_mask.any():
        return 0.0
    if engine.max_model_len is not None and len(sample.input_ids) >= engine.max_model_len:
        report.too_long.append(sample.id)
        return 0.0
    found: Rescored = compare(sample, engine.logprobs(sample.input_ids.tolist()))
    report.rescored += 1
    report.rescored_tokens += found.tokens
    if found.worst is not None:
        # `not <=`: a difference that is not a number is beyond any tolerance.
        if not found.worst.difference <= tolerance:
            report.beyond_tolerance.append(sample.id)
        if report.worst is None or found.worst.difference > report.worst.difference:
            report.worst = found.worst
    return found.mean * found.tokens
