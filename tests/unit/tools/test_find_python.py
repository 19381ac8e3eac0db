"""tools/find_python.sh, with stand-ins for the Pythons of a machine."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[3] / "tools" / "find_python.sh"


def python(path: Path, fits: bool) -> Path:
    """A program that passes or fails the script's question, and tells where it is."""
    path.parent.mkdir(parents=True, exist_ok=True)
    answer = f'case "$3" in *ensurepip*) exit {0 if fits else 1};; *) echo "{path}";; esac'
    path.write_text(f"#!/bin/sh\n{answer}\n")
    path.chmod(0o755)
    return path


def find(home: Path, path: str = "", **variables: str) -> subprocess.CompletedProcess[str]:
    tools = home / "coreutils"
    tools.mkdir(exist_ok=True)
    for name in ("cat", "tr"):
        if not (tools / name).exists():
            (tools / name).symlink_to(shutil.which(name) or name)
    environment = {"HOME": str(home), "PATH": f"{path}:{tools}", **variables}
    return subprocess.run(
        ["/bin/sh", str(SCRIPT), "3.99"], env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(
    "place",
    [
        "bin/python3.99",
        "bin/python3",
        ".pyenv/versions/3.99.1/bin/python3.99",
        ".local/share/uv/python/cpython-3.99.0-linux-x86_64-gnu/bin/python3.99",
        "with a space/bin/python3.99",
    ],
)
def test_a_fitting_python_is_found(tmp_path: Path, place: str) -> None:
    wanted = python(tmp_path / place, fits=True)
    found = find(tmp_path, path=f"{tmp_path / 'bin'}:{tmp_path / 'with a space' / 'bin'}")
    assert (found.returncode, found.stdout.strip()) == (0, str(wanted))


def test_one_that_does_not_run_is_passed_over(tmp_path: Path) -> None:
    python(tmp_path / "shims" / "python3.99", fits=False)
    wanted = python(tmp_path / ".pyenv" / "versions" / "3.99.1" / "bin" / "python3.99", fits=True)
    assert find(tmp_path, path=str(tmp_path / "shims")).stdout.strip() == str(wanted)


def test_none_says_what_to_install(tmp_path: Path) -> None:
    found = find(tmp_path)
    assert found.returncode == 1
    assert found.stdout == ""
    for hint in ("uv python install 3.99", "pyenv install 3.99", "python3.99-venv", "make PYTHON399="):
        assert hint in found.stderr


def test_the_users_choice_is_final(tmp_path: Path) -> None:
    python(tmp_path / "bin" / "python3.99", fits=True)
    chosen = python(tmp_path / "chosen", fits=True)
    wrong = python(tmp_path / "wrong", fits=False)
    assert find(tmp_path, path=str(tmp_path / "bin"), PYTHON399=str(chosen)).stdout.strip() == str(chosen)
    refused = find(tmp_path, path=str(tmp_path / "bin"), PYTHON399=str(wrong))
    assert refused.returncode == 1
    assert "PYTHON399" in refused.stderr


def test_the_script_is_executable() -> None:
    assert os.access(SCRIPT, os.X_OK)
