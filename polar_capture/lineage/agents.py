"""Who in a session makes a call: main agent, sub-agent, helper, or another program; and in which user turn.

Pure. The harness's own hints go first, then the call that a history's ids or words name, and last how a conversation
opens. Of a known harness that tells nothing (Gemini CLI, Copilot, OpenHands), a new history that opens differently from
the main agent's is a sub-agent's; one that opens the same is the main agent's, after a compaction or a resume; and an
old history that opens anew is a helper's (Qwen Code's memory keeper).
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

from polar_capture.chat import ChatRequest, Message
from polar_capture.chat_normal import text_of

MAIN = "main"
ANONYMOUS = "sub:conversation"
"""The hint of a harness that says "a sub-agent" and not which (Copilot)."""

_VAGUE = ("qwen-code",)
"""Harnesses whose "main" only says that it is no sub-agent: their own helpers carry it as well."""

_NAME_THEIR_SESSION = ("claude-code", "codex", "opencode", "qwen-code")
"""Harnesses whose calls all carry one session id of their own, sub-agents' included."""


class Told(Protocol):
    """What a harness itself tells of a call (`dialects.base.Hints`)."""

    @property
    def session(self) -> str | None: ...
    @property
    def agent(self) -> str | None: ...
    @property
    def kind(self) -> str | None: ...
    @property
    def user_turn(self) -> str | None: ...
    @property
    def harness(self) -> str | None: ...


class Place(msgspec.Struct, frozen=True):
    """Where a call stands. `kind` is turn, side or nested; `user_turn` an id that changes with each user turn."""

    agent: str = MAIN
    kind: str = "turn"
    user_turn: str | None = None


_INSTRUCTED = {
    "opencode": {"title generator": Place("aux:title", "side"), "context summarization agent": Place()},
    "pi": {"context summarization assistant": Place()},
    "openhands": {"context-aware state summary": Place()},
    "aider": {"summarize this partial conversation": Place()},
}
"""Harness → words that open calls without tools → whose they are, which nothing else tells. A compaction call looks
like a helper's, but is a turn of the agent that goes on from its words."""


