#!/usr/bin/env python3
"""Write docs/fidelity.md: every field of every dialect and what becomes of it, out of the dialects' own tables.

.venv/bin/python tools/fidelity_table.py
"""

from __future__ import annotations

import ast
import importlib
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
from polar_capture.dialects import registry  # noqa: E402
from polar_capture.dialects.fidelity import Treatment  # noqa: E402

TARGET = ROOT / "docs" / "fidelity.md"
PREFACE = """# What becomes of each request field

Written by `tools/fidelity_table.py` from the tables by which the dialects themselves read requests
(`polar_capture/dialects/*/fields.py`); a test keeps it current.

| treatment | meaning |
| --- | --- |
| mapped | carried over to the engine |
| kept | shapes the answer or the record; the engine need not know |
| emulated | the same effect by other means |
| refused | a clear error, since an answer without it would be wrong |
| ignored | has no bearing on what is generated |
| unmapped | not carried over: listed by JSON path in `calls.unmapped`, with the warning `unmapped_fields` |

**A field that is in no table is unmapped**: a client's new beta fields never fail a request and never vanish silently.
`polar-capture sessions` counts the calls with unmapped fields.
"""


@dataclass(frozen=True)
class Row:
    field: str
    treatment: Treatment
    note: str


Tables = dict[str, list[Row]]
"""Title → rows."""


def modules() -> Iterator[tuple[str, ModuleType]]:
    """(dialect, its module of fields)."""
    for dialect in registry.DIALECTS:
        package = type(dialect).__module__.rpartition(".")[0]
        yield dialect.name, importlib.import_module(f"{package}.fields")


def tables(module: ModuleType) -> Tables:
    """All tables of one module, in its order; what is spread into others alone is no table of its own."""
    assert module.__file__ is not None
    source = Path(module.__file__).read_text()
    lines = source.splitlines()
    assigned = {
        node.target.id: node.value
        for node in ast.parse(source).body
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and isinstance(node.value, ast.Dict)
    }
    found: Tables = {}
    for name, literal in assigned.items():
        if name.startswith("_"):
            continue
        value = getattr(module, name)
        if all(isinstance(item, Treatment) for item in value.values()):
            found[_title(name)] = _rows(value, _notes(literal, assigned, lines))
            continue
        for key, inner in zip(literal.keys, literal.values, strict=True):
            assert isinstance(key, ast.Constant)
            dictionary = assigned[inner.id] if isinstance(inner, ast.Name) else inner
            assert isinstance(dictionary, ast.Dict)
            rows = _rows(value[str(key.value)], _notes(dictionary, assigned, lines))
            found[f"{_title(name)}: `{key.value!s}`"] = rows
    return found


def _title(name: str) -> str:
    return name.lower().replace("_", " ").removesuffix("s")


def _rows(fields: Mapping[str, Treatment], notes: Mapping[str, str]) -> list[Row]:
    return [Row(field, treatment, notes.get(field, "")) for field, treatment in fields.items()]


def _notes(literal: ast.Dict, assigned: Mapping[str, ast.Dict], lines: list[str]) -> dict[str, str]:
    """Field → the comment behind it, in this table or in one that is spread into it."""
    notes: dict[str, str] = {}
    for key, value in zip(literal.keys, literal.values, strict=True):
        if key is None and isinstance(value, ast.Name):
            notes |= _notes(assigned[value.id], assigned, lines)
        elif isinstance(key, ast.Constant):
            _, _, comment = lines[key.lineno - 1].partition("  # ")
            notes[str(key.value)] = comment.strip()
    return notes


def document() -> str:
    """The whole page."""
    parts = [PREFACE]
    for dialect, module in modules():
        parts.append(f"## {dialect}\n")
        for title, rows in tables(module).items():
            parts.append(f"### {title}\n")
            parts.append("| field | treatment | how |\n| --- | --- | --- |")
            parts.append("\n".join(f"| `{row.field}` | {row.treatment} | {row.note} |" for row in rows) + "\n")
    return "\n".join(parts)


if __name__ == "__main__":
    TARGET.parent.mkdir(exist_ok=True)
    TARGET.write_text(document())
    print(TARGET.relative_to(ROOT))
