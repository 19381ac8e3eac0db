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

    def max_seq(self, session_id: str) -> int | None:
        return self._store.max_seq(session_id)

    def turns(self, session_id: str) -> Iterator[ChainTurn]:
        minted = self._store.minted_of_session(session_id)
        rows = {row["id"]: row for row in self._store.calls(session_id)}
        for call_id, tokens in self._store.session_tokens(session_id):
            row = rows[call_id]
            if row["status"] == "ok" and row["choice_index"] == 0:
                yield ChainTurn(
                    call_id,
                    row["agent"],
                    self._store.body(call_id, "message"),
                    minted.get(call_id, []),
                    tokens.prompt_ids if tokens else None,
                    tokens.completion_ids if tokens else None,
                )

    def find_minted(self, ids: list[str]) -> dict[str, str]:
        """Session ids by minted id."""
        return self._store.sessions_of_minted(ids)

    def stored(self, minted_id: str) -> StoredTurn | None:
        """The recorded call of an id of ours; None for one that is unknown or has no answer."""
        call_id = self._store.find_minted([minted_id]).get(minted_id)
        row = self._store.call(call_id) if call_id else None
        if row is None or row["status"] != "ok" or row["message"] is None or row["request"] is None:
            return None
        return StoredTurn(
            call_id=row["id"],
            path=row["path"],
            request=row["request"] if isinstance(row["request"], bytes) else row["request"].encode(),
            message=msgspec.json.decode(row["message"], type=Message),
            finish_reason=row["finish_reason"] or "stop",
            usage=Usage(row["prompt_tokens"] or 0, row["completion_tokens"] or 0),
            model=row["model_served"] or "",
        )
