#!/usr/bin/env python3
"""Make the project's two virtual environments; `make setup` and `make engine` call this with a fitting Python.

    python3.13 tools/environments.py proxy     # .venv: the project, its extras, the tools of the tests
    python3.11 tools/environments.py engine    # .venv-engine: vLLM on the CPU, and the driver model

Each ends in a `.ready` file that holds a fingerprint of all that went into the environment. While it matches, nothing
is done; and one process at a time works on an environment, so that two calls of make don't get in each other's way.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CACHE = Path(os.environ.get("POLAR_CACHE") or ROOT / ".cache")
sys.dont_write_bytecode = True


class SetupError(RuntimeError):
    """A step failed; the message holds the end of its output."""


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


@contextlib.contextmanager
def only_one(name: str) -> Iterator[None]:
    """Hold a lock that ends with the process, whatever ends it."""
    locks = CACHE / "locks"
    locks.mkdir(parents=True, exist_ok=True)
    with (locks / f"{name}.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            say(f"{name}: waiting for another make that is at the same work")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def run(what: str, command: list[str], counted: str = "", environment: dict[str, str] | None = None) -> None:
    """Run a long command: its output to a log, a line every few seconds to the user, the end of the log on failure."""
    log = CACHE / "logs" / f"{what.replace(' ', '-')}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    started = reported = time.monotonic()
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=ROOT,
            env={**os.environ, **(environment or {})},
        )
        try:
            while process.poll() is None:
                time.sleep(0.2)
                if time.monotonic() - reported >= 10:
                    reported = time.monotonic()
                    lines = log.read_text(errors="replace").splitlines() or ["no output yet"]
                    packages = sum(line.startswith(counted) for line in lines) if counted else 0
                    say(
                        f"{what}: {reported - started:.0f} s, "
                        + (f"{packages} packages" if counted else lines[-1][:100])
                    )
        except BaseException:
            process.kill()
            process.wait()
            raise
    if process.returncode:
        tail = "\n".join(log.read_text(errors="replace").splitlines()[-25:])
        raise SetupError(f"{what} failed with status {process.returncode}; the end of {log}:\n{tail}")
    say(f"{what}: done in {time.monotonic() - started:.0f} s")


def fingerprint(*parts: object) -> str:
    """Of the environment's place and Python too: an environment that was moved doesn't work any more."""
    content = [str(ROOT), os.path.realpath(sys.executable), sys.version, *map(str, parts)]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()


def make_venv(folder: Path) -> Path:
    """The environment's python, which is this one. An environment of another version or place is made anew."""
    python = folder / "bin" / "python"
    question = "import platform, sys; print(sys.prefix, platform.python_version())"
    expected = f"{folder} {platform.python_version()}"
    with contextlib.suppress(OSError):
        answer = subprocess.run([python, "-I", "-c", question], capture_output=True, text=True, check=False)
        if answer.stdout.strip() == expected:
            return python
    run(f"new {folder.name}", [sys.executable, "-m", "venv", "--clear", str(folder)])
    return python


def pip_install(what: str, python: Path, *arguments: str) -> None:
    command = [str(python), "-m", "pip", "install", "--disable-pip-version-check", "--progress-bar", "off", *arguments]
    run(what, command, counted="Collecting")


def make_proxy_environment() -> None:
    import tomllib

    folder, lock = ROOT / ".venv", ROOT / "requirements" / "dev.txt"
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text())
    # The parts that the installed metadata, scripts and import hooks come from; not the linters' settings.
    installed = [pyproject["project"], pyproject["build-system"], pyproject["tool"]["hatch"]]
    wanted = fingerprint(lock.read_text(), json.dumps(installed, sort_keys=True))
    ready = folder / ".ready"
    if not (is_ready(ready, wanted) and (folder / "bin" / "polar-capture").exists()):
        ready.unlink(missing_ok=True)
        python = make_venv(folder)
        pip_install("installing .venv", python, "--requirement", str(lock))
        # The build backend is in the lock, so no second environment is made and filled for it.
        pip_install("installing polar_capture", python, "--no-deps", "--no-build-isolation", "--editable", str(ROOT))
    ready.write_text(wanted)


def make_engine_environment() -> None:
    folder, pins = ROOT / ".venv-engine", ROOT / "requirements" / "engine.txt"
    ready = folder / ".ready"
    wanted = fingerprint(pins.read_text())
    if not is_ready(ready, wanted):
        ready.unlink(missing_ok=True)
        python = make_venv(folder)
        index = os.environ.get("TORCH_INDEX")
        extra = ["--extra-index-url", index] if index else []
        try:
            # --no-deps: see the head of engine.txt.
            pip_install("installing .venv-engine", python, "--no-deps", *extra, "--requirement", str(pins))
        except SetupError as error:
            if "torch==" in str(error) and not index:
                error.add_note(
                    "torch's CPU build is not on PyPI. Name the index that has it, PyTorch's own wheel index for the "
                    "CPU: make engine TORCH_INDEX=URL"
                )
            raise
    make_driver_model(folder / "bin" / "python")
    ready.write_text(wanted)


def make_driver_model(python: Path) -> None:
    sys.path.insert(0, str(ROOT))
    from tools.engine.make_driver_model import recipe_hash

    models = CACHE / "models"
    model = models / f"driver-{recipe_hash()}"
    if not (model / "config.json").exists():
        script = str(ROOT / "tools" / "engine" / "make_driver_model.py")
        # Threads that wait must not spin: beside other work on the same cores that took twice the CPU time.
        quiet = {"OMP_WAIT_POLICY": "PASSIVE", "HF_HUB_OFFLINE": "1"}
        run("training the driver model", [str(python), "-B", script, str(model)], environment=quiet)


def is_ready(ready: Path, wanted: str) -> bool:
    return ready.exists() and ready.read_text() == wanted


def main() -> int:
    makers = {"proxy": make_proxy_environment, "engine": make_engine_environment}
    if len(sys.argv) != 2 or sys.argv[1] not in makers:
        say((__doc__ or "").strip())
        return 2
    try:
        with only_one(sys.argv[1]):
            makers[sys.argv[1]]()
    except SetupError as error:
        say("\n".join([str(error), *getattr(error, "__notes__", [])]))
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
