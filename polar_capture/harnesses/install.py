"""Agents at exact versions in a cache folder, installed once whatever the number of processes that ask for them."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

Progress = Callable[[str], None]


class InstallError(RuntimeError):
    """An installation failed; the message holds the end of the installer's own words."""


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def cache_folder() -> Path:
    """POLAR_CACHE, else `polar-capture` in the user's cache folder."""
    if chosen := os.environ.get("POLAR_CACHE"):
        return Path(chosen).resolve()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "polar-capture"


def installed_once(folder: Path, fill: Callable[[Path], None], what: str, progress: Progress = say) -> Path:
    """`folder`, filled by `fill` unless it is there already.

    It is filled under another name and renamed when whole, so that what has the final name can be trusted: a process
    that is killed in the middle leaves a `.unfinished` folder, which the next one clears away.
    """
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with _only_one(folder.with_name(f"{folder.name}.lock"), what, progress):
        if folder.is_dir():  # another process was quicker
            return folder
        unfinished = folder.with_name(f"{folder.name}.unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir()
        progress(f"installing {what}")
        started = time.monotonic()
        try:
            fill(unfinished)
            unfinished.rename(folder)
        except BaseException:
            shutil.rmtree(unfinished, ignore_errors=True)
            raise
        progress(f"installed {what} in {time.monotonic() - started:.0f} s")
    return folder


def install_pypi(
    package: str, version: str, program: str, python: str = sys.executable, progress: Progress = say
) -> Path:
    """Install a Python agent at an exact version into an environment of its own; returns its program."""
    folder = cache_folder() / "pypi" / f"{package}-{version}"

    def fill(unfinished: Path) -> None:
        # Scripts name their interpreter by its full path, so the environment is made under its final name at once, and
        # only a link to it goes into the folder whose renaming tells that all is whole.
        environment = folder.with_name(f"{folder.name}.environment")
        shutil.rmtree(environment, ignore_errors=True)
        try:
            inside = venv_python(environment, python)
            command = [str(inside), "-m", "pip", "install", "--disable-pip-version-check", f"{package}=={version}"]
            run_logged(f"{package} {version}", command, unfinished, progress)
        except BaseException:
            shutil.rmtree(environment, ignore_errors=True)
            raise
        (unfinished / "environment").symlink_to(environment, target_is_directory=True)

    installed_once(folder, fill, f"{package} {version} from PyPI", progress)
    return folder / "environment" / "bin" / program


def venv_python(folder: Path, python: str) -> Path:
    made = subprocess.run([python, "-m", "venv", str(folder)], capture_output=True, text=True, check=False)
    if made.returncode:
        raise InstallError(f"{python} can't make a virtual environment: {(made.stdout + made.stderr).strip()}")
    return folder / "bin" / "python"


def run_logged(
    what: str,
    command: list[str],
    folder: Path,
    progress: Progress,
    environment: Mapping[str, str] | None = None,
    every: float = 5.0,
) -> None:
    """Run an installer, its output in a file of `folder`; say every few seconds how far it is, and why it failed."""
    log = folder / "install.log"
    started = reported = time.monotonic()
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
        )
        try:
            while process.poll() is None:
                time.sleep(0.1)
                if time.monotonic() - reported >= every:
                    reported = time.monotonic()
                    progress(f"installing {what}: {reported - started:.0f} s, {_last_line(log)}")
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
    if process.returncode:
        tail = "\n".join(log.read_text(errors="replace").splitlines()[-20:])
        raise InstallError(f"installing {what} failed with status {process.returncode}:\n{tail}")


def _last_line(log: Path) -> str:
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return lines[-1][:80] if lines else "no output yet"


@contextlib.contextmanager
def _only_one(lock_file: Path, what: str, progress: Progress) -> Iterator[None]:
    """One process at a time; the lock ends with the process that holds it, however that ends."""
    with lock_file.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            progress(f"waiting for another process that installs {what}")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
