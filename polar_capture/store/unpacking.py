"""A session's calls as records again: for copying them elsewhere, where their parents may be missing."""

from collections.abc import Iterator
from typing import Any

import sqlalchemy as sa

from polar_capture.store import chains
from polar_capture.store.chains import BODY_COLUMNS, Bodies, BodyLink, TokenLink
from polar_capture.store.escaping import unescape
from polar_capture.store.links import body_links, load_tokens
from polar_capture.store.models import Call, MintedId
from polar_capture.store.records import CallRecord

_CALLS: sa.Table = Call.__table__  # type: ignore[assignment]
_MINTED: sa.Table = MintedId.__table__  # type: ignore[assignment]
_ORDER = (_CALLS.c.seq, _CALLS.c.choice_index)
_PACKED = {*BODY_COLUMNS, "prompt_sha256", "prompt_ids", "completion_ids", "logprobs"}


class SessionLinks:
    """The packed bodies of one session's calls, and of the calls of other sessions that they lead to."""

    def __init__(self, connection: sa.Connection, rows: list[dict[str, Any]]) -> None:
        self._connection = connection
        self._links = {row["id"]: BodyLink(*(row[name] for name in BodyLink._fields)) for row in rows}

    def __call__(self, call_id: str) -> BodyLink | None:
        if call_id not in self._links:
            self._links.update(body_links(self._connection, call_id, 0))
        return self._links.get(call_id)


def session_rows(connection: sa.Connection, session_id: str) -> list[dict[str, Any]]:
    """A session's calls by seq and choice, every column, packed."""
    query = sa.select(_CALLS).where(_CALLS.c.session_id == session_id).order_by(*_ORDER)
    return [dict(row) for row in connection.execute(query).mappings()]


def minted_ids(connection: sa.Connection, session_id: str) -> dict[str, list[str]]:
    """The ids minted in a session, by call."""
    query = sa.select(_MINTED.c.call_id, _MINTED.c.id).join(_CALLS, _CALLS.c.id == _MINTED.c.call_id)
    found: dict[str, list[str]] = {}
    for call_id, minted in connection.execute(query.where(_CALLS.c.session_id == session_id).order_by(_MINTED.c.id)):
        found.setdefault(call_id, []).append(minted)
    return found


def session_records(connection: sa.Connection, session_id: str) -> Iterator[CallRecord]:
    """A session's calls, unpacked and verified, in order. CodecError where one is damaged."""
    rows = session_rows(connection, session_id)
    minted = minted_ids(connection, session_id)
    bodies = Bodies(SessionLinks(connection, rows))
    links = (TokenLink(*(row[name] for name in TokenLink._fields)) for row in rows)
    prompts = chains.join_prompts(links, lambda call_id: load_tokens(connection, call_id))
    for row, (link, prompt) in zip(rows, prompts, strict=True):
        tokens = chains.tokens(link, prompt)
        values: dict[str, Any] = {
            name: unescape(value) if isinstance(value, str) else value
            for name, value in row.items()
            if name not in _PACKED
        }
        values |= {column: bodies.body(link.id, column) for column in BODY_COLUMNS}
        for name, array in zip(("prompt_ids", "completion_ids", "logprobs"), tokens, strict=True):
            values[name] = None if row[name] is None else array
        yield CallRecord(
            **values,
            minted=[unescape(identifier) for identifier in minted.get(link.id, [])],
        )
