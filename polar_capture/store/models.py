"""The schema of DESIGN §6 as SQLAlchemy models, one for SQLite and PostgreSQL. Wide columns come last.

Times are UTC epoch seconds as floats in the columns' names `*_at`. JSON columns hold what `json` can say; NUL
characters inside them are escaped by JSON itself (`\\u0000`). Packed columns (`bytes`) are described in
`db/README.md` and read by `store.codec`.
"""

from typing import Any, ClassVar

from sqlalchemy import JSON as AnyJSON
from sqlalchemy import BigInteger, Float, ForeignKey, Index, LargeBinary, MetaData, String, Text
from sqlalchemy.dialects import postgresql
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

Id = String(128)
JSON = AnyJSON(none_as_null=True)
IntArray = postgresql.ARRAY(postgresql.INTEGER).with_variant(AnyJSON(), "sqlite")
FloatArray = postgresql.ARRAY(postgresql.REAL).with_variant(AnyJSON(), "sqlite")


class Base(DeclarativeBase):
    metadata = MetaData(
        naming_convention={
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
            "pk": "pk_%(table_name)s",
        }
    )
    type_annotation_map: ClassVar = {
        str: Text,
        float: Float(53),
        int: BigInteger,
        bytes: LargeBinary,
        dict[str, Any]: JSON,
        list[Any]: JSON,
    }


class Session(Base):
    """One run of one harness."""

    __tablename__ = "sessions"

    id: Mapped[str] = mapped_column(Id, primary_key=True)
    task_id: Mapped[str | None]
    group_id: Mapped[str | None] = mapped_column(index=True)
    sample_index: Mapped[int | None]
    harness: Mapped[str | None]
    harness_version: Mapped[str | None]
    status: Mapped[str] = mapped_column(default="open")
    """A `SessionStatus`."""
    extra: Mapped[dict[str, Any]] = mapped_column("metadata", JSON, default=dict)
    started_at: Mapped[float]
    ended_at: Mapped[float | None]


class Call(Base):
    """One model call and one choice of its answer (n > 1 makes several rows of one seq)."""

    __tablename__ = "calls"
    __table_args__ = (
        Index(None, "session_id", "seq", "choice_index", unique=True),
        # All that session_summary reads: 300,000 calls are counted without touching their wide rows.
        Index(
            "ix_calls_summary",
            *("session_id", "kind", "status", "trainable", "delivered", "prompt_tokens", "completion_tokens"),
            *("upstream_ms", "started_at", "finished_at", "policy_version"),
        ),
    )

    id: Mapped[str] = mapped_column(Id, primary_key=True)
    """UUIDv7 as text."""
    session_id: Mapped[str] = mapped_column(ForeignKey("sessions.id"))
    seq: Mapped[int]
    """Order of arrival within the session, from 0."""
    agent: Mapped[str] = mapped_column(default="main")
    kind: Mapped[str] = mapped_column(default="turn")
    user_turn: Mapped[str | None]
    parent_call_id: Mapped[str | None] = mapped_column(Id, index=True)
    prefix_len: Mapped[int] = mapped_column(default=0)
    """How many leading tokens of this prompt are the parent's prompt + completion, exactly."""
    attempt: Mapped[int] = mapped_column(default=0)
    choice_index: Mapped[int] = mapped_column(default=0)
    dialect: Mapped[str]
    host: Mapped[str]
    path: Mapped[str]
    model_requested: Mapped[str | None]
    model_served: Mapped[str | None]
    upstream: Mapped[str | None]
    status: Mapped[str]
    """ok, error or aborted."""
    trainable: Mapped[bool]
    reason: Mapped[str | None]
    """A `Reason`, where not trainable."""
    warnings: Mapped[list[Any]] = mapped_column(JSON, default=list)
    http_status: Mapped[int | None]
    error: Mapped[str | None]
    streamed: Mapped[bool]
    delivered: Mapped[bool | None]
    """true: mitmproxy sent it all, or our id was echoed; false: the client left; null: unknown."""
    started_at: Mapped[float]
    finished_at: Mapped[float | None]
    upstream_ms: Mapped[float | None]
    finish_reason: Mapped[str | None]
    stop_reason: Mapped[str | None]
    """The matched stop string, or the stop token id in digits."""
    prompt_tokens: Mapped[int | None]
    completion_tokens: Mapped[int | None]
    sampling: Mapped[dict[str, Any]] = mapped_column(JSON, default=dict)
    """Every sampling parameter as it was sent to the engine."""
    logprobs_mode: Mapped[str | None]
    policy_version: Mapped[int | None]
    policy_label: Mapped[str | None]
    weight_versions: Mapped[list[Any] | None] = mapped_column(JSON)
    continuation: Mapped[str | None]
    """root, exact, fork:<reason> or off."""
    unmapped: Mapped[list[Any]] = mapped_column(JSON, default=list)
    dropped: Mapped[list[Any]] = mapped_column(JSON, default=list)
    request: Mapped[bytes | None]
    """Packed: the client's body as it came (decoded from its content-encoding)."""
    chat_request: Mapped[bytes | None]
    """Packed: the body that was sent to the engine."""
    message: Mapped[bytes | None]
    """Packed: the sampled message as JSON (content, reasoning, tool_calls)."""
    prompt_sha256: Mapped[bytes | None]
    """SHA-256 of the prompt ids as little-endian int32, to verify what is unpacked."""
    prompt_ids: Mapped[bytes | None]
    completion_ids: Mapped[bytes | None]
    logprobs: Mapped[bytes | None]


