"""`serve`, `mitmdump -s` and `mitmweb -s` as processes, and plain clients of theirs."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import requests

from polar_capture import ready

BIN = Path(sys.executable).parent
BODY = {"model": "m", "max_tokens": 64, "messages": [{"role": "user", "content": "hi"}]}
URL = "https://api.anthropic.com/v1/messages"


class Process:
    """A started proxy. `log` is its stderr so far."""

    def __init__(self, process: subprocess.Popen[str], home: Path, log: Path, facts: ready.Ready | None) -> None:
        self.process, self.home, self._log = process, home, log
        self.facts = facts

    @property
    def log(self) -> str:
        return self._log.read_text()

    @property
    def ca(self) -> Path:
        return self.home / "ca" / "mitmproxy-ca-cert.pem"

    def stop(self, number: int = signal.SIGTERM) -> int:
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.process.wait(60)

    def post(self, *, session: str = "s1", url: str = URL, body: Any = BODY, proxy: str | None = None, **options: Any):
        proxy = proxy or (self.facts.proxy if self.facts else "")
        return requests.post(
            url,
            json=body,
            proxies={"https": proxy.replace("://", f"://{session}:@"), "http": proxy},
            verify=options.pop("verify", str(self.ca)),
            timeout=60,
            **options,
        )


def environment(**extra: str) -> dict[str, str]:
    """Nothing of the caller's shell but what Python needs."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "TZ") if name in os.environ}
    return kept | {"HOME": "/nonexistent", "PYTHONUNBUFFERED": "1"} | extra


@contextlib.contextmanager
def serve(upstream: str, folder: Path, *options: str, **extra: str) -> Iterator[Process]:
    """`polar-capture serve` on a free port, ready."""
    home, log = folder / "home", folder / "serve.log"
    command = [sys.executable, "-m", "polar_capture", "serve", "--port", "0", "--upstream", upstream]
    command += ["--db", str(folder / "polar.db"), "--home", str(home), *options]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=log.open("w"), text=True, env=environment(**extra)
    )
    started = Process(process, home, log, None)
    try:
        assert process.stdout is not None
        for line in process.stdout:
            started.facts = ready.parse(line)
            if started.facts:
                break
        threading.Thread(target=process.stdout.read, daemon=True).start()
        yield started
    finally:
        started.stop()


@contextlib.contextmanager
def mitm(tool: str, upstream: str, folder: Path, port: int, *options: str, **changed: str) -> Iterator[Process]:
    """`mitmdump` or `mitmweb` with our script; its confdir is the home's, as the README says."""
    from polar_capture import resources

    home, log = folder / "home", folder / f"{tool}.log"
    settings = {
        "confdir": home / "ca",
        "polar_upstream": upstream,
        "polar_db": folder / "polar.db",
        "polar_home": home,
        "polar_egress": "block",
    } | changed
    command = [str(BIN / tool), "-s", str(resources.addon_script()), "-p", str(port), "--listen-host", "127.0.0.1"]
    for name, value in settings.items():
        command += ["--set", f"{name}={value}"]
    process = subprocess.Popen([*command, *options], stdout=log.open("w"), stderr=subprocess.STDOUT, env=environment())
    try:
        yield Process(process, home, log, None)
    finally:
        process.terminate()
        process.wait(60)


def rows(folder: Path, session: str = "s1") -> list[dict[str, Any]]:
    """What the command line shows of a session."""
    command = [
        sys.executable,
        "-m",
        "polar_capture",
        "calls",
        session,
        "--json",
        "--tokens",
        "--db",
        str(folder / "polar.db"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(), timeout=60)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
