"""The page of one group: its sessions side by side, with rewards, advantages, lengths, and where each first differs
from the first one."""

from typing import Any, NamedTuple

import numpy as np
import sqlalchemy as sa

from polar_capture.call_rows import call_rows
from polar_capture.pages.document import document
from polar_capture.pages.packing import base64_of, vocabulary
from polar_capture.store import Store
from polar_capture.store.models import Sample
from polar_capture.tokenizers import Pieces
from polar_capture.trajectories.advantages import group_advantages
from polar_capture.trajectories.eligibility import reasons
from polar_capture.trajectories.links import link_session
from polar_capture.trajectories.options import BuildOptions
from polar_capture.trajectories.rows import Float32Array, Int32Array
from polar_capture.trajectories.tree import common_prefix

SCRIPTS = ["reading.js", "drawing.js", "tokens.js", "group.js"]
_SHOWN = ("session_id", "sample_index", "harness", "status", "reward", "turns", "trainable_calls", "prompt_tokens",
          "completion_tokens", "longest_prompt", "errors")  # fmt: skip


class Turn(NamedTuple):
    """One sampled turn of the main agent: prompt int32 [p], sampled int32 [c], logprobs float32 [c] or None."""

    seq: int
    prompt: Int32Array
    sampled: Int32Array
    logprobs: Float32Array | None
    why: str | None
    finish_reason: str | None


def group_page(captured: Store, group: dict[str, Any], pieces: Pieces | None, note: str) -> str:
    """The page as HTML. `group` is its row of `group_summary` with `members`, rows of `session_summary`; the first is
    what the others are compared with. CodecError for a damaged session, TokenizerError."""
    return document(f"group {group['group_id']} · polar_capture", group_data(captured, group, pieces, note), SCRIPTS)


def group_data(captured: Store, group: dict[str, Any], pieces: Pieces | None, note: str = "") -> dict[str, Any]:
    """The page's data as a JSON value."""
    group_id, members = group["group_id"], group["members"]
    advantages = _advantages(captured, group_id, members)
    told, ids = [], set[int]()
    first: list[Turn] = []
    for place, row in enumerate(members):
        turns, breaks = _turns(captured, row["session_id"])
        first = first or turns
        ids.update(token for turn in turns for token in np.unique(turn.sampled).tolist())
        told.append(
            {name: row[name] for name in _SHOWN}
            | {
                "advantage": advantages.get(row["session_id"]),
                "verdicts": _verdicts(captured, row["session_id"]),
                "breaks": breaks,
                "divergence": None if not place else divergence(first, turns),
                "sampled_divergence": None if not place else sampled_divergence(first, turns),
                "turns": [
                    {
                        "seq": turn.seq,
                        "prompt_tokens": len(turn.prompt),
                        "sampled": base64_of(turn.sampled, "<i4"),
                        "logprobs": None if turn.logprobs is None else base64_of(turn.logprobs, "<f4"),
                        "why": turn.why,
                        "finish_reason": turn.finish_reason,
                    }
                    for turn in turns
                ],
            }
        )
    return {
        "group": {name: value for name, value in group.items() if name != "members"},
        "members": told,
        "vocabulary": vocabulary(pieces.of(ids)) if pieces is not None else {},
        "tokenizer": pieces.source if pieces is not None else None,
        "note": note,
    }


def divergence(first: list[Turn], other: list[Turn]) -> dict[str, Any] | None:
    """Where two samples first differ: {turn, part (`prompt`, `sampled` or `end`), at}, `at` in tokens of that part.

    `end`: one of them stops where the other goes on. None where they are the same throughout.
    """
    for number, (a, b) in enumerate(zip(first, other, strict=False)):
        for part, x, y in (("prompt", a.prompt, b.prompt), ("sampled", a.sampled, b.sampled)):
            same = common_prefix(x, y)
            if same < max(len(x), len(y)):
                return {"turn": number, "part": part, "at": same}
    shorter = min(len(first), len(other))
    return {"turn": shorter, "part": "end", "at": 0} if len(first) != len(other) else None


def sampled_divergence(first: list[Turn], other: list[Turn]) -> dict[str, int] | None:
    """Where the policy first sampled something else, whatever the prompts were: {turn, at}; None where it never did."""
    for number, (a, b) in enumerate(zip(first, other, strict=False)):
        same = common_prefix(a.sampled, b.sampled)
        if same < max(len(a.sampled), len(b.sampled)):
            return {"turn": number, "at": same}
    return None


def _turns(captured: Store, session_id: str) -> tuple[list[Turn], list[str]]:
    """The main agent's turns with ids, and the names of all breaks of the session."""
    with captured.database.read.connect() as connection:
        tree = link_session(call_rows(connection, session_id))
    why = reasons(tree, BuildOptions())
    turns = []
    for link in tree.links.values():
        row, place = link.row, link.place
        if row.agent == "main" and row.kind == "turn" and row.choice_index == 0:
            sampled = tree.tokens.tokens(place, place.prompt_len)
            reason = why.get(row.id)
            prompt = tree.tokens.tokens(place, 0, place.prompt_len)
            turns.append(Turn(row.seq, prompt, sampled, row.logprobs, reason and str(reason), row.finish_reason))
    return turns, [link.broken.break_ for link in tree.links.values() if link.broken is not None]


def _advantages(captured: Store, group_id: str, members: list[dict[str, Any]]) -> dict[str, float | None]:
    """Advantages by session: as built, else GRPO's from the rewards as they are now."""
    query = sa.select(Sample.session_id, Sample.advantage).where(
        Sample.group_id == group_id, Sample.strategy == "prefix_merging", Sample.branch == 0
    )
    with captured.database.read.connect() as connection:
        built = {row.session_id: row.advantage for row in connection.execute(query)}
    if built:
        return built
    return group_advantages(group_id, {row["session_id"]: row["reward"] for row in members}, "grpo")[0]


def _verdicts(captured: Store, session_id: str) -> list[str]:
    query = sa.select(Sample.verdict).where(Sample.session_id == session_id, Sample.strategy == "prefix_merging")
    with captured.database.read.connect() as connection:
        return list(connection.execute(query.order_by(Sample.branch)).scalars())
