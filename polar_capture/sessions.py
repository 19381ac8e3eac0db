"""Whose call is this: the session of each call, by the order of DESIGN §5, and what is kept in memory of a running
session."""

import enum
import re
from collections import OrderedDict
from collections.abc import Iterator

import msgspec

from polar_capture.config import SESSION_ID
from polar_capture.lineage.agents import Family
from polar_capture.lineage.prefix import PrefixIndex
from polar_capture.lineage.turns import TurnBook
from polar_capture.session_limits import Budget

KEPT = 2048
"""Sessions whose chain state stays in memory; an evicted one is read back from the store when it calls again."""


class Carrier(enum.StrEnum):
    """What named the session of a call; the first that is there wins."""

    PROXY_USER = "proxy_user"
    HEADER = "header"
    GATEWAY_PATH = "gateway_path"
    GATEWAY_KEY = "gateway_key"
    MINTED_ID = "minted_id"
    HARNESS = "harness"
    CONNECTION = "connection"


class Named(msgspec.Struct, frozen=True):
    """A session id and what named it."""

    session_id: str
    carrier: Carrier


class Claims(msgspec.Struct, frozen=True):
    """Everything on a call that may name its session; None or "" where it is absent."""

    proxy_user: str | None = None
    header: str | None = None
    gateway_path: str | None = None
    gateway_key: str | None = None
    minted: str | None = None
    harness: str | None = None
    connection: str = ""


def name(claims: Claims) -> Named:
    """The session of a call. A carrier whose value is no session id is made into one where the harness chose it, and
    passed over where a user did (the proxy refuses a bad user name before a call is made)."""
    chosen = (
        (claims.proxy_user, Carrier.PROXY_USER),
        (claims.header, Carrier.HEADER),
        (claims.gateway_path, Carrier.GATEWAY_PATH),
        (claims.gateway_key, Carrier.GATEWAY_KEY),
        (claims.minted, Carrier.MINTED_ID),
    )
    for value, carrier in chosen:
        if value and SESSION_ID.fullmatch(value):
            return Named(value, carrier)
    if claims.harness:
        return Named(as_session_id(claims.harness), Carrier.HARNESS)
    return Named(as_session_id(f"unattributed-{claims.connection}"), Carrier.CONNECTION)


def as_session_id(text: str) -> str:
    """A harness's own id as a session id: characters outside `[A-Za-z0-9._-]` become `-`, at most 128 stay."""
    return re.sub(r"[^A-Za-z0-9._-]", "-", text)[:128]


class SessionState(msgspec.Struct):
    """What the capture path remembers of one session."""

    id: str
    next_seq: int = 0
    last_call_at: float = 0.0
    ended: bool = False
    known: bool = False
    """Whether its row is in the store."""
    harness: str | None = None
    index: PrefixIndex = msgspec.field(default_factory=PrefixIndex)
    turns: TurnBook = msgspec.field(default_factory=TurnBook)
    agents: dict[str, str] = {}
    """The agent of each call, by call id."""
    family: Family = msgspec.field(default_factory=Family)
    undelivered: set[str] = msgspec.field(default_factory=set)
    """Recorded calls of which nobody has confirmed that the client has them."""
    budget: Budget = msgspec.field(default_factory=Budget)
    running: int = 0
    """Calls under way: such a session is never evicted."""

    def take_seq(self) -> int:
        self.next_seq += 1
        return self.next_seq - 1


class SessionTable:
    """The sessions in memory, the least recently used first to go."""

    def __init__(self, kept: int = KEPT) -> None:
        self._kept = kept
        self._states: OrderedDict[str, SessionState] = OrderedDict()

    def __iter__(self) -> Iterator[SessionState]:
        return iter(list(self._states.values()))

    def get(self, session_id: str) -> SessionState | None:
        state = self._states.get(session_id)
        if state is not None:
            self._states.move_to_end(session_id)
        return state

    def forget(self, session_id: str) -> None:
        """Drop a state; the store has all of it."""
        self._states.pop(session_id, None)

    def add(self, state: SessionState) -> SessionState:
        """Keep a state; of two made at once for one session, the first stays."""
        state = self._states.setdefault(state.id, state)
        for session_id in list(self._states):
            if len(self._states) <= self._kept:
                break
            if self._states[session_id].running == 0 and session_id != state.id:
                del self._states[session_id]
        return state
