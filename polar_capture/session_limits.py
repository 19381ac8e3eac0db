"""How much a session may use. The proxy enforces it: beyond a limit it answers in the engine's place, in words that end
an agent's loop."""

from typing import Any

import msgspec

from polar_capture.chat import ChatRequest, Choice, Completion, Message, Usage
from polar_capture.outcomes import Reason, Warning


class Limits(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Limits of a session, in the field `limits` of its metadata; None: none.

    They are looked at when a call arrives, so the last turn within `tokens` (sampled ones) may go beyond it.
    """

    turns: int | None = None
    tokens: int | None = None
    seconds: float | None = None
    """Since the session's start."""

    def problems(self) -> list[str]:
        return [
            f"{name}: expected a number above 0, got {value:g}"
            for name in self.__struct_fields__
            if (value := getattr(self, name)) is not None and not 0 < value < float("inf")
        ]

    @property
    def any(self) -> bool:
        return any(getattr(self, name) is not None for name in self.__struct_fields__)


class Budget(msgspec.Struct):
    """What a session has used of its limits."""

    limits: Limits = Limits()
    started_at: float = 0.0
    turns: int = 0
    tokens: int = 0

    def spend(self, tokens: int) -> None:
        self.turns += 1
        self.tokens += tokens

    def reached(self, now: float) -> str | None:
        """The limit that leaves no room for another turn, in words; None while there is room."""
        limits = self.limits
        if limits.turns is not None and self.turns >= limits.turns:
            return f"{limits.turns} turns"
        if limits.tokens is not None and self.tokens >= limits.tokens:
            return f"{limits.tokens} sampled tokens"
        if limits.seconds is not None and self.started_at and now - self.started_at >= limits.seconds:
            return f"{limits.seconds:g} seconds"
        return None


def of_metadata(metadata: dict[str, Any] | None) -> Limits:
    """The limits in a session's metadata. msgspec.ValidationError where they are none."""
    return msgspec.convert((metadata or {}).get("limits") or {}, Limits)


class LimitAnswer:
    """Stands for the engine's generation where a limit is reached. It has no ids: nothing was sampled."""

    body_sent = b""
    ids_refused = True
    limit = None
    upstream = ""
    upstream_ms = 0.0
    clamped = False
    logprobs_mode = None

    def __init__(self, reached: str, model: str | None) -> None:
        self.sampling: dict[str, Any] = {}
        text = f"This session has reached its limit of {reached}. The work ends here."
        said = Choice(index=0, message=Message(role="assistant", content=text), finish_reason="stop")
        self.completion = Completion(choices=[said], usage=Usage(), model=model or "")

    def check(self, choice: Choice) -> tuple[Reason | None, list[Warning]]:
        return Reason.LIMIT_REACHED, []


class LimitEngine:
    """Answers in the engine's place for a session that has reached a limit; counts and lists as the engine does."""

    def __init__(self, engine: Any, reached: str) -> None:
        self._engine = engine
        self._reached = reached

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    async def generate(self, chat: ChatRequest, **_: Any) -> Any:
        return LimitAnswer(self._reached, chat.model)
