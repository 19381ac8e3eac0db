"""Runs one command as the ancestor of everything that it starts, and ends only when all of that is dead.

    python -I -S supervisor.py PATIENCE [--jail SOCKET:PORT] -- COMMAND…

A file of its own that imports nothing of ours and little else (contextlib alone would take as long as Python's start),
because one is started for each stage of each sample. On Linux it is a
subreaper: a daemon that leaves its process group becomes its child, and is found. It ends, with all below it, on
SIGTERM and when its own parent dies. Its status is the command's, as shells say it.
"""

import ctypes
import os
import select
import signal
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

LINUX = sys.platform == "linux"
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
NOT_EXECUTABLE, NOT_FOUND = 126, 127


def main() -> int:
    parent = os.getppid()
    patience = float(sys.argv[1])
    split = sys.argv.index("--")
    jail, command = sys.argv[2:split], sys.argv[split + 1 :]
    if LINUX:
        process_control = ctypes.CDLL(None, use_errno=True).prctl
        process_control(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        process_control(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
        if os.getppid() != parent:
            return 1
    woken = waker()
    serve = None
    if jail:
        sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
        import jail as walls  # type: ignore[import-not-found]

        serve = walls.enter(jail[1])
    child = start(command)
    if serve is not None:
        serve()
    status, stopped = wait(child, woken)
    end_all(child, patience if stopped else min(patience, 1.0), woken)
    return 128 + signal.SIGTERM if status is None else status


def waker() -> int:
    """A descriptor that is readable when a signal came: children's ends, and orders to stop."""
    reader, writer = os.pipe()
    for end in (reader, writer):
        os.set_blocking(end, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: None)
    return reader


def start(command: list[str]) -> int:
    child = os.fork()
    if child:
        attempt(os.setpgid, child, child)
        return child
    try:
        os.setpgid(0, 0)
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
            signal.signal(number, signal.SIG_DFL)
        os.execvp(command[0], command)
    except OSError as error:
        os.write(2, f"{command[0]}: {error.strerror}\n".encode())
        os._exit(NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_EXECUTABLE)
    os._exit(NOT_EXECUTABLE)


def wait(child: int, woken: int) -> "tuple[int | None, bool]":
    """The child's status, None while it still lives; and whether we were told to stop."""
    while True:
        _, ended = reap(child)
        if ended is not None:
            return ended, False
        select.select([woken], [], [], 1.0)
        if signals(woken) - {signal.SIGCHLD}:
            return reap(child)[1], True


def reap(child: int) -> "tuple[bool, int | None]":
    """Whether children are left, and the status of `child` if it was among those that have ended."""
    status = None
    while True:
        try:
            ended, code = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return False, status
        if ended == 0:
            return True, status
        if ended == child:
            code = os.waitstatus_to_exitcode(code)
            status = 128 - code if code < 0 else code


def end_all(child: int, patience: float, woken: int) -> None:
    """SIGTERM to all that is left, SIGKILL after `patience` seconds until nothing is left."""
    deadline = time.monotonic() + patience
    sent = signal.SIGTERM
    told: set[int] = set()
    while reap(child)[0]:
        if time.monotonic() > deadline:
            sent = signal.SIGKILL
        living = descendants() if LINUX else set()
        for process in living if sent == signal.SIGKILL else living - told:
            attempt(os.kill, process, sent)
        if not LINUX or (sent not in told and sent == signal.SIGTERM):
            attempt(os.killpg, child, sent)
            told.add(sent)
        told |= living
        select.select([woken], [], [], 0.05)
        signals(woken)
    if not LINUX:
        attempt(os.killpg, child, signal.SIGKILL)


def attempt(call: "Callable[[int, int], None]", process: int, value: int) -> None:
    """Call it for a process that may have ended meanwhile."""
    try:
        call(process, value)
    except OSError:
        return


def signals(woken: int) -> "set[int]":
    """The signals that came since the last look."""
    try:
        return set(os.read(woken, 4096))
    except BlockingIOError:
        return set()


def descendants() -> "set[int]":
    """Every process below this one."""
    parents = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    parents[int(name)] = int(file.read().rpartition(b")")[2].split()[1])
            except (OSError, ValueError, IndexError):
                continue
    found: set[int] = set()
    added = {os.getpid()}
    while added:
        added = {process for process, parent in parents.items() if parent in added and process not in found}
        found |= added
    return found


if __name__ == "__main__":
    os._exit(main())  # nothing is left to tidy up
