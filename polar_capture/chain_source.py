"""A session's chain state out of the store, for `chains.load`."""

from collections.abc import Iterator
from typing import Any

from polar_capture.chains import StoredTurn
from polar_capture.store import Store


class StoreChains:
    """`chains.ChainSource` over a Store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def session(self, session_id: str) -> dict[str, Any] | None:
        return self._store.session(session_id)

    def max_seq(self, session_id: str) -> int | None:
        return self._store.max_seq(session_id)

    def turns(self, session_id: str) -> Iterator[StoredTurn]:
        minted = self._store.minted_of_session(session_id)
        rows = {row["id"]: row for row in self._store.calls(session_id)}
        for call_id, tokens in self._store.session_tokens(session_id):
            row = rows[call_id]
            if row["status"] == "ok" and row["choice_index"] == 0:
                yield StoredTurn(
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
