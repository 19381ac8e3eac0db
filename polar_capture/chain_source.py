"""A session's chain state out of the store, for `chains.load`."""

import functools
import logging
from collections.abc import Callable, Iterator
from typing import Any, ParamSpec, TypeVar

import msgspec
import sqlalchemy as sa

from polar_capture.chains import ChainTurn
from polar_capture.chat import Message, Usage
from polar_capture.continuation.contexts import Context, context_of
from polar_capture.dialects.base import StoredTurn
from polar_capture.store import CodecError, Store
from polar_capture.store.records import StoreUnavailable

P = ParamSpec("P")
R = TypeVar("R")


log = logging.getLogger(__name__)


def _or_unavailable(read: Callable[P, R]) -> Callable[P, R]:
    """Say StoreUnavailable for a database that does not answer."""

    @functools.wraps(read)
    def guarded(*arguments: P.args, **named: P.kwargs) -> R:
        try:
            return read(*arguments, **named)
        except sa.exc.SQLAlchemyError as error:
            raise StoreUnavailable(f"the database does not answer ({error.__class__.__name__})") from error

    return guarded


class StoreChains:
    """`chains.ChainSource` over a Store. Methods raise StoreUnavailable."""

    def __init__(self, store: Store) -> None:
        self._store = store

    @_or_unavailable
    def session(self, session_id: str) -> dict[str, Any] | None:
        return self._store.session(session_id)

    @_or_unavailable
    def last_seq(self, session_id: str) -> int:
        return self._store.max_seq(session_id)

    @_or_unavailable
    def turns(self, session_id: str) -> list[ChainTurn]:
        """The answered calls in order; those behind a damaged row are left out, with a line in the log."""
        found: list[ChainTurn] = []
        try:
            found.extend(self._turns(session_id))
        except CodecError as error:
            log.error(
                "session %s is read back in part only: %s; `polar-capture db check` tells more", session_id, error
            )
        return found

    def _turns(self, session_id: str) -> Iterator[ChainTurn]:
        rows = {row["id"]: row for row in self._store.calls(session_id)}
        minted = self._store.minted_by_call(session_id)
        for call_id, tokens in self._store.session_tokens(session_id):
            row = rows[call_id]
            if row["status"] == "ok" and row["choice_index"] == 0:
                yield ChainTurn(
                    call_id,
                    row["agent"],
                    self._store.body(call_id, "message"),
                    minted.get(call_id, []),
                    tokens.prompt_ids,
                    tokens.completion_ids,
                )

    @_or_unavailable
    def session_of(self, ids: list[str]) -> str | None:
        """The session in which one of these ids was minted, the last id first."""
        found = self._store.find_minted(ids)
        for identifier in reversed(ids):
            if identifier in found:
                return self._store.call(found[identifier])["session_id"]
        return None

    @_or_unavailable
    def stored(self, minted_id: str) -> StoredTurn | None:
        """The recorded call of an id of ours; None for one that is unknown or has no answer."""
        call_id = self._store.find_minted([minted_id]).get(minted_id)
        if call_id is None:
            return None
        row = self._store.call(call_id)
        if row["status"] != "ok" or row["message"] is None or row["request"] is None:
            return None
        return StoredTurn(
            call_id=row["id"],
            path=row["path"],
            request=row["request"],
            message=msgspec.json.decode(row["message"], type=Message),
            finish_reason=row["finish_reason"] or "stop",
            usage=Usage(row["prompt_tokens"] or 0, row["completion_tokens"] or 0),
            model=row["model_served"] or "",
        )

    def context(self, call_id: str) -> Context | None:
        """What a recorded call ended with; None for one that is not there, or damaged, or can't be continued."""
        try:
            return context_of(self._store.call(call_id))
        except (KeyError, CodecError, sa.exc.SQLAlchemyError) as error:
            log.info("call %s cannot be continued from the store: %s", call_id, error)
            return None
