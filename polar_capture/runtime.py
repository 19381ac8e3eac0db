"""The running proxy's parts, made from one ServeConfig: engine, store, gateway, its listeners and the control host."""

import asyncio
import logging
import time
from typing import Any

import msgspec
import uuid_utils
from sqlalchemy.exc import SQLAlchemyError

from polar_capture import session_limits
from polar_capture import store as stores
from polar_capture.breaker import OverflowBreaker
from polar_capture.chain_source import StoreChains
from polar_capture.chains import Chains
from polar_capture.config import ServeConfig
from polar_capture.continuation.planner import Planner
from polar_capture.control import Backend, ControlError, ControlHost, NewPolicy, NewReward, SessionChange, ended_at
from polar_capture.dialects import registry
from polar_capture.egress import Egress
from polar_capture.engine.client import Engine
from polar_capture.engine.probe import ModelNotServed, NoTokenIds
from polar_capture.gateway import Gateway
from polar_capture.harnesses.versions import catalog_file
from polar_capture.live import LiveSessions
from polar_capture.local_answers import LocalAnswers
from polar_capture.metrics import exposition
from polar_capture.outcomes import SessionStatus
from polar_capture.policy import Policy, PolicyError
from polar_capture.recredit import recredit
from polar_capture.rules import read as read_rules
from polar_capture.server import GatewayServer
from polar_capture.store.records import SessionRecord, StoreUnavailable

log = logging.getLogger(__name__)

DRAIN = 20.0
"""Seconds that running calls get at shutdown."""

FORGET = 120.0
"""Seconds after its last call until an ended session leaves the memory; a late call reads it back from the store."""


