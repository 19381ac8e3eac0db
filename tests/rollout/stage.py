"""A folder with tasks, a scripted engine, a scripted agent, and `polar-capture rollout` on them."""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from polar_capture import store as stores
from tests.double.process import Running, running
from tests.double.script import Script

POLAR = (sys.executable, "-m", "polar_capture")
AGENT = Path(__file__).with_name("agent.py")


class Stage:
    def __init__(self, folder: Path, engine: Running) -> None:
        self.folder, self.engine = folder, engine
        self.tasks = folder / "tasks.jsonl"
        self.db = f"sqlite:///{folder}/polar.db"
        self.environ = {name: value for name, value in os.environ.items() if not name.startswith("POLAR_")}
        self.environ |= {"TMPDIR": str(folder / "tmp"), "PYTHONDONTWRITEBYTECODE": "1"}
        (folder / "tmp").mkdir()

    def write(self, *tasks: dict[str, Any]) -> None:
        self.tasks.write_text("".join(json.dumps(task) + "\n" for task in tasks))

    def command(self, *options: str, agent: bool = True) -> list[str]:
        command = [*POLAR, "rollout", str(self.tasks), "--db", self.db, "--home", str(self.folder / "home")]
        command += [] if "--proxy" in options else ["--upstream", self.engine.url, "--egress", "block"]
        return [*command, *options, *(("--", sys.executable, str(AGENT)) if agent else ())]

    def run(self, *options: str, patience: float = 240, **more: Any) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            self.command(*options, **more),
            cwd=self.folder,
            env=self.environ,
            capture_output=True,
            text=True,
            timeout=patience,
            stdin=subprocess.DEVNULL,
        )

    def groups(self, *options: str) -> list[dict[str, Any]]:
        """What `--json` tells; whatever the status."""
        done = self.run("--json", *options)
        assert done.stdout, done.stderr
        return json.loads(done.stdout)

    def start(self, *options: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            self.command(*options),
            cwd=self.folder,
            env=self.environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )

    def rows(self, query: str) -> list[dict[str, Any]]:
        with contextlib.closing(stores.open(self.db, create=False)) as store:
            columns, rows = store.sql(query)
        return [dict(zip(columns, row, strict=True)) for row in rows]

    def count(self, query: str) -> int:
        try:
            return int(next(iter(self.rows(f"SELECT count(*) AS n FROM {query}")))["n"])
        except (stores.DatabaseError, sa.exc.SQLAlchemyError):
            return 0

    def await_count(self, query: str, least: int, patience: float = 90) -> None:
        deadline = time.monotonic() + patience
        while self.count(query) < least:
            assert time.monotonic() < deadline, f"not {least} of {query} within {patience} s"
            time.sleep(0.1)


def processes(marker: str) -> list[str]:
    """Processes with this text in their command line."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with contextlib.suppress(OSError):
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                if marker in line and "pytest" not in line:
                    found.append(line)
    return found


@contextlib.contextmanager
def staged(script: Script | None = None) -> Iterator[Stage]:
    with (
        tempfile.TemporaryDirectory(prefix="rollout-", ignore_cleanup_errors=True) as name,
        running(script or Script()) as engine,
    ):
        yield Stage(Path(name), engine)
