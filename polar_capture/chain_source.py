"""A session's chain state out of the store, for `chains.load`."""

from collections.abc import Iterator
from typing import Any

import msgspec

from polar_capture.chains import ChainTurn
from polar_capture.chat import Message, Usage
from polar_capture.dialects.base import StoredTurn
from polar_capture.store import Store


class StoreChains:
    """`chains.ChainSource` over a Store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def session(self, session_id: str) -> dict[str, Any] | None:
        return self._store.session(session_id)

    def last_seq(self, session_id: str) -> int:
        return self._store.max_seq(session_id)

    def turns(self, session_id: str) -> Iterator[ChainTurn]:
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

    def session_of(self, ids: list[str]) -> str | None:
        """The session in which one of these ids was minted, the last id first."""
        found = self._store.find_minted(ids)
        for identifier in reversed(ids):
            if identifier in found:
                return self._store.call(found[identifier])["session_id"]
        return None

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
