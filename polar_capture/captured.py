"""Read back what one session has left in the database, as the counts that `run` needs."""

from pathlib import Path

import sqlalchemy as sa

from polar_capture import store
from polar_capture.capture_summary import Facts, count
from polar_capture.store.database import explain, parse_url
from polar_capture.store.models import Call

COLUMNS = (
    Call.kind,
    Call.trainable,
    Call.reason,
    Call.warnings,
    Call.error,
    Call.prompt_tokens,
    Call.completion_tokens,
    sa.and_(Call.prompt_ids.is_not(None), Call.completion_ids.is_not(None)).label("has_ids"),
)


def read_facts(url: str, session: str, spool: Path) -> Facts | None:
    """The facts of a session; None when the database does not know it. What waits in `spool` is brought in first.

    Raises DatabaseError when the database cannot be read.
    """
    with store.open(url, create=False, spool=spool) as captured:
        try:
            if captured.session(session) is None:
                return None
            with captured.database.read.connect() as connection:
                query = sa.select(*COLUMNS).where(Call.session_id == session).order_by(Call.seq)
                return count(map(dict, connection.execute(query).mappings()))
        except sa.exc.SQLAlchemyError as error:
            raise store.DatabaseError(explain(captured.database, error)) from error


def shown(url: str) -> str:
    """A database's URL without its password, for people."""
    return parse_url(url).render_as_string(hide_password=True)
