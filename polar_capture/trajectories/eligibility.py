"""Which calls of a session train, and why the others do not."""

from collections import defaultdict

import numpy as np

from polar_capture.outcomes import Reason, Warning
from polar_capture.trajectories.links import Link, SessionTree
from polar_capture.trajectories.options import BuildOptions
from polar_capture.trajectories.rows import CallRow

SENTINEL = -9999.0
"""vLLM clamps logprobs here and uses the value where it has none."""

ROUNDING = 1e-6
"""How far above 0 float32's log-softmax may end up; the capture takes such a value too."""

APART = frozenset(Reason) - {
    Reason.LOGPROBS_MISSING,
    Reason.LENGTH_MISMATCH,
    Reason.LOGPROB_INVALID,
    Reason.MIXED_POLICY,
    Reason.STALE_POLICY,
    Reason.MULTIMODAL_STATE_MISSING,
}
"""Reasons by which a call is no part of its session's trajectory: it makes no sample. A call with another reason was
part of it, and its sample says not_trainable."""

_PROVED_BY_ECHO = frozenset({Reason.UNDELIVERED, Reason.SUPERSEDED_RETRY})


def reasons(tree: SessionTree, options: BuildOptions) -> dict[str, Reason]:
    """Why each call of the session is not trainable, by call id; a call that is not in it is."""
    found = {row.id: _without_ids(row) for row in tree.without_ids}
    for link in tree.links.values():
        reason = _reason(link, options)
        if reason is not None:
            found[link.row.id] = reason
    for link in _superseded(tree):
        if found.get(link.row.id, Reason.UNDELIVERED) is Reason.UNDELIVERED:
            found[link.row.id] = Reason.SUPERSEDED_RETRY
    return found


def masked(row: CallRow, options: BuildOptions) -> str | None:
    """The option by which a trainable call is kept as context only: `truncated`, `suspect` or None."""
    if options.truncated == "mask" and row.finish_reason == "length":
        return "truncated"
    if options.suspect == "mask" and Warning.LOGPROBS_ALL_ZERO in row.warnings:
        return "suspect"
    return None


def _without_ids(row: CallRow) -> Reason:
    if row.reason is not None:
        return Reason(row.reason)
    return Reason.IDS_MISSING if row.status == "ok" else Reason.UPSTREAM_ERROR


def _reason(link: Link, options: BuildOptions) -> Reason | None:
    for reason in _objections(link):
        if reason in options.admit or (link.continued and reason in _PROVED_BY_ECHO):
            continue
        return reason
    return Reason.STALE_POLICY if _is_stale(link.row, options.oldest_policy) else None


def _is_stale(row: CallRow, oldest: int | None) -> bool:
    """An unknown version cannot be shown to be fresh."""
    return oldest is not None and (row.policy_version is None or row.policy_version < oldest)


def _objections(link: Link) -> list[Reason]:
    """Everything that speaks against a call with ids; what was recorded comes first."""
    row = link.row
    found = []
    if not row.trainable:
        found.append(Reason(row.reason) if row.reason is not None else Reason.UPSTREAM_ERROR)
    if row.kind == "side":
        found.append(Reason.SIDE)
    elif row.kind == "nested":
        found.append(Reason.NESTED)
    if row.status == "aborted" or row.finish_reason == "abort":
        found.append(Reason.ABORTED)
    elif row.status == "error":
        found.append(Reason.UPSTREAM_ERROR)
    if row.delivered is False:
        found.append(Reason.UNDELIVERED)
    if row.mixes_policies():
        found.append(Reason.MIXED_POLICY)
    fault = logprob_fault(row)
    if fault is not None:
        found.append(fault)
    return found


def logprob_fault(row: CallRow) -> Reason | None:
    """What is wrong with the call's logprobs as numbers, or with how many there are."""
    if row.completion_ids is None:
        return Reason.IDS_MISSING
    if row.logprobs is None:
        return Reason.LOGPROBS_MISSING if len(row.completion_ids) else None
    if len(row.logprobs) != len(row.completion_ids):
        return Reason.LENGTH_MISMATCH
    values = row.logprobs
    if len(values) and not bool(np.all((values <= ROUNDING) & (values > SENTINEL))):  # NaN fails both
        return Reason.LOGPROB_INVALID
    return None


def _superseded(tree: SessionTree) -> list[Link]:
    """The attempts that do not count where one turn was asked for more than once.

    Attempts are calls of one agent with the same prompt, token by token (the choices of one answer are one attempt).
    The one that counts: continued by another call, else delivered, else the last. The others are superseded when the
    gateway saw a retry, or when they are not known to have been delivered; else they are branches of their own.
    """
    asked: dict[tuple[int, int, str], list[Link]] = defaultdict(list)
    for link in tree.links.values():
        if link.row.kind == "turn":
            asked[id(link.place.prompt_node), link.place.prompt_len, link.row.agent].append(link)
    found = []
    for attempts in asked.values():
        if len({link.row.seq for link in attempts}) < 2:
            continue
        best = max(attempts, key=_standing)
        retried = any(link.row.attempt > 0 for link in attempts)
        for link in attempts:
            if link.row.seq == best.row.seq or link.continued:
                continue
            uncertain = link.row.delivered is None and (best.continued or best.row.delivered is True)
            if retried or uncertain or link.row.delivered is False:
                found.append(link)
    return found


def _standing(link: Link) -> tuple[bool, int, bool, tuple[int, int, str]]:
    delivered = {True: 2, None: 1, False: 0}[link.row.delivered]
    return (link.continued, delivered, bool(link.place.full_len > link.place.prompt_len), link.row.order)
