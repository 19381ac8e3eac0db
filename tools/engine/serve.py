#!/usr/bin/env python3
"""Serve the driver model with a real vLLM on the CPU; for tests and the demo, and by hand.

    python tools/engine/serve.py [--port 0] [--model FOLDER] [--max-model-len 65536] [-- VLLM FLAGS…]

    from tools.engine.serve import engine
    with engine() as running:
        requests.get(running.url + "/v1/models")

`engine()` uses the server that POLAR_ENGINE_URL names, where it is set, and otherwise starts one of its own, which ends
with the block, and with the process that started it.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from tools.engine.make_driver_model import CONTEXT, recipe_hash

ROOT = Path(__file__).resolve().parents[2]
PYTHON = ROOT / ".venv-engine" / "bin" / "python"
START_TIMEOUT = 600.0  # ready in 20 s on an idle machine, in 150 s at load 20

ENVIRONMENT = {
    # Without it the first request with logprobs waits up to 12 s for torch.compile, which also needs a C++ compiler.
    "TORCHDYNAMO_DISABLE": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",  # GiB, the smallest value
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
}
FLAGS = [
    "--enforce-eager",
    *("--dtype", "float32"),  # vLLM would run it in bfloat16, with logprobs that scoring again doesn't reproduce
    "--enable-auto-tool-choice",
    *("--tool-call-parser", "hermes"),
    *("--reasoning-parser", "qwen3"),
    # On the CPU, a request with a `seed` whose prompt is prefilled in several chunks kills vLLM 0.32's worker ("CPU
    # Generator does not use offset"). So prompts are prefilled whole, and a step must be able to hold the longest one.
    "--no-enable-chunked-prefill",
]
# Sets "end me when my parent ends" and becomes the server, so that a killed test run leaves no engine behind (Linux).
END_WITH_PARENT = (
    "import ctypes, os, sys\n"
    "if sys.platform == 'linux': ctypes.CDLL(None).prctl(1, 15)\n"
    "os.execv(sys.argv[1], sys.argv[1:])"
)


class EngineError(RuntimeError):
    """The engine could not be started; the message says why and what to do."""


def driver_model() -> Path:
    """Where `make engine` keeps the driver model that the present recipe makes."""
    cache = Path(os.environ.get("POLAR_CACHE") or ROOT / ".cache")
    return cache / "models" / f"driver-{recipe_hash()}"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


@dataclass
class Engine:
    """A vLLM server of our own; as a context manager it is ready inside the block and gone after it."""

    model: Path = field(default_factory=driver_model)
    port: int = field(default_factory=free_port)
    name: str = "driver"
    max_model_len: int = CONTEXT
    scale_out: bool = True  # /render, /derender, /inference/v1/generate
    dev_mode: bool = True  # /pause, /sleep, /collective_rpc, weight versions
    flags: Sequence[str] = ()
    log: Path | None = None
    progress: Callable[[str], None] = say
    process: subprocess.Popen[bytes] | None = None
    started: float = 0.0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def command(self) -> list[str]:
        # The `vllm` command asks for the metadata of a distribution called "vllm", which vllm-cpu is not; -m doesn't.
        command = [str(PYTHON), "-m", "vllm.entrypoints.openai.api_server"]
        command += ["--model", str(self.model), "--served-model-name", self.name]
        command += ["--host", "127.0.0.1", "--port", str(self.port), "--max-model-len", str(self.max_model_len)]
        command += ["--max-num-batched-tokens", str(self.max_model_len)]
        return command + FLAGS + (["--enable-scale-out"] if self.scale_out else []) + list(self.flags)

    def environment(self) -> dict[str, str]:
        # A proxy in the environment must not come between the engine's own processes.
        inherited = {key: value for key, value in os.environ.items() if "proxy" not in key.lower()}
        return {**inherited, **ENVIRONMENT, **({"VLLM_SERVER_DEV_MODE": "1"} if self.dev_mode else {})}

    def start(self) -> Engine:
        return self.launch().wait()

    def launch(self) -> Engine:
        """Start it without waiting; from the main thread, since on Linux it ends with the thread that started it."""
        for needed, what in ((PYTHON, "the engine's environment"), (self.model / "config.json", "the driver model")):
            if not needed.exists():
                raise EngineError(f"{what} is missing ({needed}): run `make engine`")
        self.log = self.log or ROOT / ".cache" / "logs" / f"engine-{self.port}.log"
        self.log.parent.mkdir(parents=True, exist_ok=True)
        self.started = time.monotonic()
        with self.log.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-c", END_WITH_PARENT, *self.command()],
                env=self.environment(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        return self

    def wait(self, timeout: float = START_TIMEOUT) -> Engine:
        """Return when it answers; stop it and raise when it ends or takes too long."""
        assert self.process, "launch it first"
        reported = time.monotonic()
        try:
            while not self.healthy():
                now = time.monotonic()
                if self.process.poll() is not None:
                    raise EngineError(
                        f"vLLM ended with status {self.process.returncode} at its start:\n{self.log_tail()}"
                    )
                if now - self.started > timeout:
                    raise EngineError(f"vLLM did not answer within {timeout:.0f} s:\n{self.log_tail()}")
                if now - reported >= 5:
                    reported = now
                    self.progress(f"engine: starting vLLM, {now - self.started:.0f} s")
                time.sleep(0.2)
        except BaseException:
            self.stop()
            raise
        self.progress(f"engine: vLLM is ready at {self.url} after {time.monotonic() - self.started:.0f} s")
        return self

    def healthy(self) -> bool:
        try:
            with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(self.url + "/health", timeout=5):
                return True
        except (OSError, urllib.error.URLError, http.client.HTTPException):
            return False

    def log_tail(self, lines: int = 30) -> str:
        if self.log is None or not self.log.exists():
            return "(no log)"
        tail = self.log.read_text(errors="replace").splitlines()[-lines:]
        return "\n".join([*tail, f"(the whole log: {self.log})"])

    def stop(self, patience: float = 10.0) -> None:
        """End the server's whole process group: politely, then for certain."""
        if self.process is None:
            return
        for ending, wait in ((signal.SIGTERM, patience), (signal.SIGKILL, 30.0)):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, ending)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(wait)
            if ending == signal.SIGTERM and self._group_is_gone():
                break
        self.process = None

    def _group_is_gone(self) -> bool:
        assert self.process
        deadline = time.monotonic() + 5
        while time.monotonic() < deadline:
            try:
                os.killpg(self.process.pid, 0)
            except ProcessLookupError:
                return True
            time.sleep(0.1)
        return False

    def __enter__(self) -> Engine:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()


