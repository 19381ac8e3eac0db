"""The double as a subprocess, for tests of commands and benchmarks."""

import contextlib
import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Iterator

import msgspec

from tests.double.script import Script
from tests.double.server import Logged

ROOT = pathlib.Path(__file__).resolve().parents[2]


class Running:
    """A double in its own process: `url`, `pid`, `requests()` read from its log, `kill()`."""

    def __init__(self, process: subprocess.Popen[str], url: str, log: pathlib.Path) -> None:
        self.process, self.url, self.pid, self._log = process, url, process.pid, log

    def requests(self) -> list[Logged]:
        return [msgspec.json.decode(line, type=Logged) for line in self._log.read_bytes().splitlines()]

    def chats(self) -> list[Logged]:
        return [r for r in self.requests() if r.path == "/v1/chat/completions"]

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@contextlib.contextmanager
def running(script: Script | None = None, *, port: int = 0, canned: tuple[int, int] | None = None) -> Iterator[Running]:
    """Run `python -m tests.double`; ended by SIGTERM at the end of the block."""
    with tempfile.TemporaryDirectory(prefix="double-") as folder:
        log = pathlib.Path(folder, "requests.jsonl")
        log.touch()
        command = [sys.executable, "-m", "tests.double", "--port", str(port), "--log", str(log)]
        if script is not None:
            path = pathlib.Path(folder, "script.json")
            path.write_bytes(msgspec.json.encode(script))
            command += ["--script", str(path)]
        if canned:
            command += ["--canned", f"{canned[0]},{canned[1]}"]
        process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            if not line.startswith("double ready "):
                raise RuntimeError(f"the double did not start: {line!r}")
            yield Running(process, msgspec.json.decode(line.removeprefix("double ready "))["url"], log)
        finally:
            if process.poll() is None:
                process.terminate()
                process.wait(10)
            process.stdout.close()  # type: ignore[union-attr]
