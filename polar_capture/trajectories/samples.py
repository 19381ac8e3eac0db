"""The builders: from a session's tree to training samples. Pure; the same calls give the same samples, ids included."""

import uuid
from collections import Counter
from collections.abc import Iterable, Iterator

import msgspec
import numpy as np

from polar_capture.outcomes import Break, Reason, Verdict
from polar_capture.trajectories.breaks import SPLITTING
from polar_capture.trajectories.eligibility import APART, masked, reasons
from polar_capture.trajectories.links import Conversations, Link, SessionTree, link_session
from polar_capture.trajectories.options import BuildOptions
from polar_capture.trajectories.report import SessionReport
from polar_capture.trajectories.rows import BreakRecord, CallRow, Int32Array, Sample, Span
from polar_capture.trajectories.stitching import stitched

NAMESPACE = uuid.UUID("8f6a3d0e-3c58-5b7e-9a56-6d0b0a7f7d11")


class Piece(msgspec.Struct):
    """A call as part of one sample: the unsampled tokens before it, then its completion."""

    link: Link
    before: Int32Array
    stitched: bool


def sample_id(strategy: str, leaf_call_id: str) -> str:
    """The id of the sample that ends with this call: the same in every build."""
    return str(uuid.uuid5(NAMESPACE, f"{strategy}:{leaf_call_id}"))


class SessionBuild:
    """What a session gives: its report, how much trains in each branch, and the samples, made one by one.

    Every trainable sampled token has mask 1 in exactly one sample: of the branches that share it, in the first.
    """

    def __init__(self, session_id: str, tree: SessionTree, options: BuildOptions) -> None:
        self._tree = tree
        self._options = options
        self._session_id = session_id
        why = reasons(tree, options)
        shown = _shown(tree, why)
        self._idle = _idle(tree, why, options)
        self._trains = {link.row.id for link in shown} - self._idle.keys()
        merging = options.strategy == "prefix_merging"
        self._joined = stitched(tree) if options.stitch and merging else {}
        self._leaves = _leaves(shown, self._joined) if merging else shown
        self.trained: list[int] = _trained(self._leaves, self._joined, self._trains, merging)
        """Trained tokens of each sample, by branch."""
        self.report = SessionReport(session_id=session_id, strategy=options.strategy, samples=len(self._leaves))
        self.report.trained_tokens = sum(self.trained)
        _count(tree, why, options, self.report)

    def samples(self) -> Iterator[Sample]:
        """The samples by branch, without rewards. The report's verdicts count those that were made."""
        owned: set[str] = set()
        self.report.verdicts.clear()
        for branch, leaf in enumerate(self._leaves):
            pieces = _pieces(self._tree, leaf, self._joined, self._options)
            here = {piece.link.row.id for piece in pieces if piece.link.row.id not in owned} & self._trains
            owned.update(here)
            sample = _assemble(self._session_id, branch, pieces, here, self._idle, self._options)
            sample.delivered_fraction = self.report.delivered_fraction
            self.report.verdicts[sample.verdict] += 1
            yield sample


def _idle(tree: SessionTree, why: dict[str, Reason], options: BuildOptions) -> dict[str, str]:
    """The calls that can only be context, with the reason or the option that says so: a side call too may be
    continued by a turn."""
    found = {link.row.id: why.get(link.row.id) or masked(link.row, options) for link in tree.links.values()}
    return {call_id: str(reason) for call_id, reason in found.items() if reason is not None}


def build_session(
    session_id: str,
    rows: Iterable[CallRow],
    options: BuildOptions | None = None,
    conversations: Conversations = lambda call_id: None,
) -> SessionBuild:
    """Links a session's calls and decides what trains. `rows` come as a list in any order or as an iterator by
    (seq, choice_index), so that no more than one prompt is held beside the tree."""
    return SessionBuild(session_id, link_session(rows, conversations), options or BuildOptions())


def _trained(leaves: list[Link], joined: dict[str, Link], trains: set[str], merging: bool) -> list[int]:
    """Trained tokens of each branch: a call counts in the first branch that holds it."""
    owned: set[str] = set()
    counts = []
    for leaf in leaves:
        tokens = 0
        link: Link | None = leaf
        while link is not None and link.row.id not in owned:
            owned.add(link.row.id)
            tokens += link.place.full_len - link.place.prompt_len if link.row.id in trains else 0
            link = joined.get(link.row.id, link.parent) if merging else None
        counts.append(tokens)
    return counts


def _shown(tree: SessionTree, why: dict[str, Reason]) -> list[Link]:
    """The calls that are part of the trajectory and sampled something, by order of arrival. What follows a redacted
    call holds the redacted tokens in its prompt, and is left out with it."""
    redacted: set[str] = set()
    shown = []
    for link in tree.links.values():
        if why.get(link.row.id) is Reason.REDACTED or (link.parent is not None and link.parent.row.id in redacted):
            redacted.add(link.row.id)
        elif why.get(link.row.id) not in APART and link.place.full_len > link.place.prompt_len:
            shown.append(link)
    return sorted(shown, key=lambda link: link.row.order)