class MintedId(Base):
    """An id that we gave a client, and the call that it names."""

    __tablename__ = "minted_ids"
    __table_args__ = ({"sqlite_with_rowid": False},)

    id: Mapped[str] = mapped_column(Text, primary_key=True)
    call_id: Mapped[str] = mapped_column(ForeignKey("calls.id", ondelete="CASCADE"), index=True)


class Reward(Base):
    """One reward given; append-only. The latest `outcome` of a session counts."""

    __tablename__ = "rewards"
    __table_args__ = (Index(None, "session_id", "name", "created_at"),)

    id: Mapped[str] = mapped_column(Id, primary_key=True)
    session_id: Mapped[str] = mapped_column(ForeignKey("sessions.id"))
    call_id: Mapped[str | None] = mapped_column(ForeignKey("calls.id"), index=True)
    name: Mapped[str] = mapped_column(default="outcome")
    value: Mapped[float]
    source: Mapped[str | None]
    comment: Mapped[str | None]
    created_at: Mapped[float]


class Sample(Base):
    """One training sample: a path of the token tree with its mask, logprobs, reward and advantage."""

    __tablename__ = "samples"

    id: Mapped[str] = mapped_column(Id, primary_key=True)
    strategy: Mapped[str] = mapped_column(index=True)
    session_id: Mapped[str] = mapped_column(ForeignKey("sessions.id"), index=True)
    group_id: Mapped[str | None] = mapped_column(index=True)
    task_id: Mapped[str | None]
    agent: Mapped[str]
    branch: Mapped[int]
    verdict: Mapped[str]
    delivered_fraction: Mapped[float]
    prompt_len: Mapped[int]
    length: Mapped[int]
    reward: Mapped[float | None]
    advantage: Mapped[float | None]
    policy_version_min: Mapped[int | None]
    policy_version_max: Mapped[int | None]
    finish_reason: Mapped[str | None]
    turn_spans: Mapped[list[Any]] = mapped_column(JSON, default=list)
    """[{start, end, call_id, policy_version}] of each sampled span."""
    breaks: Mapped[list[Any]] = mapped_column(JSON, default=list)
    """[{call_id, break, at, tokens}]."""
    input_ids: Mapped[list[int]] = mapped_column(IntArray)
    loss_mask: Mapped[list[int]] = mapped_column(IntArray)
    logprobs: Mapped[list[float | None]] = mapped_column(FloatArray)
