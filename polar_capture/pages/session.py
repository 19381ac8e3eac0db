"""The page of one session: every call with its place in the token tree, its tokens, messages, echoes and rewards."""

from typing import Any

import sqlalchemy as sa

from polar_capture.call_rows import call_rows, conversation_of
from polar_capture.outcomes import Break, Reason
from polar_capture.pages.bodies import session_bodies
from polar_capture.pages.document import document
from polar_capture.pages.echoes import EchoFinder
from polar_capture.pages.messages import MessageTable, json_object
from polar_capture.pages.packing import distinct_ids, packed_tokens, vocabulary
from polar_capture.pages.words import BREAKS, REASONS
from polar_capture.store import Store
from polar_capture.store.models import Sample
from polar_capture.tokenizers import Pieces
from polar_capture.trajectories.eligibility import reasons
from polar_capture.trajectories.links import Link, SessionTree, link_session
from polar_capture.trajectories.options import BuildOptions

SCRIPTS = ["reading.js", "drawing.js", "tokens.js", "conversation.js", "calls.js", "session.js"]
_SHOWN = (
    "id", "seq", "choice_index", "agent", "kind", "user_turn", "attempt", "dialect", "host", "path",
    "model_requested", "model_served", "upstream", "status", "trainable", "reason", "warnings", "http_status", "error",
    "streamed", "delivered", "started_at", "finished_at", "upstream_ms", "finish_reason", "stop_reason",
    "prompt_tokens", "completion_tokens", "prefix_len", "sampling", "logprobs_mode", "policy_version", "policy_label",
    "continuation", "unmapped", "dropped",
)  # fmt: skip


def session_page(captured: Store, session_id: str, pieces: Pieces | None, note: str, chosen: str | None = None) -> str:
    """The page as HTML. `pieces` gives tokens their text; `note` says why there is none; `chosen` is the call that is
    open at first. KeyError for an unknown session, CodecError for a damaged one, TokenizerError."""
    data = session_data(captured, session_id, pieces, note)
    data["chosen"] = chosen
    return document(f"{session_id} · polar_capture", data, SCRIPTS)


def session_data(captured: Store, session_id: str, pieces: Pieces | None, note: str = "") -> dict[str, Any]:
    """The page's data as a JSON value. KeyError for an unknown session."""
    session = captured.session(session_id)
    if session is None:
        raise KeyError(f"session {session_id} is not in {captured.database.name}")
    with captured.database.read.connect() as connection:
        tree = link_session(call_rows(connection, session_id), lambda call: conversation_of(captured, call))
    rows = captured.calls(session_id)
    samples = _samples(captured, session_id)
    numbers = {row["id"]: number for number, row in enumerate(rows)}
    why = reasons(tree, BuildOptions())
    trained = _trained(samples, tree, why)
    body = session_bodies(captured, session_id)
    messages = MessageTable()
    echoes = EchoFinder(
        {minted: call for call, ids in captured.minted_by_call(session_id).items() for minted in ids},
    )
    calls = []
    for row in rows:
        link = tree.links.get(row["id"])
        call = {name: row[name] for name in _SHOWN} | _place(link, numbers)
        reason = why.get(row["id"])
        if not row["trainable"] or reason is not None:
            call["why"] = str(reason or row["reason"] or "")
        call["trained"] = row["id"] in trained
        call["tokens"] = packed_tokens(tree, link, numbers) if link is not None else None
        nearest = call["parent"] if call["parent"] is not None else (call["break"] or {}).get("predecessor")
        call["messages"] = messages.add(body(row["id"], "chat_request"), nearest)
        message = body(row["id"], "message")
        call["message"] = json_object(message) or None
        call["echoes"] = [
            {**echo, "of": numbers[echo["of"]]}
            for echo in echoes.echoed(row["path"], row["host"], body(row["id"], "request"))
            if echo["of"] in numbers
        ]
        echoes.sampled(row["id"], message)
        calls.append(call)
    return {
        "session": session,
        "rewards": captured.rewards(session_id),
        "calls": calls,
        "messages": messages.messages,
        "tools": messages.tools,
        "vocabulary": vocabulary(pieces.of(distinct_ids(tree))) if pieces is not None else {},
        "tokenizer": pieces.source if pieces is not None else None,
        "note": note,
        "samples": samples,
        "reasons": {str(reason): text for reason, text in REASONS.items()},
        "breaks": {str(kind): text for kind, text in BREAKS.items()},
    }


def _place(link: Link | None, numbers: dict[str, int]) -> dict[str, Any]:
    """Parent and break of a call in the token tree, by number."""
    if link is None:
        return {"parent": None, "break": None}
    broken = link.broken
    return {
        "parent": numbers[link.parent.row.id] if link.parent is not None else None,
        "break": None
        if broken is None
        else {
            "kind": str(Break(broken.break_)),
            "at": broken.at,
            "lost": broken.tokens,
            "predecessor": numbers[broken.predecessor],
        },
    }


def _samples(captured: Store, session_id: str) -> list[dict[str, Any]]:
    """The built samples without their arrays."""
    columns = ("id", "strategy", "agent", "branch", "verdict", "delivered_fraction", "prompt_len", "length", "reward",
               "advantage", "finish_reason", "turn_spans")  # fmt: skip
    query = sa.select(*(getattr(Sample, name) for name in columns)).where(Sample.session_id == session_id)
    with captured.database.read.connect() as connection:
        found = connection.execute(query.order_by(Sample.strategy, Sample.branch)).mappings()
        return [dict(row) for row in found]


def _trained(samples: list[dict[str, Any]], tree: SessionTree, why: dict[str, Reason]) -> set[str]:
    """The calls whose sampled tokens have mask 1: as built, else as `build` would decide by its defaults."""
    merged = [sample for sample in samples if sample["strategy"] == "prefix_merging"]
    if merged:
        return {span["call_id"] for sample in merged for span in sample["turn_spans"] if span.get("trained", True)}
    return {call_id for call_id in tree.links if call_id not in why}
