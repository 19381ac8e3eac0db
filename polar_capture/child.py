"""Run the harness: own process group, signals passed on, the terminal handed over, statuses as shells say them."""

import contextlib
import errno
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from types import FrameType

from polar_capture.exits import Exit, Failure
from polar_capture.launch import shell_status

FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


def check_command(command: Sequence[str], environ: Mapping[str, str]) -> None:
    """Raise Failure with status 127 or 126 when the command is not there or cannot be run, as a shell would."""
    name = command[0]
    if shutil.which(name, path=environ.get("PATH", os.defpath)):
        return
    if os.sep in name and os.path.isfile(name):
        raise Failure(f"{name}: not executable", Exit.NOT_EXECUTABLE)
    if os.sep in name and os.path.isdir(name):
        raise Failure(f"{name}: is a folder", Exit.NOT_EXECUTABLE)
    raise Failure(f"{name}: command not found", Exit.NOT_FOUND)


def run(command: Sequence[str], environ: Mapping[str, str], *, kill_rest: bool = False) -> int:
    """Run `command` to its end and give its status (128+n for signal n).

    SIGINT, SIGTERM, SIGHUP and SIGQUIT that we get go to its whole process group. With `kill_rest`, what it left
    running in its group is ended too. Raises Failure with 127 or 126 where it cannot be started.
    """
    terminal = _controlling_terminal()
    with _forwarding() as group:
        try:
            process = subprocess.Popen(list(command), env=dict(environ), process_group=0)
        except FileNotFoundError as error:
            raise Failure(f"{command[0]}: {error.strerror}", Exit.NOT_FOUND) from None
        except OSError as error:
            reason = "no program that this system can run" if error.errno == errno.ENOEXEC else error.strerror
            raise Failure(f"{command[0]}: {reason}", Exit.NOT_EXECUTABLE) from None
        group.follow(process.pid)
        with _foreground(terminal, process.pid):
            status = _wait(process.pid, terminal)
        process.returncode = status  # we have reaped it ourselves, to see stops as well as ends
        if kill_rest:
            end_group(process.pid)
    return shell_status(status)


def finish(command: Sequence[str], environ: Mapping[str, str]) -> None:
    """Run a command that ends what a harness has left running; that there was nothing to end is no fault."""
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        subprocess.run(
            list(command),
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=10,
            check=False,
        )


def end_group(group: int, patience: float = 5.0) -> None:
    """End every process of a group: SIGTERM, and SIGKILL for those still there after `patience` seconds."""
    deadline = time.monotonic() + patience
    for sent in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(group, sent)
            while time.monotonic() < deadline:
                time.sleep(0.05)
                os.killpg(group, 0)


class _Group:
    """The process group that signals go to; those that come before it exists are kept for it."""

    def __init__(self) -> None:
        self._id: int | None = None
        self._early: list[int] = []

    def follow(self, group: int) -> None:
        self._id = group
        for number in self._early:
            self.signal(number)

    def signal(self, number: int) -> None:
        if self._id is None:
            self._early.append(number)
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._id, number)


@contextlib.contextmanager
def _forwarding() -> Iterator[_Group]:
    group = _Group()

    def forward(number: int, frame: FrameType | None) -> None:
        group.signal(number)

    before = {number: signal.signal(number, forward) for number in FORWARDED}
    try:
        yield group
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _controlling_terminal() -> int | None:
    """Descriptor of the terminal whose foreground is ours to give away, or None."""
    try:
        descriptor = sys.stdin.fileno()
        return descriptor if os.tcgetpgrp(descriptor) == os.getpgrp() else None
    except (OSError, ValueError, AttributeError):
        return None


@contextlib.contextmanager
def _foreground(terminal: int | None, group: int) -> Iterator[None]:
    """An interactive harness must be the terminal's foreground group to read keys; we take it back afterwards."""
    if terminal is None:
        yield
        return
    _give(terminal, group)
    try:
        yield
    finally:
        _give(terminal, os.getpgrp())


def _give(terminal: int, group: int) -> None:
    # A background group that calls tcsetpgrp is stopped by SIGTTOU unless it ignores that.
    before = signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    try:
        with contextlib.suppress(OSError):
            os.tcsetpgrp(terminal, group)
    finally:
        signal.signal(signal.SIGTTOU, before)


def _wait(pid: int, terminal: int | None) -> int:
    """Wait for the end; the return code as subprocess counts it (-n for signal n)."""
    while True:
        _, status = os.waitpid(pid, os.WUNTRACED if terminal is not None else 0)
        if not os.WIFSTOPPED(status) or terminal is None:
            return os.waitstatus_to_exitcode(status)
        if os.WSTOPSIG(status) not in (signal.SIGTTIN, signal.SIGTTOU):
            # Ctrl-Z: stop with the harness, so that the shell gets its prompt, and go on with it after `fg`.
            _give(terminal, os.getpgrp())
            os.kill(0, signal.SIGSTOP)
        _give(terminal, pid)
        os.killpg(pid, signal.SIGCONT)
