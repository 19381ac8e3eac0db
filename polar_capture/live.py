"""What the sessions in memory are doing, for `top` and the metrics: counts of rows as they are recorded."""

import time
from collections import Counter, OrderedDict
from collections.abc import Iterable
from typing import Any

from polar_capture.call import Call
from polar_capture.sessions import SessionState
from polar_capture.store.records import CallRecord

_KEPT = 4096
_RECENT = 900.0
"""Seconds after its last call for which a session is shown."""


class LiveSessions:
    """Counts by session; an observer of the gateway."""

    def __init__(self) -> None:
        self._counts: OrderedDict[str, Counter[str]] = OrderedDict()

    def recorded(self, call: Call, rows: list[CallRecord]) -> None:
        counts = self._counts.setdefault(call.session.id, Counter())
        self._counts.move_to_end(call.session.id)
        counts["calls"] += 1
        for row in rows:
            counts["errors"] += row.status == "error"
            counts["not_trainable"] += not row.trainable
            counts["completion_tokens"] += row.completion_tokens or 0
        counts["prompt_tokens"] += rows[0].prompt_tokens or 0
        counts["engine_ms"] += int(rows[0].upstream_ms or 0)
        counts["call_ms"] += int(1000 * (time.time() - call.started_at))
        while len(self._counts) > _KEPT:
            self._counts.popitem(last=False)

    def rows(self, table: Iterable[SessionState], now: float | None = None) -> list[dict[str, Any]]:
        """The sessions with a call under way or a recent one that have not ended; the busiest first. Times in seconds,
        `waiting` is what calls took beyond the engine's own time."""
        now = time.time() if now is None else now
        found = []
        for state in table:
            if state.running == 0 and (state.ended or state.last_call_at < now - _RECENT):
                continue
            counts = self._counts.get(state.id, Counter())
            found.append(
                {
                    "session": state.id,
                    "harness": state.harness,
                    "running": state.running,
                    "idle": 0.0 if state.running else max(0.0, now - state.last_call_at),
                    **{name: counts[name] for name in ("calls", "errors", "not_trainable", "prompt_tokens")},
                    "completion_tokens": counts["completion_tokens"],
                    "engine": counts["engine_ms"] / 1000,
                    "waiting": max(0, counts["call_ms"] - counts["engine_ms"]) / 1000,
                }
            )
        return sorted(found, key=lambda row: (-row["running"], row["idle"], row["session"]))