def _leaves(shown: list[Link], joined: dict[str, Link]) -> list[Link]:
    """The calls that no other call of the trajectory continues."""
    inner: set[str] = set()
    for link in shown:
        above = joined.get(link.row.id, link.parent)
        while above is not None and above.row.id not in inner:
            inner.add(above.row.id)
            above = joined.get(above.row.id, above.parent)
    return [link for link in shown if link.row.id not in inner]


def _pieces(tree: SessionTree, leaf: Link, joined: dict[str, Link], options: BuildOptions) -> list[Piece]:
    if options.strategy == "per_request":
        return [Piece(leaf, tree.tokens.tokens(leaf.place, 0, leaf.place.prompt_len), False)]
    pieces: list[Piece] = []
    link: Link | None = leaf
    while link is not None:
        place = link.place
        above: Link | None
        if link.row.id in joined:
            above = joined[link.row.id]
            assert link.broken is not None
            start = link.broken.at + joined[link.row.id].place.full_len - joined[link.row.id].place.prompt_len
        else:
            above = link.parent
            start = above.place.full_len if above is not None else 0
        pieces.append(Piece(link, tree.tokens.tokens(place, start, place.prompt_len), link.row.id in joined))
        link = above
    return pieces[::-1]


def _assemble(
    session_id: str, branch: int, pieces: list[Piece], trains: set[str], idle: dict[str, str], options: BuildOptions
) -> Sample:
    leaf = pieces[-1].link.row
    parts: list[Int32Array] = []
    spans: list[Span] = []
    at = 0
    for piece in pieces:
        row = piece.link.row
        assert row.completion_ids is not None
        parts += [piece.before, row.completion_ids]
        start = at + len(piece.before)
        at = start + len(row.completion_ids)
        if at > start:
            spans.append(
                Span(
                    start=start,
                    end=at,
                    call_id=row.id,
                    policy_version=row.policy_version,
                    trained=row.id in trains,
                    reason=idle.get(row.id),
                )
            )
    mask = np.zeros(at, np.uint8)
    logprobs = np.full(at, np.nan, np.float32)
    values = {piece.link.row.id: piece.link.row.logprobs for piece in pieces}
    for span in spans:
        if span.trained:
            mask[span.start : span.end] = 1
            logprobs[span.start : span.end] = values[span.call_id]
    broken = [piece.link.broken for piece in pieces if piece.link.broken is not None]
    return Sample(
        id=sample_id(options.strategy, leaf.id),
        strategy=options.strategy,
        session_id=session_id,
        agent=leaf.agent,
        branch=branch,
        verdict=str(_verdict(pieces, spans, broken, options)),
        delivered_fraction=0.0,
        prompt_len=len(pieces[0].before),
        finish_reason=leaf.finish_reason,
        turn_spans=spans,
        breaks=broken if options.strategy == "prefix_merging" else [],
        input_ids=np.concatenate(parts).astype(np.int32, copy=False),
        loss_mask=mask,
        logprobs=logprobs,
    )


def _verdict(pieces: list[Piece], spans: list[Span], broken: list[BreakRecord], options: BuildOptions) -> Verdict:
    if not any(span.trained for span in spans):
        return Verdict.NOT_TRAINABLE
    if options.strategy == "per_request":
        return Verdict.EXACT
    mended = {piece.link.row.id for piece in pieces if piece.stitched}
    if any(Break(record.break_) in SPLITTING for record in broken if record.call_id not in mended):
        return Verdict.SPLIT
    return Verdict.REPAIRED if mended else Verdict.EXACT


def _count(tree: SessionTree, why: dict[str, Reason], options: BuildOptions, report: SessionReport) -> None:
    """What the session holds, before any sample is made."""
    rows = [*tree.without_ids, *(link.row for link in tree.links.values())]
    report.calls = len(rows)
    report.reasons = Counter(str(reason) for reason in why.values())
    report.breaks = Counter(link.broken.break_ for link in tree.links.values() if link.broken is not None)
    report.suspect_calls = sum("logprobs_all_zero" in row.warnings for row in rows)
    seen = {row.seq for row in rows}
    report.missing_seqs = sorted(set(range(max(seen, default=-1) + 1)) - seen)
    for row in rows:
        option = masked(row, options) if row.id not in why else None
        if option is not None:
            report.masked[option] += 1
        sampled = row.completion_tokens or 0 if row.completion_ids is None else len(row.completion_ids)
        if row.completion_ids is not None and not sampled and row.id not in why:
            report.empty_calls += 1
        if why.get(row.id) not in APART - {Reason.IDS_MISSING}:
            report.sampled_tokens += sampled