class Family(msgspec.Struct):
    """What is known of one session's agents. `harness` is who the session is said to belong to, None: nobody said."""

    places: dict[str, Place] = {}
    """By call id."""
    openings: dict[int, str] = {}
    """How a conversation opens, roughly and exactly → whose it is."""
    heard: str | None = None
    """The harness that the first call named."""
    own: dict[str, str] = {}
    """The session ids that harnesses have for themselves → main, or the nested agent."""
    waiting: dict[str, bool] = {}
    """Agent → whether its last answer asked for a tool whose result has not come."""
    begun: bool = False

    def place(
        self, call_id: str, hints: Told, chat: ChatRequest, parent: str | None, harness: str | None = None
    ) -> Place:
        """The place of a new call, remembered under its id. `parent` is the call that its history names; `harness` what
        the session's starter said of it."""
        known = self.places.get(parent) if parent else None
        opening = _opening(chat)
        nested = self._nested(hints, known)
        if nested is not None:
            place = Place(nested, "nested")
        else:
            place = self._of_session(call_id, hints, chat, known, opening, harness)
        place = msgspec.structs.replace(place, user_turn=_user_turn(call_id, hints, chat.messages, known))
        if place.kind == "turn":
            for mark in (opening, _exact_opening(chat)):
                self.openings.setdefault(mark, place.agent)
        if not self.begun:
            self.heard, self.begun = hints.harness, True
        if hints.session and place.kind != "nested":
            self.own.setdefault(hints.session, MAIN)
        self.places[call_id] = place
        self.waiting[place.agent] = False
        return place

    def answered(self, call_id: str, asks_for_tools: bool) -> None:
        """A call got its answer."""
        place = self.places.get(call_id)
        if place is not None and place.kind == "turn":
            self.waiting[place.agent] = asks_for_tools

    def restore(self, agents: Mapping[str, str]) -> None:
        """Take over the agents of recorded calls, by call id, of a session that is read back."""
        self.places |= {call_id: Place(agent) for call_id, agent in agents.items()}

    def _of_session(
        self, call_id: str, hints: Told, chat: ChatRequest, known: Place | None, opening: int, harness: str | None
    ) -> Place:
        kind = hints.kind or "turn"
        if hints.agent == ANONYMOUS:
            if known is not None and known.agent.startswith("sub:"):
                return Place(known.agent, kind)
            return Place(self._by_opening(_exact_opening(chat), "sub:") or _sub(call_id), kind)
        instructed = _instructed(hints, chat, harness)
        if instructed is not None:
            return instructed
        if hints.agent is not None and not (hints.agent == MAIN and hints.harness in _VAGUE):
            return Place(hints.agent, kind)
        found = self.openings.get(opening)
        if kind != "turn" or not self.openings or (harness or self.heard) is None:
            return Place(known.agent if known else MAIN, kind)
        if known is not None and known.kind == "side" and found is not None:
            return Place(found, kind)  # its history only holds words that a helper said as well
        if known is not None and (found is not None or known.agent not in self.openings.values()):
            return Place(known.agent, known.kind)
        same = self.openings.get(_exact_opening(chat))
        if same is not None:
            return Place(same, kind)
        if chat.tools and known is None and not _instructions(chat):
            return Place(MAIN, kind)  # a compaction that left not even the instructions (OpenHands)
        # A helper goes on with another's history under instructions of its own, or needs no tools.
        return Place("aux:helper", "side") if known is not None or not chat.tools else Place(_sub(call_id))

    def _by_opening(self, opening: int, prefix: str) -> str | None:
        agent = self.openings.get(opening)
        return agent if agent is not None and agent.startswith(prefix) else None

    def _nested(self, hints: Told, known: Place | None) -> str | None:
        """The name of another program that made this call from within the session; None for the session's own."""
        if known is not None:
            return known.agent if known.kind == "nested" else None
        if not self.begun or (hints.agent or "").startswith(("sub:", "aux:")):
            return None
        if self.heard is not None and hints.harness != self.heard:
            return f"sub:{hints.harness or 'program'}"
        if hints.harness not in _NAME_THEIR_SESSION or hints.session is None or hints.session in self.own:
            return self._nested_of(hints.session)
        if not any(self.waiting.values()):
            return None  # a second run in the same session, one after the other
        self.own[hints.session] = f"sub:{hints.harness}"
        return self.own[hints.session]

    def _nested_of(self, session: str | None) -> str | None:
        """The nested agent with this session id of its own."""
        agent = self.own.get(session or "", MAIN)
        return None if agent == MAIN else agent


def _instructed(hints: Told, chat: ChatRequest, harness: str | None) -> Place | None:
    """The place of a call without tools that its own first words tell."""
    if hints.agent is not None or chat.tools or not chat.messages:
        return None
    head = text_of(chat.messages[0].content)[:400]
    known = _INSTRUCTED.get(hints.harness or harness or "", {})
    return next((place for words, place in known.items() if words in head), None)


def _opening(chat: ChatRequest) -> int:
    """What tells one agent's conversations from another's: its instructions and its tools.

    Only the head of the instructions counts: harnesses put the date and the folder's state further down.
    """
    return hash((_instructions(chat)[:400], bool(chat.tools)))


def _exact_opening(chat: ChatRequest) -> int:
    """The same for a history that nothing links to an earlier one: a sub-agent may differ in its tools alone."""
    return hash((_instructions(chat), *(tool.name for tool in chat.tools)))


def _instructions(chat: ChatRequest) -> str:
    return next((text_of(message.content) for message in chat.messages if message.role == "system"), "")


def _user_turn(call_id: str, hints: Told, messages: Sequence[Message], known: Place | None) -> str:
    if hints.user_turn:
        return hints.user_turn
    for message in reversed(messages):
        if message.role == "assistant":
            break
        if message.role == "tool":
            return (known.user_turn if known else None) or call_id
    return call_id


def _sub(call_id: str) -> str:
    return f"sub:{call_id[-12:]}"
