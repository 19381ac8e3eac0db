"""One real harness, run for real: `polar-capture run --harness NAME` in a clean environment, and what was captured."""

import contextlib
import itertools
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from polar_capture import store as stores
from polar_capture.call_rows import call_rows, conversation_of
from polar_capture.harnesses.install import cache_folder
from polar_capture.ready import parse
from polar_capture.trajectories.samples import build_session
from tests.double.process import Running, running
from tests.double.script import Script

PROOF = "proof.txt"
POLAR = (sys.executable, "-m", "polar_capture")
PASSED_ON = ("PATH", "LANG", "LC_ALL", "TMPDIR", "PYENV_ROOT", "PYTHON312")
"""What a harness may have of the shell that runs the tests."""


class Ran(msgspec.Struct):
    """What one run of a harness came to. `calls` are the rows in order, arrays as lists."""

    status: int
    output: str
    seconds: float
    calls: list[dict[str, Any]]
    session: dict[str, Any]
    proof: str
    """What the harness's tool has written."""
    breaks: list[str] = []
    """Why an agent's turns do not go on from what it did before, as `build` records it."""
    refused: list[str] = []
    """Hosts that the egress policy refused, where a relay watched."""

    @property
    def turns(self) -> list[dict[str, Any]]:
        return [call for call in self.calls if call["kind"] == "turn" and call["status"] == "ok"]

    @property
    def words(self) -> str:
        """The calls but the helpers', in order, as `matrix.Ending.calls` has them."""
        return " ".join(_word(call) for call in self.calls if call["kind"] != "side")

    @property
    def agents(self) -> dict[str, list[dict[str, Any]]]:
        """The answered turns of each agent, in order."""
        found: dict[str, list[dict[str, Any]]] = {}
        for turn in self.turns:
            found.setdefault(turn["agent"], []).append(turn)
        return found

    @property
    def exact(self) -> int:
        """Turns that extend the one before, of the same agent, token by token."""
        pairs = [pair for turns in self.agents.values() for pair in itertools.pairwise(turns)]
        return sum(extends(turn, before) for before, turn in pairs)

    @property
    def sides(self) -> list[dict[str, Any]]:
        return [call for call in self.calls if call["kind"] == "side"]


class Stage:
    """A folder with a database, a proxy's home, a working folder and a HOME for the harness."""

    def __init__(self, folder: Path, engine: str) -> None:
        self.folder = folder
        self.engine = engine
        self.work = folder / "work"
        self.work.mkdir()
        self.database = f"sqlite:///{folder}/polar.db"

    def run(
        self,
        harness: str,
        prompt: str,
        *arguments: str,
        session: str = "s1",
        options: tuple[str, ...] = (),
        environment: Mapping[str, str] | None = None,
        proxy: str | None = None,
        patience: float = 300,
    ) -> Ran:
        """Run to the end; after `patience` seconds the whole process group is ended, and the status is 124."""
        command = [*POLAR, "run", "--db", self.database, "--home", str(self.folder / "home")]
        command += ["--proxy", proxy] if proxy else ["--upstream", self.engine, "--egress", "block"]
        command += ["--session", session, "--harness", harness, "--prompt", prompt]
        command += ["--harness-home", str(self.folder / "agent")]
        for name, value in (environment or {}).items():
            command += ["--harness-env", f"{name}={value}"]
        command += [*options, *(("--", *arguments) if arguments else ())]
        log = self.folder / f"{session}.log"
        began = time.monotonic()
        with log.open("ab") as output:
            process = subprocess.Popen(
                command,
                cwd=self.work,
                env=self._environ(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                status = process.wait(patience)
            except subprocess.TimeoutExpired:
                status = 124
                process.send_signal(signal.SIGTERM)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(30)
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        proof = self.work / PROOF
        return Ran(
            status,
            log.read_text(errors="replace"),
            time.monotonic() - began,
            self.calls(session),
            self.session(session),
            proof.read_text() if proof.exists() else "",
            self._breaks(session),
        )

    @contextlib.contextmanager
    def serving(self) -> Iterator[str]:
        """A `serve` of its own; the proxy's URL."""
        command = [*POLAR, "serve", "--port", "0", "--upstream", self.engine, "--egress", "block"]
        command += ["--db", self.database, "--home", str(self.folder / "home")]
        with (self.folder / "serve.log").open("wb") as log:
            process = subprocess.Popen(
                command, cwd=self.work, env=self._environ(), stdout=subprocess.PIPE, stderr=log, text=True
            )
        try:
            assert process.stdout is not None
            ready = parse(process.stdout.readline())
            assert ready is not None, (self.folder / "serve.log").read_text()
            yield ready.proxy
        finally:
            process.terminate()
            process.wait(60)

    def calls(self, session: str) -> list[dict[str, Any]]:
        with self._store() as store:
            rows = [store.call(row["id"]) for row in store.calls(session)]
        for row in rows:
            for name in ("prompt_ids", "completion_ids", "logprobs"):
                row[name] = None if row[name] is None else list(row[name])
        return rows

    def session(self, session: str) -> dict[str, Any]:
        with self._store() as store:
            return store.session(session) or {}

    def _breaks(self, session: str) -> list[str]:
        with self._store() as store, store.database.read.connect() as connection:
            rows = call_rows(connection, session)
            built = build_session(session, rows, None, lambda call_id: conversation_of(store, call_id))
            breaks = [at for sample in built.samples() for at in sample.breaks]
            agents = {call["id"]: call["agent"] for call in store.calls(session) if call["kind"] == "turn"}
            # Not that a turn does not go on from a helper's call, nor a sub-agent from what started it.
            found = {at.call_id: at.break_ for at in breaks if agents.get(at.call_id) == agents.get(at.predecessor)}
            return [found[call_id] for call_id in agents if call_id in found]

    @contextlib.contextmanager
    def _store(self) -> Iterator[Any]:
        store = stores.open(self.database, create=False)
        try:
            yield store
        finally:
            store.close()

    def _environ(self) -> dict[str, str]:
        kept = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
        # The shell's own HOME is nobody's business; what needs one is given the stage's.
        return {**kept, "HOME": str(self.folder), "POLAR_CACHE": str(cache_folder()), "TERM": "xterm"}


def _word(call: dict[str, Any]) -> str:
    agent = call["agent"].partition(":")[0]
    if call["status"] != "ok":
        return f"{agent}!{call['http_status'] if call['status'] == 'error' else call['status']}"
    return agent if call["trainable"] else f"{agent}?{call['reason']}"


@contextlib.contextmanager
def staged(script: Script, **options: Any) -> Iterator[tuple[Stage, Running]]:
    """A stage with a scripted engine."""
    script.options = msgspec.structs.replace(script.options, any_model=True, **options)
    with tempfile.TemporaryDirectory(prefix="harness-", ignore_cleanup_errors=True) as name, running(script) as engine:
        yield Stage(Path(name), engine.url), engine


def all_chained(turns: list[dict[str, Any]]) -> bool:
    """Whether the prompt of each turn but the first starts with the prompt and completion of the one before."""
    return all(extends(b, a) for a, b in itertools.pairwise(turns))


def extends(turn: dict[str, Any], parent: dict[str, Any]) -> bool:
    """Whether a turn's prompt starts with another's prompt and completion, token by token."""
    history = parent["prompt_ids"] + parent["completion_ids"]
    return turn["prompt_ids"][: len(history)] == history
