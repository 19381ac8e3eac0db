"""What the capture path hands to the store, unpacked, and the store's interface as the capture path sees it."""

import concurrent.futures
from collections.abc import Iterable
from typing import Any, Protocol

import msgspec
import numpy as np


class SessionRecord(msgspec.Struct):
    """A new session, or what has become known of one: None changes nothing. `extra` is merged into `metadata`."""

    id: str
    started_at: float
    task_id: str | None = None
    group_id: str | None = None
    sample_index: int | None = None
    harness: str | None = None
    harness_version: str | None = None
    status: str | None = None
    ended_at: float | None = None
    extra: dict[str, Any] | None = None


class CallRecord(msgspec.Struct, kw_only=True):
    """One row of `calls` before packing. Token ids are ints below 2**31, logprobs floats; None where the engine gave
    none.

    `prefix_len` is a proved lower bound: the writer raises it to the true common prefix with the parent.
    """

    id: str
    session_id: str
    seq: int
    dialect: str
    host: str
    path: str
    status: str
    trainable: bool
    streamed: bool
    started_at: float
    agent: str = "main"
    kind: str = "turn"
    user_turn: str | None = None
    parent_call_id: str | None = None
    prefix_len: int = 0
    attempt: int = 0
    choice_index: int = 0
    model_requested: str | None = None
    model_served: str | None = None
    upstream: str | None = None
    reason: str | None = None
    warnings: list[str] = []
    http_status: int | None = None
    error: str | None = None
    delivered: bool | None = None
    finished_at: float | None = None
    upstream_ms: float | None = None
    finish_reason: str | None = None
    stop_reason: str | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    sampling: dict[str, Any] = {}
    logprobs_mode: str | None = None
    policy_version: int | None = None
    policy_label: str | None = None
    weight_versions: list[dict[str, Any]] | None = None
    continuation: str | None = None
    unmapped: list[str] = []
    dropped: list[dict[str, Any]] = []
    request: bytes | None = None
    chat_request: bytes | None = None
    message: bytes | None = None
    prompt_ids: list[int] | np.ndarray | None = None
    completion_ids: list[int] | np.ndarray | None = None
    logprobs: list[float] | None = None
    minted: list[str] = []


class StoreUnavailable(Exception):
    """Neither the database nor the spool could take a row; the message names what failed and the remedy."""


class Recorder(Protocol):
    """The store as the capture path uses it. Every future resolves when the write is durable (committed, or fsynced
    in the spool), in the order of submission, and raises StoreUnavailable where it never will be. Futures are of
    `concurrent.futures`, to be awaited with `asyncio.wrap_future`."""

    def session(self, record: SessionRecord) -> concurrent.futures.Future[None]: ...

    def call(self, records: Iterable[CallRecord]) -> concurrent.futures.Future[None]:
        """All rows of one answer (one a choice), in one transaction with their minted ids."""

    def amend(self, call_id: str, changes: dict[str, Any]) -> concurrent.futures.Future[None]:
        """Change narrow columns of a recorded call: delivered, trainable, reason, warnings, user_turn."""

    def reward(self, row: dict[str, Any]) -> concurrent.futures.Future[None]: ...

    def forget(self, minted: str) -> concurrent.futures.Future[None]:
        """Let an id of ours name no call any more; the call itself stays."""
