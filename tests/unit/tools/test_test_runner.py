"""The stages of `make test` and the line that CI reads."""

import subprocess
import sys
from pathlib import Path

import pytest

from tools import test as runner
from tools.test import Result, Stage

REPORT = """<?xml version="1.0"?><testsuites>
<testsuite name="pytest" errors="1" failures="2" skipped="3" tests="10" time="1"/></testsuites>"""


def test_counts_come_from_the_report(tmp_path: Path) -> None:
    report = tmp_path / "unit.xml"
    report.write_text(REPORT)
    result = runner.read_report(report)
    assert (result.passed, result.failed, result.skipped) == (4, 3, 3)
    assert runner.read_report(tmp_path / "none.xml") == Result()


def test_the_closing_line_stands_alone() -> None:
    lines = runner.summary({"lint": Result(passed=3), "unit": Result(passed=40, failed=1, skipped=2)}).splitlines()
    assert lines[-1] == "43 passed, 1 failed, 2 skipped"
    assert runner.summary({"lint": Result(passed=3)}).splitlines()[-1] == "3 passed, 0 failed"


def test_unknown_stages_are_refused() -> None:
    with pytest.raises(SystemExit, match="no such stage: unti; there are lint, unit"):
        runner.chosen_stages(["unti"])


def test_folders_that_are_not_there_yet_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tests" / "unit").mkdir(parents=True)
    monkeypatch.setattr(runner, "ROOT", tmp_path)
    assert [stage.name for stage in runner.chosen_stages([])] == ["lint", "unit"]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "tests" / "unit").mkdir(parents=True)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = slow: x\n")
    monkeypatch.setattr(runner, "ROOT", tmp_path)
    monkeypatch.setattr(runner, "REPORTS", tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("text", "slow", "counts", "note"),
    [
        ("def test_a(): pass\ndef test_b(): assert 0\n", False, (1, 1), ""),
        ("import pytest\ndef test_a(): pass\n@pytest.mark.slow\ndef test_b(): pass\n", False, (1, 0), ""),
        ("import pytest\ndef test_a(): pass\n@pytest.mark.slow\ndef test_b(): pass\n", True, (2, 0), ""),
        ("x = 1\n", False, (0, 0), "no test was chosen"),
        ("import os\ndef test_a(): os._exit(9)\n", False, (0, 1), "pytest ended with status 9"),
        ("import time\ndef test_a(): time.sleep(600)\n", False, (0, 1), "ended after 4 s"),
    ],
)
def test_a_stages_end(project: Path, text: str, slow: bool, counts: tuple[int, int], note: str) -> None:
    (project / "tests" / "unit" / "test_it.py").write_text(text)
    result = runner.pytest(Stage("unit", timeout=4 if "sleep" in text else 60), slow, {"PATH": "/usr/bin:/bin"})
    assert (result.passed, result.failed) == counts
    assert result.note == note


def test_nothing_to_run_is_no_success(tmp_path: Path) -> None:
    script = Path(runner.__file__)
    done = subprocess.run([sys.executable, script, "nothing"], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "no such stage" in done.stderr
