"""A session's calls as the trajectory code takes them, read from the database without unpacking any prompt twice."""

from collections.abc import Iterator

import msgspec
import sqlalchemy as sa

from polar_capture.store import Store, codec
from polar_capture.store.models import Call
from polar_capture.trajectories.conversations import Conversation, conversation
from polar_capture.trajectories.rows import CallRow

_COLUMNS = (
    Call.id, Call.session_id, Call.seq, Call.choice_index, Call.agent, Call.kind, Call.attempt, Call.parent_call_id,
    Call.status, Call.trainable, Call.reason, Call.warnings, Call.delivered, Call.finish_reason, Call.completion_tokens,
    Call.policy_version, Call.weight_versions, Call.prompt_ids, Call.completion_ids, Call.logprobs,
)  # fmt: skip
_PACKED = ("prompt_ids", "completion_ids", "logprobs")


def call_rows(connection: sa.Connection, session_id: str) -> Iterator[CallRow]:
    """The session's calls by (seq, choice_index). A prompt that is stored as the tail of its parent's stays one.

    CodecError for a damaged array.
    """
    query = sa.select(*_COLUMNS).where(Call.session_id == session_id).order_by(Call.seq, Call.choice_index)
    for found in connection.execution_options(yield_per=64).execute(query).mappings():
        row = CallRow(**{name: value for name, value in found.items() if name not in _PACKED})
        if found["prompt_ids"] is not None:
            header, row.prompt_ids = codec.unpack_own_ids(found["prompt_ids"])
            if header.kind == codec.TAIL:
                row.base_call_id = row.parent_call_id
                row.base_len = header.size - len(row.prompt_ids)
        if found["completion_ids"] is not None:
            _, row.completion_ids = codec.unpack_own_ids(found["completion_ids"])
        if found["logprobs"] is not None:
            row.logprobs = codec.unpack_logprobs(found["logprobs"])
        yield row


def conversation_of(captured: Store, call_id: str) -> Conversation | None:
    """What a call said, from the body that was sent to the engine; None where it is not kept or is not JSON."""
    request = captured.body(call_id, "chat_request")
    return None if request is None else conversation(request, captured.body(call_id, "message"))


class SessionRow(msgspec.Struct, frozen=True):
    """What groups need of a session."""

    id: str
    group_id: str | None
    task_id: str | None
    sample_index: int | None
