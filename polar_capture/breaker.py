"""A circuit breaker for sessions whose context goes on overflowing.

Some harnesses answer "the prompt is too long" by summing up and asking again, for ever where that doesn't help
(measured: OpenCode 300 calls in 75 s, OpenHands 446). Each overflow weighs as much as two answers, so that also one
that alternates with answered summaries comes to an end.
"""

import time
from collections import OrderedDict
from collections.abc import Callable

from polar_capture.faults import Fault, FaultKind

DEFAULT_LIMIT = 8
_OVERFLOW, _ANSWER = 2, 1
_OPEN_SECONDS = 60.0
"""For so long after its last overflow a stopped session is refused; then its user may try again."""
_KEPT = 4096


class OverflowBreaker:
    """Counts the overflows of each session. `limit` is how many in a row end it; 0: never."""

    def __init__(self, limit: int = DEFAULT_LIMIT, now: Callable[[], float] = time.monotonic) -> None:
        self._limit = limit
        self._now = now
        self._sessions: OrderedDict[str, tuple[int, float]] = OrderedDict()

    def overflowed(self, session: str) -> None:
        """One more prompt of this session did not fit."""
        weight = self._sessions.pop(session, (0, 0.0))[0] + _OVERFLOW
        self._sessions[session] = (weight, self._now())
        if len(self._sessions) > _KEPT:
            self._sessions.popitem(last=False)

    def answered(self, session: str) -> None:
        """A call of this session got its answer."""
        if session in self._sessions:
            weight, at = self._sessions[session]
            if weight > _ANSWER:
                self._sessions[session] = (weight - _ANSWER, at)
            else:
                del self._sessions[session]

    def refusal(self, session: str) -> Fault | None:
        """The fault that ends the run of a session which overflowed too often; None while it may go on.

        Its words must not look like an overflow, or the harness would sum up once more.
        """
        weight, at = self._sessions.get(session, (0, 0.0))
        if not self._limit or weight < self._limit * _OVERFLOW:
            return None
        if self._now() - at > _OPEN_SECONDS:
            del self._sessions[session]
            return None
        return Fault(
            FaultKind.INVALID,
            f"polar_capture has stopped session {session}: {self._limit} requests in a row were refused for their "
            "size, and making them smaller did not help. Serve the model with more room, give the agent a smaller "
            "task, or set --overflow-limit.",
        )
