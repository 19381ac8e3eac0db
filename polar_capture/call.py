"""One model call on its way through the gateway, and the rows that it leaves."""

from collections.abc import Sized
from typing import Any, Protocol

import msgspec
import numpy as np

from polar_capture.chains import Link
from polar_capture.chat import ChatRequest, Choice, Completion, MediaPart
from polar_capture.continuation.plans import Plan
from polar_capture.continuation.reasons import Fork
from polar_capture.dialects.base import Dialect, ParsedCall, WireRequest
from polar_capture.faults import Fault
from polar_capture.lineage.minting import Minter
from polar_capture.lineage.turns import Restored
from polar_capture.origin import Origin
from polar_capture.outcomes import Reason, Warning
from polar_capture.policy import PolicyVersion
from polar_capture.rules import Rule
from polar_capture.sessions import SessionState
from polar_capture.store.codec import as_int32
from polar_capture.store.records import CallRecord


class Generation(Protocol):
    """What the engine client says of one generation (`engine.client.Generation`)."""

    completion: Completion
    body_sent: bytes
    upstream: str
    upstream_ms: float
    clamped: bool
    sampling: dict[str, Any]
    logprobs_mode: str | None
    limit: int | None
    ids_refused: bool

    def check(self, choice: Choice) -> tuple[Reason | None, list[Warning]]:
        """The engine's own check of a choice's ids and logprobs."""


class RecordedRow(msgspec.Struct, frozen=True):
    """A row of `calls` as it was recorded; `trainable` as of then, if the answer arrives."""

    id: str
    trainable: bool


class Call(msgspec.Struct):
    """One call. Fields after `attempt` become known on the way."""

    id: str
    origin: Origin
    wire: WireRequest
    dialect: Dialect
    parsed: ParsedCall
    minter: Minter
    session: SessionState
    seq: int
    started_at: float
    attempt: int = 0
    agent: str = "main"
    kind: str = "turn"
    user_turn: str | None = None
    parent: str | None = None
    """The call that its history continues, by our ids or by its words."""
    rule: Rule | None = None
    """What the rule file says of it."""
    late: bool = False
    warnings: list[str] = []
    chat: ChatRequest | None = None
    restored: Restored | None = None
    plan: Plan | None = None
    policy: PolicyVersion | None = None
    rows: list[RecordedRow] = []
    """The rows of its answer, once they are with the writer: before the client has anything of it."""

    @property
    def diverted(self) -> bool:
        """Whether the rule file has another model answer it."""
        return self.rule is not None and self.rule.diverts

    @property
    def submitted(self) -> list[str]:
        return [row.id for row in self.rows]


class Circumstances(msgspec.Struct, frozen=True):
    """What is true of the engine while a call runs."""

    logprobs_mode: str | None = None
    shaped: bool = False
    policy_after: PolicyVersion | None = None
    continuation: str | None = None


def error_row(call: Call, fault: Fault, http_status: int, finished_at: float) -> CallRecord:
    """The row of a call that got no answer from the engine."""
    return _row(
        call,
        status="error",
        trainable=False,
        reason=Reason.UPSTREAM_ERROR,
        error=fault.message,
        http_status=http_status,
        finished_at=finished_at,
        parent_call_id=call.restored.parent if call.restored else None,
    )


def aborted_row(call: Call, finished_at: float) -> CallRecord:
    """The row of a call whose client left before the engine had answered."""
    return _row(
        call,
        status="aborted",
        trainable=False,
        reason=Reason.ABORTED,
        error="the client left before the answer was ready",
        delivered=False,
        finished_at=finished_at,
        parent_call_id=call.restored.parent if call.restored else None,
    )


