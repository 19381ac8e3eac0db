"""One call, from request to answer: attribute → generate → compose → record → answer. Knows no dialect by name."""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any, Protocol

import uuid_utils

from polar_capture import call as calls
from polar_capture import chains
from polar_capture.attribution import Attribution
from polar_capture.breaker import OverflowBreaker
from polar_capture.call import Call, Circumstances, Generation, RecordedRow
from polar_capture.chat import ChatRequest
from polar_capture.continuation import plans
from polar_capture.continuation.planner import Planner, RenderingEngine
from polar_capture.dialects.base import Dialect, HttpAnswer, ModelCard, ParsedCall, Reply, Route, WireRequest
from polar_capture.engine.sampling import shaped
from polar_capture.faults import CallError, Fault, FaultKind
from polar_capture.lineage.minting import Minter
from polar_capture.lineage.prefix import Fingerprint
from polar_capture.origin import Origin
from polar_capture.outcomes import Reason
from polar_capture.placement import place
from polar_capture.policy import Policy
from polar_capture.retries import Attempt, Retries, key_of
from polar_capture.rules import Rules
from polar_capture.session_limits import LimitEngine
from polar_capture.sessions import Carrier, SessionState
from polar_capture.store.records import CallRecord, Recorder, StoreUnavailable
from polar_capture.told_usage import ToldUsage

log = logging.getLogger(__name__)


class EngineClient(RenderingEngine, Protocol):
    """The engine as the gateway uses it (`engine.client.Engine`)."""

    async def generate(
        self,
        chat: ChatRequest,
        *,
        prompt_ids: list[int] | None = None,
        session: str = "",
        deadline_grace: float | None = None,
    ) -> Generation: ...

    async def count(self, chat: ChatRequest) -> int: ...

    def models(self) -> list[ModelCard]: ...


