"""Only one rollout of a name at a time works on a database."""

import contextlib
import fcntl
import hashlib
from collections.abc import Iterator
from pathlib import Path

import sqlalchemy as sa

from polar_capture.exits import Exit, Failure
from polar_capture.store import Store


@contextlib.contextmanager
def only_one(captured: Store, rollout: str, folder: Path) -> Iterator[None]:
    """Hold the rollout's name; it is given back when the process ends, whatever ends it. Failure (status 2) where
    another process has it: on any machine with PostgreSQL, on this one with SQLite."""
    busy = Failure(
        f"rollout {rollout!r} is running already on {captured.database.name}: wait for it, or give --name another name",
        Exit.USAGE,
    )
    if captured.database.read.dialect.name == "postgresql":
        key = int.from_bytes(hashlib.sha256(f"polar rollout {rollout}".encode()).digest()[:8], signed=True)
        with captured.database.read.connect() as connection:
            if not connection.execute(sa.text("SELECT pg_try_advisory_lock(:key)"), {"key": key}).scalar():
                raise busy
            connection.commit()
            try:
                yield
            finally:
                connection.execute(sa.text("SELECT pg_advisory_unlock(:key)"), {"key": key})
        return
    name = hashlib.sha256(f"{captured.database.name} {rollout}".encode()).hexdigest()[:16]
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (folder / f"{rollout}-{name}.lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise busy from None
        yield
