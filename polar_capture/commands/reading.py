"""What the commands that read have in common: open the database, find a session, turn rows into plain values."""

import json
from typing import Any

from polar_capture import store
from polar_capture.exits import Exit, Failure
from polar_capture.home import Home
from polar_capture.store import Store


def open_store(url: str, home: Home) -> Store:
    """The database, which must be there, with what waits for it in the home folder's spool. Raises DatabaseError."""
    return store.open(url, create=False, spool=home.spool)


def known_session(captured: Store, session: str) -> dict[str, Any]:
    """The row of a session; Failure (status 2) for one that is not in the database."""
    row = captured.session(session)
    if row is None:
        raise unknown("session", session, captured)
    return {"metadata" if name == "extra" else name: value for name, value in row.items()}


def unknown(kind: str, name: str, captured: Store) -> Failure:
    return Failure(
        f"there is no {kind} {name!r} in {captured.database.name}: `polar-capture sessions` lists what is there, "
        "--db names another database",
        Exit.USAGE,
    )


def decoded(body: bytes | None) -> Any:
    """A stored body as the JSON value that it holds; as text where it holds none."""
    if body is None:
        return None
    text = body.decode("utf-8", "replace")
    try:
        return json.loads(text)
    except ValueError:
        return text


def missing_arrays(captured: Store, session: str) -> dict[str, dict[str, bool]]:
    """For each call of a session, which of its token arrays the engine did not give."""
    # A session id holds only letters, digits, dot, dash and underscore: it cannot end the literal.
    columns = ("prompt_ids", "completion_ids", "logprobs")
    flags = ", ".join(f"{column} IS NULL" for column in columns)
    _, rows = captured.sql(f"SELECT id, {flags} FROM calls WHERE session_id = '{session}'")
    return {row[0]: dict(zip(columns, map(bool, row[1:]), strict=True)) for row in rows}
