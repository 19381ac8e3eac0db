"""`db check`: every row against its hash, its lengths and its parents."""

from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

import numpy as np
import sqlalchemy as sa

from polar_capture.store import chains, codec
from polar_capture.store.chains import BODY_COLUMNS, Bodies, TokenLink, Tokens
from polar_capture.store.codec import CodecError, Int32Array
from polar_capture.store.contexts import Context
from polar_capture.store.links import load_tokens
from polar_capture.store.models import Call, Sample, Session
from polar_capture.store.store import Store
from polar_capture.store.unpacking import SessionLinks, session_rows

_CALLS: sa.Table = Call.__table__  # type: ignore[assignment]
_SAMPLES: sa.Table = Sample.__table__  # type: ignore[assignment]


class Finding(NamedTuple):
    """Something wrong (`error`) or worth knowing (`note`), and where."""

    level: Literal["error", "note"]
    session_id: str | None
    call_id: str | None
    text: str


def check(store: Store, session_id: str | None = None) -> Iterator[Finding]:
    """Findings, session by session; none at all for a sound database. Never raises for damaged rows."""
    if session_id is None:
        yield from _check_file(store)
        yield from _check_spool(store)
    with store.database.read.connect() as connection:
        query = sa.select(Session.id).order_by(Session.started_at, Session.id)
        ids = [session_id] if session_id is not None else list(connection.execute(query).scalars())
        for identifier in ids:
            yield from _check_session(connection, identifier)
            yield from _check_samples(connection, identifier)


def _check_file(store: Store) -> Iterator[Finding]:
    if not store.database.is_sqlite:
        return
    with store.database.read.connect() as connection:
        for (line,) in connection.exec_driver_sql("PRAGMA quick_check(20)"):
            if line != "ok":
                yield Finding("error", None, None, f"the file is damaged: {line}")


def _check_spool(store: Store) -> Iterator[Finding]:
    for path in store.spool.waiting():
        yield Finding("note", None, None, f"{path} holds captured entries that are not in the database yet")
    rejected = store.spool.rejected
    if rejected.exists():
        yield Finding("error", None, None, f"{rejected} holds captured entries that the database refused")


def _check_session(connection: sa.Connection, session_id: str) -> Iterator[Finding]:
    rows = session_rows(connection, session_id)
    numbers = {row["seq"] for row in rows}
    for missing in sorted(set(range(max(numbers, default=-1) + 1)) - numbers):
        yield Finding("note", session_id, None, f"call {missing} of the session left no row: it was not delivered")
    bodies = Bodies(SessionLinks(connection, rows))
    contexts: dict[str, Int32Array] = {}
    for row in rows:
        texts = [*_check_tokens(connection, row, contexts), *_check_bodies(row, bodies)]
        for text in texts:
            yield Finding("error", session_id, row["id"], text)


def _check_tokens(connection: sa.Connection, row: dict[str, Any], contexts: dict[str, Int32Array]) -> Iterator[str]:
    link = TokenLink(*(row[name] for name in TokenLink._fields))
    parent = contexts.get(link.parent_call_id or "")
    if parent is None and link.parent_call_id is not None:
        try:
            found = load_tokens(connection, link.parent_call_id)
        except CodecError as error:
            yield f"its parent is damaged: {error}"
            return
        if found is None:
            yield f"its parent {link.parent_call_id} is not in the database"
        else:
            parent = found.tokens
    try:
        context = None if parent is None else Context(tokens=parent)
        _, prompt = next(chains.join_prompts([link], lambda _: context))
        tokens = chains.tokens(link, prompt)
    except CodecError as error:
        yield str(error)
        return
    contexts[link.id] = np.concatenate((tokens.prompt_ids, tokens.completion_ids))
    if len(contexts) > 64:
        contexts.pop(next(iter(contexts)))
    yield from _check_lengths(row, tokens, parent)


def _check_lengths(row: dict[str, Any], tokens: Tokens, parent: Int32Array | None) -> Iterator[str]:
    prompt, completion, logprobs = map(len, tokens)
    if parent is not None and row["prompt_ids"] is not None:
        shared = codec.common_prefix(parent, tokens.prompt_ids)
        if shared != row["prefix_len"]:
            yield f"prefix_len is {row['prefix_len']}, it shares {shared} tokens with its parent"
    if row["prompt_ids"] is not None and row["prompt_sha256"] is None:
        yield "its prompt has no hash"
    if not row["trainable"]:
        return  # what is incomplete there has its reason in the row
    if not prompt or not completion:
        yield f"it is trainable with {prompt} prompt ids and {completion} completion ids"
    if completion != logprobs or completion != row["completion_tokens"]:
        counts = f"{completion} ids, {logprobs} logprobs, completion_tokens {row['completion_tokens']}"
        yield f"it is trainable with {counts}"
    if prompt != row["prompt_tokens"]:
        yield f"it is trainable with {prompt} prompt ids and prompt_tokens {row['prompt_tokens']}"


def _check_bodies(row: dict[str, Any], bodies: Bodies) -> Iterator[str]:
    for column in BODY_COLUMNS:
        try:
            bodies.body(row["id"], column)
        except CodecError as error:
            yield f"{column}: {error}"


def _check_samples(connection: sa.Connection, session_id: str) -> Iterator[Finding]:
    columns = [_SAMPLES.c[name] for name in ("id", "length", "input_ids", "loss_mask", "logprobs", "turn_spans")]
    calls = sa.select(_CALLS.c.id).where(_CALLS.c.session_id == session_id)
    known = set(connection.execute(calls).scalars())
    for row in connection.execute(sa.select(*columns).where(_SAMPLES.c.session_id == session_id)):
        lengths = {row.length, len(row.input_ids), len(row.loss_mask), len(row.logprobs)}
        if len(lengths) != 1:
            yield Finding("error", session_id, None, f"sample {row.id}: its arrays have lengths {sorted(lengths)}")
        if gone := {span["call_id"] for span in row.turn_spans} - known:
            yield Finding("error", session_id, None, f"sample {row.id} is made of calls that are gone: {sorted(gone)}")
