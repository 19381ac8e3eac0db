"""Sessions, calls, minted ids, rewards and samples: the full schema.

Revision 0001, the first one.
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

ID = sa.String(128)
JSON = sa.JSON(none_as_null=True)
INT_ARRAY = postgresql.ARRAY(sa.INTEGER()).with_variant(sa.JSON(), "sqlite")
FLOAT_ARRAY = postgresql.ARRAY(sa.REAL()).with_variant(sa.JSON(), "sqlite")


def _column(name: str, type_: object, *, null: bool = True) -> sa.Column:
    return sa.Column(name, type_, nullable=null)


def _texts(*names: str, null: bool = True) -> list[sa.Column]:
    return [_column(name, sa.Text(), null=null) for name in names]


def _integers(*names: str, null: bool = True) -> list[sa.Column]:
    return [_column(name, sa.BigInteger(), null=null) for name in names]


def _floats(*names: str, null: bool = True) -> list[sa.Column]:
    return [_column(name, sa.Float(53), null=null) for name in names]


def upgrade() -> None:
    """Creates the tables and their indexes."""
    _create_sessions()
    _create_calls()
    _create_minted_ids()
    _create_rewards()
    _create_samples()


def downgrade() -> None:
    """Drops everything: there is no older schema."""
    for table in ("samples", "rewards", "minted_ids", "calls", "sessions"):
        op.drop_table(table)


def _create_sessions() -> None:
    op.create_table(
        "sessions",
        _column("id", ID, null=False),
        *_texts("task_id", "group_id"),
        *_integers("sample_index"),
        *_texts("harness", "harness_version"),
        *_texts("status", null=False),
        _column("metadata", JSON, null=False),
        *_floats("started_at", null=False),
        *_floats("ended_at"),
        sa.PrimaryKeyConstraint("id", name="pk_sessions"),
    )
    op.create_index("ix_sessions_group_id", "sessions", ["group_id"])


def _create_calls() -> None:
    op.create_table(
        "calls",
        _column("id", ID, null=False),
        _column("session_id", ID, null=False),
        *_integers("seq", null=False),
        *_texts("agent", "kind", null=False),
        *_texts("user_turn"),
        _column("parent_call_id", ID),
        *_integers("prefix_len", "attempt", "choice_index", null=False),
        *_texts("dialect", "host", "path", null=False),
        *_texts("model_requested", "model_served", "upstream"),
        *_texts("status", null=False),
        _column("trainable", sa.Boolean(), null=False),
        *_texts("reason"),
        _column("warnings", JSON, null=False),
        *_integers("http_status"),
        *_texts("error"),
        _column("streamed", sa.Boolean(), null=False),
        _column("delivered", sa.Boolean()),
        *_floats("started_at", null=False),
        *_floats("finished_at", "upstream_ms"),
        *_texts("finish_reason", "stop_reason"),
        *_integers("prompt_tokens", "completion_tokens"),
        _column("sampling", JSON, null=False),
        *_texts("logprobs_mode"),
        *_integers("policy_version"),
        *_texts("policy_label"),
        _column("weight_versions", JSON),
        *_texts("continuation"),
        _column("unmapped", JSON, null=False),
        _column("dropped", JSON, null=False),
        *[
            _column(name, sa.LargeBinary())
            for name in (
                *("request", "chat_request", "message"),
                *("prompt_sha256", "prompt_ids", "completion_ids", "logprobs"),
            )
        ],
        sa.ForeignKeyConstraint(["session_id"], ["sessions.id"], name="fk_calls_session_id_sessions"),
        sa.PrimaryKeyConstraint("id", name="pk_calls"),
    )
    op.create_index("ix_calls_parent_call_id", "calls", ["parent_call_id"])
    op.create_index("ix_calls_session_id_seq_choice_index", "calls", ["session_id", "seq", "choice_index"], unique=True)
    counted = ["session_id", "kind", "status", "trainable", "delivered", "prompt_tokens", "completion_tokens"]
    counted += ["upstream_ms", "started_at", "finished_at", "policy_version"]
    op.create_index("ix_calls_summary", "calls", counted)


def _create_minted_ids() -> None:
    op.create_table(
        "minted_ids",
        *_texts("id", null=False),
        _column("call_id", ID, null=False),
        sa.ForeignKeyConstraint(["call_id"], ["calls.id"], name="fk_minted_ids_call_id_calls", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name="pk_minted_ids"),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_minted_ids_call_id", "minted_ids", ["call_id"])


def _create_rewards() -> None:
    op.create_table(
        "rewards",
        _column("id", ID, null=False),
        _column("session_id", ID, null=False),
        _column("call_id", ID),
        *_texts("name", null=False),
        *_floats("value", null=False),
        *_texts("source", "comment"),
        *_floats("created_at", null=False),
        sa.ForeignKeyConstraint(["session_id"], ["sessions.id"], name="fk_rewards_session_id_sessions"),
        sa.ForeignKeyConstraint(["call_id"], ["calls.id"], name="fk_rewards_call_id_calls"),
        sa.PrimaryKeyConstraint("id", name="pk_rewards"),
    )
    op.create_index("ix_rewards_call_id", "rewards", ["call_id"])
    op.create_index("ix_rewards_session_id_name_created_at", "rewards", ["session_id", "name", "created_at"])


def _create_samples() -> None:
    op.create_table(
        "samples",
        _column("id", ID, null=False),
        *_texts("strategy", null=False),
        _column("session_id", ID, null=False),
        *_texts("group_id", "task_id"),
        *_texts("agent", null=False),
        *_integers("branch", null=False),
        *_texts("verdict", null=False),
        *_floats("delivered_fraction", null=False),
        *_integers("prompt_len", "length", null=False),
        *_floats("reward", "advantage"),
        *_integers("policy_version_min", "policy_version_max"),
        *_texts("finish_reason"),
        _column("turn_spans", JSON, null=False),
        _column("breaks", JSON, null=False),
        _column("input_ids", INT_ARRAY, null=False),
        _column("loss_mask", INT_ARRAY, null=False),
        _column("logprobs", FLOAT_ARRAY, null=False),
        sa.ForeignKeyConstraint(["session_id"], ["sessions.id"], name="fk_samples_session_id_sessions"),
        sa.PrimaryKeyConstraint("id", name="pk_samples"),
    )
    for name in ("strategy", "session_id", "group_id"):
        op.create_index(f"ix_samples_{name}", "samples", [name])