@dataclass(frozen=True)
class Running:
    """What a user of the engine needs to know; `process` is None when it was running already."""

    url: str
    model: str
    process: subprocess.Popen[bytes] | None = None


@contextlib.contextmanager
def engine(**options: object) -> Iterator[Running]:
    """The engine at POLAR_ENGINE_URL, else one that lives as long as the block."""
    url = os.environ.get("POLAR_ENGINE_URL", "").rstrip("/")
    if url:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(url + "/v1/models", timeout=30) as answer:
            model = json.load(answer)["data"][0]["id"]
        yield Running(url, model)
    else:
        with Engine(**options) as own:  # type: ignore[arg-type]
            yield Running(own.url, own.name, own.process)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--model", type=Path, default=None)
    parser.add_argument("--name", default="driver")
    parser.add_argument("--max-model-len", type=int, default=CONTEXT)
    parser.add_argument("flags", nargs="*", help="more flags for vLLM, after --")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    server = Engine(
        model=(options.model or driver_model()).resolve(),
        port=options.port or free_port(),
        name=options.name,
        max_model_len=options.max_model_len,
        flags=options.flags,
    )
    try:
        with server:
            print(f"ready {server.url}", flush=True)
            assert server.process
            status = server.process.wait()
            say(f"engine: vLLM ended with status {status}\n{server.log_tail()}")
            return 1
    except EngineError as error:
        say(f"engine: {error}")
        return 1
    except KeyboardInterrupt:
        return 0


if __name__ == "__main__":
    sys.exit(main())
