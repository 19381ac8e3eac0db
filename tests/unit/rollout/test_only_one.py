"""Two rollouts of one name on one database: the second is refused, on both kinds of database."""

import pytest

from polar_capture import store
from polar_capture.exits import Failure
from polar_capture.rollout.only_one import only_one
from tests.postgres import PostgresServer


@pytest.fixture(scope="module")
def postgres():
    return PostgresServer()


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_the_second_is_refused_until_the_first_has_ended(kind, tmp_path, request):
    url = tmp_path / "polar.db" if kind == "sqlite" else request.getfixturevalue("postgres").url()
    with store.open(url) as one, store.open(url) as other:
        with only_one(one, "a", tmp_path):
            with (
                pytest.raises(Failure, match="rollout 'a' is running already") as failure,
                only_one(other, "a", tmp_path),
            ):
                pass
            assert failure.value.status == 2
            with only_one(other, "b", tmp_path):
                pass
        with only_one(other, "a", tmp_path):
            pass
