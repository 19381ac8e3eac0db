"""Real parts that only a few tests need (TRL, Ray, other trainers' code), each in a folder of its own below `.cache`.

The first test that asks for one installs it; where that fails the test fails: nothing is skipped.
"""

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

from tools.environments import CACHE, only_one

ROOT = Path(__file__).resolve().parents[1]


def installed(name: str, python: Path | str, *, alone: bool = True) -> Path:
    """The folder `.cache/NAME` with what `requirements/NAME.txt` lists, for this interpreter. `alone`: without what
    those packages require, because the environment beside it has that."""
    needs, folder = ROOT / "requirements" / f"{name}.txt", CACHE / name
    wanted = hashlib.sha256(f"{python} {alone} {needs.read_text()}".encode()).hexdigest()
    mark = folder / ".installed"
    with only_one(f"installed-{name}"):
        if not (mark.exists() and mark.read_text() == wanted):
            shutil.rmtree(folder, ignore_errors=True)
            pip = [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check", "--target", str(folder)]
            command = [*pip, *(["--no-deps"] if alone else []), "-r", str(needs)]
            done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
            assert done.returncode == 0, f"{name} could not be installed: {done.stderr[-2000:]}"
            mark.write_text(wanted)
    return folder


def beside(*folders: Path, **more: str) -> dict[str, str]:
    """The environment of a process that shall find these folders' packages."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, folders)), "OMP_WAIT_POLICY": "PASSIVE", **more}
