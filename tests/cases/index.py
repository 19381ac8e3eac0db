"""Which tests hold which fault of the field, read from their names."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LIST = Path(__file__).with_name("field_faults.txt")
FOLDERS = ("tests/unit", "tests/sdk")
"""What runs without a real engine and without agents."""

_IN_NAME = re.compile(r"o_([a-z]+(?:_[a-z]+)??)((?:_(?:and_)?\d\d(?!\d))+)(?=_|$)")


def faults() -> list[str]:
    """All ids, in order."""
    return [line for line in LIST.read_text().splitlines() if line and not line.startswith("#")]


def faults_in(name: str) -> list[str]:
    """The ids that a test's name holds: `test_o_errors_05_07_x` holds o-errors-05 and o-errors-07."""
    return [
        f"o-{area.replace('_', '-')}-{number}"
        for area, numbers in _IN_NAME.findall(name)
        for number in re.findall(r"\d\d", numbers)
    ]


def holders() -> dict[str, list[str]]:
    """Fault id → the tests that hold it, as `path::name`."""
    found: dict[str, list[str]] = {fault: [] for fault in faults()}
    for path, name in _tests():
        for fault in faults_in(name):
            if fault in found:
                found[fault].append(f"{path}::{name}")
    return found


def _tests() -> Iterator[tuple[str, str]]:
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("test_*.py")):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                    yield str(path.relative_to(ROOT)), node.name
