"""Read back what one session has left in the database, as the counts that `run` needs."""

import sqlalchemy as sa

from polar_capture.capture_summary import Facts, count
from polar_capture.store.database import Database, DatabaseError, explain, parse_url, prepare
from polar_capture.store.models import Call, Session


def read_facts(url: str, session: str) -> Facts | None:
    """The facts of a session; None when the database does not know it. Raises DatabaseError when it cannot be read."""
    database = Database(parse_url(url))
    columns = sa.select(
        Call.kind,
        Call.trainable,
        Call.reason,
        Call.warnings,
        Call.error,
        Call.prompt_tokens,
        Call.completion_tokens,
        sa.and_(Call.prompt_ids.is_not(None), Call.completion_ids.is_not(None)).label("has_ids"),
    )
    try:
        prepare(database, create=False)
        with database.read.connect() as connection:
            rows = connection.execute(columns.where(Call.session_id == session).order_by(Call.seq)).mappings().all()
            known = connection.execute(sa.select(Session.id).where(Session.id == session)).first()
    except sa.exc.SQLAlchemyError as error:
        raise DatabaseError(explain(database, error)) from error
    finally:
        database.dispose()
    return count(map(dict, rows)) if known else None


def shown(url: str) -> str:
    """A database's URL without its password, for people."""
    return parse_url(url).render_as_string(hide_password=True)