def answer_row(
    call: Call,
    choice: Choice,
    generation: Generation,
    link: Link,
    circumstances: Circumstances,
    integrity: tuple[Reason | None, list[Warning]],
    prompt_ids: np.ndarray | None,
    *,
    row_id: str,
    finished_at: float,
    fault: Fault | None,
    http_status: int,
) -> CallRecord:
    """The row of one choice. `integrity` is the engine's own check of ids and logprobs; `fault` is set where the answer
    could not be delivered in the client's dialect (an aborted generation)."""
    completion = generation.completion
    unsound, oddities = integrity
    completion_ids = int32(choice.token_ids)
    if prompt_ids is None or completion_ids is None:
        unsound = unsound or Reason.IDS_MISSING
    aborted = choice.finish_reason == "abort"
    failed = Reason.ABORTED if aborted else Reason.UPSTREAM_ERROR if fault else None
    reason = failed or unsound or _excluded(call, circumstances)
    warnings: list[str] = [*call.warnings, *oddities]
    if generation.clamped:
        warnings.append(Warning.MAX_TOKENS_CLAMPED)
    if circumstances.continuation == Fork.ECHO_DIFFERS.stored:
        warnings.append(Warning.PROMPT_IDS_IGNORED)
    if circumstances.shaped:
        warnings.append(Warning.SAMPLING_SHAPED)
    return _row(
        call,
        id=row_id,
        choice_index=choice.index,
        status="aborted" if aborted else "error" if fault else "ok",
        trainable=reason is None,
        reason=reason,
        warnings=list(dict.fromkeys(warnings)),
        error=fault.message if fault else None,
        http_status=http_status,
        finished_at=finished_at,
        parent_call_id=link.parent,
        prefix_len=link.prefix_len,
        model_served=completion.model or None,
        upstream=generation.upstream,
        upstream_ms=generation.upstream_ms,
        finish_reason=choice.finish_reason,
        stop_reason=None if choice.stop_reason is None else str(choice.stop_reason),
        prompt_tokens=_size(completion.prompt_token_ids, completion.usage.prompt_tokens),
        completion_tokens=_size(choice.token_ids, completion.usage.completion_tokens),
        sampling=generation.sampling,
        logprobs_mode=circumstances.logprobs_mode,
        weight_versions=choice.weight_versions,
        continuation=circumstances.continuation,
        chat_request=generation.body_sent,
        message=msgspec.json.encode(choice.message),
        prompt_ids=prompt_ids,
        completion_ids=completion_ids,
        logprobs=choice.logprobs,
        minted=call.minter.minted if row_id == call.id else [],
    )


def _excluded(call: Call, circumstances: Circumstances) -> Reason | None:
    """Why a sound answer is none to train on all the same."""
    if call.late:
        return Reason.LATE_CALL
    rule = call.rule
    if rule is not None and (rule.diverts or rule.trainable is False):
        return Reason.SIDE
    if call.kind in ("side", "nested") and not (rule is not None and rule.trainable):
        return Reason(call.kind)
    after = circumstances.policy_after
    if call.policy is not None and after is not None and after.version != call.policy.version:
        return Reason.MIXED_POLICY
    if call.chat is not None and any(
        isinstance(part, MediaPart)
        for message in call.chat.messages
        if isinstance(message.content, list)
        for part in message.content
    ):
        return Reason.MULTIMODAL_STATE_MISSING
    return None


def int32(ids: list[int] | None) -> np.ndarray | None:
    """Token ids as the store keeps them; None for what are no token ids, so that the call is kept without them."""
    try:
        return None if ids is None else as_int32(ids)
    except ValueError:
        return None


def _size(ids: Sized | None, reported: int) -> int:
    """The ids are the truth; the report is only for an engine that gave none."""
    return reported if ids is None else len(ids)


def _row(call: Call, **columns: Any) -> CallRecord:
    known: dict[str, Any] = {
        "id": call.id,
        "session_id": call.session.id,
        "seq": call.seq,
        "agent": call.agent,
        "kind": call.kind,
        "user_turn": call.user_turn or call.parsed.hints.user_turn,
        "attempt": call.attempt,
        "dialect": call.dialect.name,
        "host": call.wire.host,
        "path": call.wire.path,
        "model_requested": call.parsed.model_requested,
        "streamed": call.parsed.stream,
        "started_at": call.started_at,
        "warnings": call.warnings,
        "policy_version": call.policy.version if call.policy else None,
        "policy_label": call.policy.label if call.policy else None,
        "unmapped": call.parsed.unmapped,
        "dropped": call.parsed.dropped,
        "request": call.wire.body,
    }
    return CallRecord(**(known | columns))
