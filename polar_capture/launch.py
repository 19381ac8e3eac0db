"""Start a `serve` process of our own, wait until it takes calls, and stop it so that nothing is lost."""

import contextlib
import queue
import signal
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, TypeVar

import msgspec

from polar_capture.config import ServeConfig
from polar_capture.exits import Exit, Failure
from polar_capture.ready import Ready, parse

T = TypeVar("T")

START_PATIENCE = 120.0
"""Seconds until the ready line must be there: importing the proxy takes seconds on a loaded machine."""

DRAIN_PATIENCE = 60.0
"""Seconds that a stopping proxy has to write what it holds."""

SERVE = (sys.executable, "-m", "polar_capture", "serve")

_END = object()


def serve_arguments(config: ServeConfig) -> list[str]:
    """The options of `serve` that make this configuration, but for what `serve_environment` carries."""
    arguments = [
        *("--host", config.host),
        *("--port", str(config.port)),
        *("--control-port", str(config.control_port)),
        *("--egress", config.egress),
        *("--continuation", config.continuation),
        *("--continuation-thinking", config.continuation_thinking),
        *("--header-grace", repr(config.header_grace)),
        *("--session-idle", repr(config.session_idle)),
        *("--policy-version", str(config.policy_version)),
        *("--workers", str(config.workers)),
        *("--codex-tools", config.codex_tools),
        *("--overflow-limit", str(config.overflow_limit)),
    ]
    optional = {
        "--model": config.model,
        "--gateway-port": config.gateway_port,
        "--spool": config.spool,
        "--tokenizer": config.tokenizer,
        "--policy-label": config.policy_label,
        "--rules": config.rules,
        "--assumed-window": config.assumed_window,
        "--sampling": ",".join(f"{name}={value!r}" for name, value in config.sampling.items()) or None,
    }
    for option, value in optional.items():
        if value is not None:
            arguments += [option, str(value)]
    for host in config.provider_hosts:
        arguments += ["--provider-host", host]
    arguments += ["--web"] if config.web else []
    arguments += [] if config.websockets else ["--no-websockets"]
    arguments += ["--strict-sessions"] if config.strict_sessions else []
    return arguments


def serve_environment(config: ServeConfig, environ: Mapping[str, str]) -> dict[str, str]:
    """The environment of `serve`: what may be secret goes here and not on a command line that every user can list."""
    result = {
        **environ,
        "POLAR_UPSTREAM": " ".join(config.upstreams),
        "POLAR_DB": config.db,
        "POLAR_HOME": str(config.home),
    }
    for name, secret in {"POLAR_KEY": config.key, "POLAR_CONTROL_TOKEN": config.control_token}.items():
        result.pop(name, None)
        if secret is not None:
            result[name] = secret
    return result


class ProxyProcess:
    """A running `serve`. Ends by itself when this process dies, since it watches its stdin (`--until-stdin-closes`)."""

    def __init__(self, process: "subprocess.Popen[str]", ready: Ready, log: Path | None) -> None:
        self.process = process
        self.ready = ready
        self.log = log

    @property
    def pid(self) -> int:
        return self.process.pid

    def died(self) -> int | None:
        """Its exit status where it has ended, else None."""
        status = self.process.poll()
        return None if status is None else shell_status(status)

    def stop(self, patience: float = DRAIN_PATIENCE) -> int:
        """Ask it to drain and end; its exit status. One that does not end in time is killed, and that is a Failure."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return shell_status(self.process.wait(patience))
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            where = f"; its log: {self.log}" if self.log else ""
            raise Failure(f"the proxy did not stop within {patience:g} s and was killed{where}") from None


def start_proxy(
    config: ServeConfig,
    log: Path | None,
    environ: Mapping[str, str],
    *,
    command: Sequence[str] = SERVE,
    patience: float = START_PATIENCE,
) -> ProxyProcess:
    """Start `serve` with this configuration and wait for its ready line; its stderr goes to `log`, else to ours.

    Raises Failure with the log's tail when it ends before it is ready (statuses 2, 4 and 5 are kept) or takes too long.
    """
    with log.open("ab") if log else contextlib.nullcontext() as stderr:
        process = subprocess.Popen(
            [*command, *serve_arguments(config), "--until-stdin-closes"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            env=serve_environment(config, environ),
            text=True,
            start_new_session=True,  # Ctrl-C at the terminal is for the harness; the proxy must outlive it to drain
        )
    try:
        ready = _await_ready(process, log, patience)
    except BaseException:
        if process.poll() is None:
            process.kill()
            process.wait()
        raise
    return ProxyProcess(process, ready, log)


def _await_ready(process: "subprocess.Popen[str]", log: Path | None, patience: float) -> Ready:
    lines: queue.Queue[object] = queue.Queue()
    assert process.stdout is not None
    threading.Thread(target=_read_lines, args=(process.stdout, lines), daemon=True).start()
    deadline = time.monotonic() + patience
    while True:
        try:
            line = lines.get(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            raise Failure(f"the proxy was not ready within {patience:g} s{_tail(log)}") from None
        if line is _END:
            status = shell_status(process.wait())
            kept = (Exit.USAGE, Exit.NO_IDS, Exit.DATABASE)
            raise Failure(
                f"the proxy ended before it was ready (status {status}){_tail(log)}",
                status if status in kept else Exit.FAULT,
            )
        try:
            ready = parse(str(line))
        except msgspec.ValidationError as error:
            raise Failure(
                f"the proxy printed a ready line that cannot be read ({error}): {str(line).strip()}"
            ) from None
        if ready is not None:
            return ready


def _read_lines(stream: IO[str], lines: "queue.Queue[object]") -> None:
    # Read to the end even after the ready line, so that no print of the proxy ever blocks on a full pipe.
    for line in stream:
        lines.put(line)
    lines.put(_END)


def _tail(log: Path | None, lines: int = 15) -> str:
    """The end of a log as a suffix for messages."""
    if log is None:
        return ""
    kept = [line for line in log.read_text(errors="replace").splitlines() if line.strip()][-lines:]
    return "".join(f"\n  | {line}" for line in kept) or f"; it wrote nothing to {log}"


def shell_status(returncode: int) -> int:
    """A subprocess return code as shells say it: 128+n for signal n."""
    return Exit.SIGNALLED - returncode if returncode < 0 else returncode


def worker_for(session: str, proxies: Sequence[T]) -> T:
    """Which of several workers serves a session: the same one each time, on every machine."""
    return proxies[zlib.crc32(session.encode()) % len(proxies)]
