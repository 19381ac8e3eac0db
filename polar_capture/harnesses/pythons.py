"""A CPython of a wanted version on this machine: some harnesses from PyPI take one minor version only."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from polar_capture.harnesses.install import InstallError

_CHECK = "import ensurepip, ssl, sys, venv; print('%d.%d' % sys.version_info[:2])"


def find_python(version: str) -> str:
    """The path of a CPython `version` ("3.12") that can make virtual environments. `PYTHON312` decides at once.

    Raises InstallError, which says what to install.
    """
    variable = f"PYTHON{version.replace('.', '')}"
    candidates = [os.environ[variable]] if os.environ.get(variable) else _candidates(version)
    for candidate in candidates:
        if _fits(candidate, version):
            return candidate
    raise InstallError(
        f"no CPython {version} with venv was found (PATH, pyenv, uv): install one, for example by `uv python install "
        f"{version}`, or name one in {variable}"
    )


def _candidates(version: str) -> Iterator[str]:
    yield sys.executable
    for folder in os.environ.get("PATH", os.defpath).split(os.pathsep):
        yield str(Path(folder, f"python{version}"))
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    data = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local/share")
    uv = Path(os.environ.get("UV_PYTHON_INSTALL_DIR") or data / "uv/python")
    for parent, pattern in ((pyenv / "versions", f"{version}.*"), (uv, f"cpython-{version}*")):
        for found in sorted(parent.glob(pattern)):
            yield str(found / "bin" / f"python{version}")


def _fits(candidate: str, version: str) -> bool:
    # A shim of pyenv is there for versions that are not selected, too: only running it tells.
    try:
        done = subprocess.run([candidate, "-I", "-c", _CHECK], capture_output=True, text=True, check=False, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0 and done.stdout.strip() == version