class Gateway:
    """Answers calls and records them. One instance a process, in one event loop."""

    def __init__(
        self,
        engine: EngineClient,
        recorder: Recorder,
        chain_states: chains.Chains,
        policy: Policy,
        *,
        grace: float = 2.0,
        strict_sessions: bool = False,
        planner: Planner | None = None,
        websockets: bool = True,
        rules: Rules | None = None,
        other_engines: Mapping[tuple[str | None, str | None], EngineClient] | None = None,
        breaker: OverflowBreaker | None = None,
        assumed_window: int | None = None,
    ) -> None:
        self.engine = engine
        self.recorder = recorder
        self.chains = chain_states
        self.policy = policy
        self.grace = grace
        self.counts: Counter[str] = Counter()
        self.untrainable: Counter[str] = Counter()
        self.call_seconds = 0.0
        self.engine_seconds = 0.0
        self.draining = False
        self.websockets = websockets
        self.running = 0
        self._retries = Retries()
        self._attribution = Attribution(chain_states, recorder, strict=strict_sessions)
        self._rules = rules or Rules()
        self._other_engines = other_engines or {}
        self._breaker = breaker or OverflowBreaker()
        self._told = ToldUsage(assumed_window)
        self._planner = planner or Planner(engine, chain_states.context, mode="off")
        self.observers: list[Callable[[Call, list[CallRecord]], None]] = []
        """Told of each call's rows once they are durable, for people's eyes."""
        self._idle = asyncio.Event()
        self._idle.set()

    # --- the way of a generation -----------------------------------------------------------------------------------

    async def attempt(self, dialect: Dialect, route: Route, wire: WireRequest, origin: Origin) -> tuple[Attempt, bool]:
        """Understand a request, find its session and start its generation, or join the one that it repeats;
        and whether this client wants a stream.

        Raises CallError; nothing is recorded of what never became a call. Whoever gets the attempt must `leave` it.
        """
        started_at = time.time()
        if self.draining:
            raise CallError(Fault(FaultKind.OVERLOADED, "the proxy is shutting down: try again", retry_after="2"))
        parsed = await self.chains.run(dialect.resolve(dialect.parse(wire, route)))
        return await self.attempt_parsed(dialect, parsed, wire, origin, started_at), parsed.stream

    async def attempt_parsed(
        self, dialect: Dialect, parsed: ParsedCall, wire: WireRequest, origin: Origin, started_at: float
    ) -> Attempt:
        """The same for a request that is understood and resolved already (one frame of a WebSocket)."""
        named = await self._attribution.name(parsed, wire, origin)
        session = await self.chains.open(named.session_id)
        key = key_of(session.id, dialect.name, parsed)
        repeated = self._retries.find(key, parsed.hints.attempt)
        if repeated is not None:
            self.counts["retries_joined"] += 1
            repeated.clients += 1
            repeated.call.attempt = max(repeated.call.attempt + 1, parsed.hints.attempt or 0)
            return repeated
        call = self._begin(dialect, wire, origin, parsed, session, named.carrier, started_at)
        attempt = Attempt(key, call, asyncio.create_task(self.turn(call)))
        self._retries.start(attempt)
        return attempt

    def leave(self, attempt: Attempt, delivered: bool | None) -> None:
        """A client is served (True), has left without the whole answer (False), or nobody can tell (None).

        When the last one leaves a running generation, it is aborted; an answer that is being recorded is kept for the
        retry.
        """
        attempt.clients -= 1
        if attempt.clients == 0 and not attempt.work.done() and not attempt.call.rows:
            attempt.work.cancel()
        attempt.work.add_done_callback(lambda _: self._settle(attempt, delivered))

    def _settle(self, attempt: Attempt, delivered: bool | None) -> None:
        sound = attempt.sound  # also marks the task's exception as seen
        if attempt.clients:
            return
        self._retries.finish(attempt, delivered=delivered is not False)
        if attempt.call.submitted and delivered is not None and (sound or not delivered):
            self._delivered(attempt.call, delivered)

    async def turn(self, call: Call) -> Reply:
        """The answer of a call, durable before it is returned. Raises CallError once the fault is recorded; when
        cancelled (the client left), the engine's work is aborted and the row says so."""
        self._enter(call)
        try:
            call.chat, call.restored = chains.restore(call.session, call.parsed.chat)
            self._confirm_delivery(call)
            place(call, self._rules)
            if refusal := self._breaker.refusal(call.session.id):
                raise CallError(refusal)
            if not call.diverted:
                call.plan = await self._planner.plan(call.session.id, call.chat, call.restored)
            call.policy = await self.policy.admit()
            generation = await self._sample(call, call.chat)
            reply = self._compose(call, generation)
            if isinstance(reply, Fault):
                await self._record(call, generation, reply)
                raise CallError(reply)
            await self._record(call, generation, None)
            return reply
        except asyncio.CancelledError:
            self._record_aborted(call)
            raise
        except CallError as error:
            if error.fault.kind is FaultKind.CONTEXT_OVERFLOW:
                self._breaker.overflowed(call.session.id)
            await self._record_fault(call, error.fault)
            raise
        finally:
            self._leave(call)

    def _delivered(self, call: Call, whole: bool) -> None:
        """Record what became of an answer; a replayed one that arrives at last is trainable again."""
        self.counts["delivered" if whole else "undelivered"] += 1
        call.session.undelivered.difference_update(call.submitted if whole else ())
        for row in call.rows:
            changes: dict[str, Any] = {"delivered": whole, "attempt": call.attempt}
            if row.trainable:
                changes |= {"trainable": whole, "reason": None if whole else Reason.UNDELIVERED}
            self.recorder.amend(row.id, changes)

    # --- calls that leave no row -----------------------------------------------------------------------------------

    async def count(self, dialect: Dialect, route: Route, wire: WireRequest, origin: Origin) -> tuple[ParsedCall, int]:
        """The exact size of a prompt, by the engine's own tokenizer, with sampled turns put back as a call would."""
        parsed = await self.chains.run(dialect.resolve(dialect.parse(wire, route)))
        named = await self._attribution.name(parsed, wire, origin)
        state = self.chains.table.get(named.session_id) or SessionState(named.session_id)
        tokens = await self.engine.count(chains.restore(state, parsed.chat)[0])
        return parsed, self._told.tokens(tokens, self.engine.models())

    async def local(self, dialect: Dialect, route: Route, wire: WireRequest) -> HttpAnswer:
        """The answer that a dialect has of itself or of our store; what it deletes is gone before the client knows."""
        answer = await self.chains.run(dialect.local(wire, route))
        if answer.forget is not None:
            self.chains.forget(answer.forget)
            await _kept(self.recorder.forget(answer.forget))
        return answer

    async def prompt_tokens(self, call: Call) -> int | None:
        """The size of a running call's prompt, for usage that is told before the answer; None where it can't be had."""
        if call.plan is not None and call.plan.prompt_ids is not None:
            return self._told.tokens(len(call.plan.prompt_ids), self.engine.models())
        chat = call.chat or chains.restore(call.session, call.parsed.chat)[0]
        try:
            return self._told.tokens(await self.engine.count(chat), self.engine.models())
        except CallError as error:
            log.info("no early prompt size for %s: %s", call.id, error.fault.message)
            return None

    # --- life cycle ------------------------------------------------------------------------------------------------

    def end_session(self, session_id: str) -> None:
        """Mark a session ended: later calls are answered and marked late."""
        state = self.chains.table.get(session_id)
        if state is not None:
            state.ended = True

    async def drain(self, seconds: float) -> bool:
        """Refuse new calls and wait for the running ones; False when some had to be left."""
        self.draining = True
        try:
            await asyncio.wait_for(self._idle.wait(), seconds)
        except TimeoutError:
            log.warning("%d calls still run after %.0f s: they are cut off", self.running, seconds)
            return False
        return True

    # --- the steps, in order ---------------------------------------------------------------------------------------

    def _begin(
        self,
        dialect: Dialect,
        wire: WireRequest,
        origin: Origin,
        parsed: ParsedCall,
        session: SessionState,
        carrier: Carrier,
        started_at: float,
    ) -> Call:
        call_id = str(uuid_utils.uuid7())
        call = Call(
            id=call_id,
            origin=origin,
            wire=wire,
            dialect=dialect,
            parsed=parsed,
            minter=Minter(call_id),
            session=session,
            seq=session.take_seq(),
            started_at=started_at,
            attempt=parsed.hints.attempt or 0,
            kind=parsed.hints.kind or "turn",
            late=session.ended,
        )
        self._attribution.announce(call, carrier)
        return call

    def _engine_of(self, call: Call) -> EngineClient:
        reached = call.session.budget.reached(time.time())
        if reached is not None:
            call.kind = "side"
            self.counts["limited"] += 1
            return LimitEngine(self.engine, reached)
        if call.rule is None or not call.rule.diverts:
            return self.engine
        return self._other_engines[call.rule.upstream, call.rule.model]

    async def _sample(self, call: Call, chat: ChatRequest) -> Generation:
        async def generate(prompt_ids: list[int] | None) -> Generation:
            engine, session = self._engine_of(call), call.session.id
            return await engine.generate(chat, prompt_ids=prompt_ids, session=session, deadline_grace=self.grace)

        if call.plan is None:
            return await generate(None)
        call.plan, generation = await plans.sampled(call.plan, generate)
        return generation

    def _compose(self, call: Call, generation: Generation) -> Reply | Fault:
        self._breaker.answered(call.session.id)
        try:
            told = self._told.completion(generation.completion, self.engine.models())
            return call.dialect.reply(call.parsed, told, call.minter)
        except CallError as error:
            return error.fault

    async def _record(self, call: Call, generation: Generation, fault: Fault | None) -> None:
        completion = generation.completion
        prompt_ids = completion.prompt_token_ids
        prompt = None if prompt_ids is None else Fingerprint(prompt_ids)
        link = chains.link(call.session, prompt, call.parent)
        mode = generation.logprobs_mode
        continuation = self._planner.settle(call.plan, generation) if call.plan else None
        circumstances = Circumstances(mode, shaped(generation.sampling, mode), self.policy.current, continuation)
        rows = []
        for choice in completion.choices:
            rows.append(
                calls.answer_row(
                    call,
                    choice,
                    generation,
                    link,
                    circumstances,
                    generation.check(choice),
                    prompt_ids,
                    row_id=call.id if choice.index == 0 else str(uuid_utils.uuid7()),
                    finished_at=time.time(),
                    fault=fault,
                    http_status=200 if fault is None else call.dialect.error(fault, call.wire).status,
                )
            )
        call.rows = [RecordedRow(row.id, row.trainable) for row in rows]
        await _kept(self.recorder.call(rows))
        self._tell(call, rows)
        if fault is None:
            chains.remember(call.session, call.id, call.agent, prompt, completion.choices, call.minter.minted)
            call.session.family.answered(call.id, bool(completion.choices[0].message.tool_calls))
            if call.plan is not None and continuation is not None:
                self._planner.remember(call.id, call.plan, continuation, prompt_ids, generation)
                self.counts[f"continuation_{continuation.partition(':')[0]}"] += 1
            call.session.undelivered.add(call.id)
            if call.kind == "turn":
                call.session.budget.spend(completion.usage.completion_tokens)
        self.counts["calls_ok" if fault is None else "calls_error"] += 1
        self.counts["prompt_tokens"] += completion.usage.prompt_tokens
        self.counts["completion_tokens"] += completion.usage.completion_tokens

    async def _record_fault(self, call: Call, fault: Fault) -> None:
        if call.submitted:
            return
        self.counts["calls_error"] += 1
        row = calls.error_row(call, fault, call.dialect.error(fault, call.wire).status, time.time())
        try:
            await _kept(self.recorder.call([row]))
        except CallError:
            log.error(
                "the failed call %s of session %s could not be recorded: %s", call.id, call.session.id, fault.message
            )
        self._tell(call, [row])

    def _record_aborted(self, call: Call) -> None:
        if not call.submitted:
            self.counts["calls_aborted"] += 1
            row = calls.aborted_row(call, time.time())
            self.recorder.call([row])
            self._tell(call, [row])

    def _tell(self, call: Call, rows: list[CallRecord]) -> None:
        """Count why rows are not trainable, and what calls took; then the observers, whose faults stay theirs."""
        for row in rows:
            if not row.trainable:
                self.untrainable[row.reason or "unknown"] += 1
        self.call_seconds += time.time() - call.started_at
        self.engine_seconds += (rows[0].upstream_ms or 0.0) / 1000
        for observer in self.observers:
            try:
                observer(call, rows)
            except Exception:
                log.exception("an observer failed on call %s", call.id)

    def _confirm_delivery(self, call: Call) -> None:
        """A turn that the client echoes has reached it, whatever the transport had to say."""
        for call_id in call.restored.found if call.restored else ():
            if call_id in call.session.undelivered:
                call.session.undelivered.discard(call_id)
                self.recorder.amend(call_id, {"delivered": True})

    def _enter(self, call: Call) -> None:
        self.running += 1
        call.session.running += 1
        self._idle.clear()

    def _leave(self, call: Call) -> None:
        self.running -= 1
        call.session.running -= 1
        if self.running == 0:
            self._idle.set()


async def _kept(future: Future[None]) -> None:
    """Wait for a write without ever cancelling it. Raises CallError UNAVAILABLE where it can't be made durable."""
    try:
        await asyncio.shield(asyncio.wrap_future(future))
    except StoreUnavailable as error:
        log.error("%s", error)
        raise CallError(
            Fault(FaultKind.UNAVAILABLE, f"the call could not be recorded: {error}", retry_after="5")
        ) from error
