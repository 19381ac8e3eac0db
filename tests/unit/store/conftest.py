"""One suite over both databases: `url` is an empty SQLite file, then an empty PostgreSQL database."""

import pytest

from polar_capture import store
from tests.postgres import new_database


@pytest.fixture(params=["sqlite", "postgres"])
def url(request, tmp_path):
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'polar.db'}"
    return new_database()


@pytest.fixture
def captured(url, tmp_path):
    with store.open(url, spool=tmp_path / "spool") as opened:
        yield opened
