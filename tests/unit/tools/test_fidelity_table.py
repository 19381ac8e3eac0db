"""The page of fields is current, whole and honest."""

import re

import pytest

from polar_capture.dialects import registry
from polar_capture.dialects.fidelity import Treatment
from tools.fidelity_table import TARGET, document, modules, tables


def test_the_page_is_what_the_tables_say() -> None:
    assert TARGET.read_text() == document(), "run .venv/bin/python tools/fidelity_table.py"


def test_every_dialect_and_every_treatment_is_there() -> None:
    page = document()
    assert re.findall(r"^## (\w+)$", page, re.MULTILINE) == [dialect.name for dialect in registry.DIALECTS]
    assert all(f"| {treatment} |" in page for treatment in Treatment)


@pytest.mark.parametrize(("dialect", "module"), list(modules()), ids=[name for name, _ in modules()])
def test_what_is_refused_or_emulated_says_how(dialect: str, module: object) -> None:
    silent = [
        f"{title}.{row.field}"
        for title, rows in tables(module).items()  # type: ignore[arg-type]
        for row in rows
        if row.treatment in (Treatment.REFUSED, Treatment.EMULATED) and not row.note
    ]
    assert silent == []