class Runtime(Backend):
    """Everything behind the proxy's hooks. `start` and `stop` belong to one event loop."""

    def __init__(self, config: ServeConfig) -> None:
        self.config = config
        self.egress = Egress((*registry.provider_hosts(), *config.provider_hosts), block=config.egress == "block")
        self.policy = Policy(config.policy_version, config.policy_label)
        self.store = stores.open(config.db, spool=config.spool_folder)
        self.writer = self.store.writer()
        self.engine = Engine(
            config.upstreams, model=config.model, sampling=config.sampling, header_grace=config.header_grace
        )
        rules = read_rules(config.rules)
        self.other_engines = {
            (url, model): Engine([url] if url else config.upstreams, model=model, header_grace=config.header_grace)
            for url, model in rules.engines()
        }
        self.chains = Chains(StoreChains(self.store))
        self.gateway = Gateway(
            self.engine,
            self.writer,
            self.chains,
            self.policy,
            grace=config.header_grace,
            strict_sessions=config.strict_sessions,
            websockets=config.websockets,
            rules=rules,
            other_engines=self.other_engines,
            breaker=OverflowBreaker(config.overflow_limit),
            assumed_window=config.assumed_window,
            planner=Planner(
                self.engine,
                self.chains.context,
                mode=config.continuation,
                keep_thinking=config.continuation_thinking == "keep",
            ),
        )
        self.live_sessions = LiveSessions()
        self.gateway.observers.append(self.live_sessions.recorded)
        self.control = ControlHost(
            self,
            token=config.control_token,
            ca=config.home / "ca" / "mitmproxy-ca-cert.pem",
            proxy_url=lambda: self.proxy_url,
        )
        self.server = GatewayServer(
            self.gateway,
            self.control,
            model=lambda: self.engine.model or "",
            key=config.key,
            local=LocalAnswers(catalog_file, config.codex_tools),
        )
        self.proxy_url = ""
        self.port = 0
        self.gateway_port: int | None = None
        self.control_port = 0
        self._sweeper: asyncio.Task[None] | None = None
        self._stopped = False

    # --- life cycle --------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Check the engine and open the listeners. Raises engine.probe.NoTokenIds (NoPromptIds), OSError for a taken
        port."""
        await self.engine.start()
        for engine in self.other_engines.values():
            try:
                await engine.start()
            except (NoTokenIds, ModelNotServed) as error:
                # Nothing that it says is trained on, and a name that it does not know is told with each call.
                log.warning("an engine of the rule file: %s", error)
        if self.config.continuation == "exact":
            self.engine.require_prompt_ids()
        self.port = await self.server.listen()
        self.control_port = await self.server.listen_control(self.config.control_port)
        if self.config.gateway_port is not None:
            self.gateway_port = await self.server.listen_plain(self.config.host, self.config.gateway_port)
        self._sweeper = asyncio.create_task(self._sweep())

    async def stop(self) -> None:
        """Drain, then close all: no acknowledged row is lost."""
        if self._stopped:
            return
        self._stopped = True
        await self.gateway.drain(DRAIN)
        if self._sweeper is not None:
            self._sweeper.cancel()
        await self.server.close()
        for engine in (self.engine, *self.other_engines.values()):
            await engine.close()
        self.chains.close()
        await asyncio.to_thread(self.writer.close, 30.0)

    async def _sweep(self) -> None:
        """End the sessions that have been idle for too long, and forget those that have ended."""
        while True:
            await asyncio.sleep(min(30.0, self.config.session_idle / 4))
            now = time.time()
            for state in self.chains.table:
                if state.running or not state.last_call_at:
                    continue
                if not state.ended and state.last_call_at < now - self.config.session_idle:
                    state.ended = True
                    self.writer.session(
                        SessionRecord(
                            state.id,
                            started_at=state.last_call_at,
                            status=SessionStatus.ABANDONED,
                            ended_at=state.last_call_at,
                        )
                    )
                elif state.ended and state.last_call_at < now - FORGET:
                    self.chains.table.forget(state.id)

    # --- the control host's backend ----------------------------------------------------------------------------------

    async def sessions(self) -> list[dict[str, Any]]:
        return await asyncio.to_thread(self.store.sessions)

    async def session(self, session_id: str) -> dict[str, Any]:
        row = await asyncio.to_thread(self.store.session, session_id)
        if row is None:
            raise ControlError(404, f"there is no session {session_id!r}")
        return row

    async def change_session(self, session_id: str, change: SessionChange, *, create: bool) -> dict[str, Any]:
        known = await asyncio.to_thread(self.store.session, session_id)
        if known is None and not create:
            raise ControlError(404, f"there is no session {session_id!r}: POST /sessions makes one")
        try:
            session_limits.of_metadata(change.metadata)
        except msgspec.ValidationError as error:
            raise ControlError(400, f"body: metadata.limits: {error}") from error
        record = SessionRecord(
            session_id,
            started_at=time.time(),
            task_id=change.task_id,
            group_id=change.group_id,
            sample_index=change.sample_index,
            status=change.status,
            ended_at=ended_at(change.status),
            extra=change.metadata,
            harness=change.harness,
            harness_version=change.harness_version,
        )
        await self._committed(self.writer.session(record))
        self.note_session(session_id, change)
        return await self.session(session_id)

    def note_session(self, session_id: str, change: SessionChange) -> None:
        state = self.chains.table.get(session_id)
        if state is None:
            return
        state.known = True
        if change.metadata and "limits" in change.metadata:
            state.budget.limits = session_limits.of_metadata(change.metadata)
        if change.status is not None:
            state.ended = change.status != SessionStatus.OPEN

    async def add_reward(self, session_id: str, reward: NewReward) -> str:
        await self.session(session_id)
        if reward.call_id is not None:
            calls = await asyncio.to_thread(self.store.calls, session_id)
            if reward.call_id not in {call["id"] for call in calls}:
                raise ControlError(404, f"session {session_id!r} has no call {reward.call_id!r}")
        reward_id = str(uuid_utils.uuid7())
        await self._committed(
            self.writer.reward(
                {
                    "id": reward_id,
                    "session_id": session_id,
                    "call_id": reward.call_id,
                    "name": reward.name,
                    "value": reward.value,
                    "source": reward.source or "control",
                    "comment": reward.comment,
                    "created_at": time.time(),
                }
            )
        )
        await self._recredited(session_id)
        return reward_id

    async def _recredited(self, session_id: str) -> None:
        """Samples that are built already get the late reward. It is on record, whatever becomes of this."""
        try:
            await asyncio.to_thread(recredit, self.store, session_id)
        except (SQLAlchemyError, stores.DatabaseError) as error:
            log.warning("samples of session %s keep their old reward until the next build: %s", session_id, error)

    def set_policy(self, policy: NewPolicy) -> dict[str, Any]:
        try:
            current = self.policy.advance(policy.version, policy.label)
        except PolicyError as error:
            raise ControlError(409, str(error)) from error
        return {"version": current.version, "label": current.label}

    def pause(self) -> dict[str, Any]:
        self.policy.pause()
        return {"paused": True, "running": self.gateway.running}

    def resume(self) -> dict[str, Any]:
        self.policy.resume()
        return {"paused": False}

    def metrics(self) -> str:
        return exposition(self.gateway, self.writer.stats(), self.policy)

    def live(self) -> list[dict[str, Any]]:
        return self.live_sessions.rows(self.chains.table)

    def health(self) -> dict[str, Any]:
        return {
            "engine": "up" if self.engine.model is not None else "down",
            "model": self.engine.model,
            "running": self.gateway.running,
            "paused": self.policy.paused,
            "draining": self.gateway.draining,
        }

    async def _committed(self, future: Any) -> None:
        try:
            await asyncio.shield(asyncio.wrap_future(future))
        except StoreUnavailable as error:
            raise ControlError(503, str(error)) from error
