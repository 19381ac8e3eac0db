"""A task in every other dialect that a harness speaks."""

import pytest

from polar_capture.harnesses import presets
from tests.harness import cases, matrix
from tests.harness.checks import check

OTHER_WAYS = [
    (preset.name, dialect) for preset in presets.PRESETS for dialect in preset.ways if dialect != preset.dialect
]


@pytest.mark.slow
@pytest.mark.parametrize(("harness", "dialect"), OTHER_WAYS)
def test_its_other_dialects(harness: str, dialect: str) -> None:
    row = matrix.row(harness)
    first, *_ = cases.tasks(row, "--dialect", dialect, resume=False)
    check(row, first)
    assert {call["dialect"] for call in first.ran.turns} == {dialect}
