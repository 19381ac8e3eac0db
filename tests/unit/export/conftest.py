import pytest

from tests.unit.export.databases import Captured


@pytest.fixture
def db(tmp_path):
    captured = Captured(tmp_path / "polar.db")
    yield captured
    captured.store.close()
