"""Shared code never branches on a dialect: none is named outside `polar_capture/dialects/` but for reasons given."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from polar_capture.dialects import registry

ROOT = Path(__file__).resolve().parents[3]
NAMES = re.compile("|".join(dialect.name for dialect in registry.DIALECTS) + "|openai", re.IGNORECASE)
EXCEPTIONS = {
    "polar_capture/environment.py": "variables that harnesses read, by their own names",
    "polar_capture/egress.py": "host names of vendors' telemetry, which are answered 404",
    "polar_capture/views/answers.py": "for people's eyes: tells a captured stream by its shape, not by a dialect",
}
HARNESSES = ROOT / "polar_capture" / "harnesses"
"""A preset knows which API its harness speaks, and by which variables."""


def words(tree: ast.Module) -> Iterator[str]:
    """Every name and every string of code; docstrings and comments are none."""
    told = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in told:
            yield node.value
        elif isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.ImportFrom):
            yield f"{node.module}"
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.alias):
            yield node.name


def test_no_dialect_is_named_in_shared_code() -> None:
    files = [*(ROOT / "polar_capture").rglob("*.py"), *(ROOT / "addons").rglob("*.py")]
    shared = [f for f in files if ROOT / "polar_capture" / "dialects" not in f.parents and HARNESSES not in f.parents]
    assert len(shared) > 100
    named = {
        str(file.relative_to(ROOT)): found
        for file in shared
        if (found := sorted({word for word in words(ast.parse(file.read_text())) if NAMES.search(word)}))
    }
    assert {file: found for file, found in named.items() if file not in EXCEPTIONS} == {}
    assert set(EXCEPTIONS) <= set(named), "an exception that is not needed any more"


def test_only_the_registry_knows_all_dialects() -> None:
    folder = ROOT / "polar_capture" / "dialects"
    for dialect in registry.DIALECTS:
        package = Path(type(dialect).__module__.replace(".", "/")).parent.name
        others = [other.name for other in registry.DIALECTS if other is not dialect]
        for file in (folder / package).glob("*.py"):
            imported = [w for w in words(ast.parse(file.read_text())) if w.startswith("polar_capture.dialects.")]
            assert not [w for w in imported if w.split(".")[2] in others], file
