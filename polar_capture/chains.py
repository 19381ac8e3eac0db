"""The chain state of a session: what was sampled in it before, and what a new call continues."""

import asyncio
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol, TypeVar

import msgspec
import numpy as np

from polar_capture import session_limits
from polar_capture.chat import ChatRequest, Choice, Message
from polar_capture.chat_normal import normalise
from polar_capture.continuation.contexts import Context
from polar_capture.dialects.base import Lookup, StoredTurn
from polar_capture.faults import CallError, Fault, FaultKind
from polar_capture.lineage.prefix import Fingerprint
from polar_capture.lineage.turns import Restored
from polar_capture.outcomes import SessionStatus
from polar_capture.session_limits import Budget
from polar_capture.sessions import SessionState, SessionTable
from polar_capture.store.codec import as_int32
from polar_capture.store.records import StoreUnavailable

T = TypeVar("T")
A = TypeVar("A")
R = TypeVar("R")


class ChainTurn(msgspec.Struct, frozen=True):
    """One recorded turn: its sampled message as JSON, the ids that its answer carried, its tokens (1-D
    int32, empty where the engine gave none)."""

    call_id: str
    agent: str
    message: bytes | None
    minted: list[str]
    prompt_ids: np.ndarray
    completion_ids: np.ndarray


class ChainSource(Protocol):
    """The part of the store from which a session's chain state is read back. Its methods raise StoreUnavailable."""

    def session(self, session_id: str) -> dict[str, Any] | None: ...

    def last_seq(self, session_id: str) -> int: ...

    def turns(self, session_id: str) -> Iterable[ChainTurn]: ...

    def session_of(self, ids: list[str]) -> str | None: ...

    def stored(self, minted_id: str) -> StoredTurn | None: ...

    def context(self, call_id: str) -> Context | None: ...


class Link(msgspec.Struct, frozen=True):
    """Where a call hangs in its session's tree. `prefix_len` is exact when `exact`, else a proved lower bound."""

    parent: str | None = None
    prefix_len: int = 0
    exact: bool = False


class Chains:
    """The sessions in memory, read back from the store when they are not. Database reads run in one own thread."""

    def __init__(self, source: ChainSource) -> None:
        self.table = SessionTable()
        self._source = source
        self._reader = ThreadPoolExecutor(1, thread_name_prefix="polar-chains")
        self._loading: dict[str, asyncio.Future[SessionState]] = {}
        self._forgotten: set[str] = set()

    async def open(self, session_id: str) -> SessionState:
        """The state of a session, known or new. Raises CallError where it is not in memory and the store is away: its
        numbering must not begin again."""
        state = self.table.get(session_id)
        if state is not None:
            return state
        loading = self._loading.get(session_id)
        if loading is None:
            loop = asyncio.get_running_loop()
            loading = asyncio.ensure_future(loop.run_in_executor(self._reader, load, self._source, session_id))
            self._loading[session_id] = loading
            loading.add_done_callback(lambda _: self._loading.pop(session_id, None))
        try:
            return self.table.add(await asyncio.shield(loading))
        except StoreUnavailable as error:
            message = f"the session {session_id} cannot be looked up now: {error}"
            raise CallError(Fault(FaultKind.UNAVAILABLE, message, retry_after="5")) from error

    async def session_of_ids(self, ids: list[str]) -> str | None:
        """The session in which one of these ids of ours was minted, the last id first."""
        for state in self.table:
            for identifier in reversed(ids):
                if state.turns.call_of(identifier):
                    return state.id
        return await self._ask(self._source.session_of, ids)

    async def context(self, call_id: str) -> Context | None:
        """What a recorded call ended with, for the call that continues it; None where the store does not know it, or
        is away."""
        try:
            return await self._ask(self._source.context, call_id)
        except CallError:
            return None

    async def run(self, steps: Lookup[T]) -> T:
        """Carry out a dialect's lookups in the store. Raises what the dialect raises (CallError)."""
        found: StoredTurn | None = None
        while True:
            try:
                wanted = steps.send(found)
            except StopIteration as done:
                return done.value
            known = wanted not in self._forgotten
            found = await self._ask(self._source.stored, wanted) if known else None

    async def _ask(self, read: Callable[[A], R], wanted: A) -> R:
        """One read in the reader's thread. Raises CallError where the database does not answer."""
        try:
            return await asyncio.get_running_loop().run_in_executor(self._reader, read, wanted)
        except StoreUnavailable as error:
            raise CallError(Fault(FaultKind.UNAVAILABLE, f"the store is away: {error}", retry_after="5")) from error

    def forget(self, minted_id: str) -> None:
        """Answer no lookup of this id any more, also while the deletion waits in the spool."""
        self._forgotten.add(minted_id)

    def close(self) -> None:
        self._reader.shutdown(wait=False, cancel_futures=True)


def load(source: ChainSource, session_id: str) -> SessionState:
    """Read a session's chain state from the store; an empty one for a session that is not there."""
    row = source.session(session_id)
    state = SessionState(session_id, known=row is not None)
    if row is None:
        return state
    state.ended = row["status"] != SessionStatus.OPEN
    state.harness = row["harness"]
    state.next_seq = source.last_seq(session_id) + 1
    state.budget = Budget(session_limits.of_metadata(row["metadata"]), row["started_at"])
    for turn in source.turns(session_id):
        state.budget.spend(len(turn.completion_ids))
        state.agents[turn.call_id] = turn.agent
        state.family.restore({turn.call_id: turn.agent})
        if len(turn.prompt_ids) and len(turn.completion_ids):
            state.index.add(turn.call_id, Fingerprint(turn.prompt_ids).extended(turn.completion_ids))
        if turn.message is not None:
            state.turns.add(turn.call_id, [msgspec.json.decode(turn.message, type=Message)], turn.minted)
    return state


def restore(state: SessionState, chat: ChatRequest) -> tuple[ChatRequest, Restored]:
    """The call's conversation as the engine shall see it: sampled turns as they were sampled, in the canonical form."""
    restored = state.turns.restore(chat.messages)
    return msgspec.structs.replace(chat, messages=normalise(restored.messages)), restored


def link(state: SessionState, prompt: Fingerprint | None, named_parent: str | None) -> Link:
    """The parent of a call: the turn that its history names, unless only another call is continued exactly; else the
    one that the tokens name."""
    if prompt is None:
        return Link(named_parent)
    along = state.index.common(named_parent, prompt) if named_parent is not None else None
    if along is not None and along.exact:
        return Link(along.call_id, along.length, exact=True)
    found = state.index.find(prompt)
    if found is not None and found.exact:
        return Link(found.call_id, found.length, exact=True)
    if named_parent is not None:
        return Link(named_parent, along.length if along else 0)
    return Link(found.call_id, found.length) if found else Link()


def remember(
    state: SessionState, call_id: str, agent: str, prompt: Fingerprint | None, choices: list[Choice], minted: list[str]
) -> None:
    """Add a recorded call to the chain state, so that the next one finds it."""
    state.agents[call_id] = agent
    state.turns.add(call_id, [choice.message for choice in choices], minted)
    first = choices[0]
    if prompt is not None and first.token_ids is not None:
        state.index.add(call_id, prompt.extended(as_int32(first.token_ids)))
