"""All bodies of one session, each unpacked once against the one before: one by one, a chain would cost its square."""

from collections.abc import Callable

import sqlalchemy as sa

from polar_capture.store import CodecError, Store
from polar_capture.store.chains import Bodies, BodyLink
from polar_capture.store.models import Call

_REMEMBERED = 256
"""Unpacked bodies in memory: a call's three, its parent's, and a keyframe each."""


def session_bodies(captured: Store, session_id: str) -> Callable[[str, str], bytes | None]:
    """`body(call id, column)` of a session's calls, to be asked in order. CodecError for a damaged one."""
    columns = [getattr(Call, name) for name in BodyLink._fields]
    with captured.database.read.connect() as connection:
        rows = connection.execute(sa.select(*columns).where(Call.session_id == session_id)).all()
    bodies = Bodies({row[0]: BodyLink(*row) for row in rows}.get, _REMEMBERED)

    def body(call_id: str, column: str) -> bytes | None:
        try:
            return bodies.body(call_id, column)
        except CodecError:
            return captured.body(call_id, column)  # packed against another session's call, which only the store finds

    return body
