"""`top` on a terminal: a real pseudo-terminal, read back by a terminal emulator, over a real proxy."""

import asyncio
import contextlib
import fcntl
import os
import pty
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyte

from tests.double.server import Double
from tests.proxying import TOKEN, proxy
from tests.unit.process.serving import serve
from tests.unit.proxy.dialect_calls import CALLS

OTHER_SCREEN, OWN_SCREEN = b"\x1b[?1049h", b"\x1b[?1049l"
HIDE, SHOW = b"\x1b[?25l", b"\x1b[?25h"
PATIENCE = 30.0


class Terminal:
    """A program on a pseudo-terminal of `columns` x `lines`; `raw` is all that it has written."""

    def __init__(self, command: list[str], environment: dict[str, str], columns: int, lines: int) -> None:
        self.master, own = pty.openpty()
        fcntl.ioctl(own, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        self.modes = termios.tcgetattr(own)
        self.screen = pyte.Screen(columns, lines)
        self._stream = pyte.ByteStream(self.screen)
        self.raw = b""
        self.program = subprocess.Popen(
            command,
            stdin=own,
            stdout=own,
            stderr=own,
            env=environment,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        self._own = own  # kept open: its modes are asked for when the program has ended

    def read(self) -> str:
        """What the screen shows now."""
        os.set_blocking(self.master, False)
        with contextlib.suppress(BlockingIOError):
            while written := os.read(self.master, 65536):
                self.raw += written
                self._stream.feed(written)
        return "\n".join(line.rstrip() for line in self.screen.display).rstrip()

    async def until(self, look: Callable[[str], bool]) -> str:
        end = time.monotonic() + PATIENCE
        while not look(shown := self.read()):
            assert time.monotonic() < end, shown
            await asyncio.sleep(0.05)
        return shown

    async def end(self, *, key: bytes = b"", by: int = 0) -> int:
        """Press a key, or send a signal; the program's status."""
        if by:
            self.program.send_signal(by)
        os.write(self.master, key)
        status = await asyncio.to_thread(self.program.wait, PATIENCE)
        self.read()
        return status

    def modes_now(self) -> list[object]:
        return termios.tcgetattr(self._own)

    def close(self) -> None:
        if self.program.poll() is None:
            self.program.kill()
            self.program.wait()
        os.close(self.master)
        os.close(self._own)


@contextlib.contextmanager
def top(url: str, home: Path, columns: int = 120, lines: int = 24) -> Iterator[Terminal]:
    command = [sys.executable, "-m", "polar_capture", "top", "--proxy", url, "--interval", "0.2", "--home", str(home)]
    given = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES", "CI")}
    terminal = Terminal(command, {**given, "TERM": "xterm-256color", "POLAR_CONTROL_TOKEN": TOKEN}, columns, lines)
    try:
        yield terminal
    finally:
        terminal.close()


def is_clean(terminal: Terminal) -> bool:
    """Whether the program left the terminal as it found it: own screen, cursor seen, modes as before."""
    left, shown = terminal.raw.rfind(OWN_SCREEN), terminal.raw.rfind(SHOW)
    return (
        left > terminal.raw.rfind(OTHER_SCREEN) >= 0
        and shown > terminal.raw.rfind(HIDE) >= 0
        and terminal.modes_now() == terminal.modes
    )


async def test_the_screen_follows_the_proxy_and_ctrl_c_leaves_a_clean_terminal():
    url, call = CALLS["openai_chat"].asking("hi")
    async with Double() as vllm, proxy(vllm.url) as running:
        with top(running.url, running.folder / "home") as terminal:
            shown = await terminal.until(lambda text: "0 sessions" in text)
            assert "not trainable: none" in shown
            await running.answer("POST", url, json=call)
            shown = await terminal.until(lambda text: "s1" in text)
            assert "1 sessions" in shown
            row = next(line for line in shown.splitlines() if line.startswith("s1"))
            assert " 1 " in row, "its one call"
            await running.answer("POST", url, json=call, session="s2")
            shown = await terminal.until(lambda text: "s2" in text)
            assert shown.count("session") == 2, "one headline and one table: each look replaces the one before"
            assert await terminal.end(key=b"\x03") == 0
            assert is_clean(terminal)
            assert b"Traceback" not in terminal.raw
            assert b"interrupted" not in terminal.raw


async def test_a_terminated_top_leaves_a_clean_terminal_too():
    async with Double() as vllm, proxy(vllm.url) as running:
        with top(running.url, running.folder / "home") as terminal:
            await terminal.until(lambda text: "0 sessions" in text)
            assert await terminal.end(by=signal.SIGTERM) == 143
            assert is_clean(terminal)


async def test_a_small_terminal_keeps_each_session_on_one_line_and_counts_the_rest():
    url, call = CALLS["openai_chat"].asking("hi")
    async with Double() as vllm, proxy(vllm.url) as running:
        for number in range(8):
            await running.answer("POST", url, json=call, session=f"a-session-with-a-long-name-{number}")
        with top(running.url, running.folder / "home", columns=80, lines=10) as terminal:
            shown = await terminal.until(lambda text: "more sessions" in text)
            assert "… 4 more sessions" in shown
            rows = [line for line in shown.splitlines() if line.startswith("a-")]
            assert len(rows) == 4
            assert all("…" in row for row in rows)
            assert "not trainable" in shown
            await terminal.end(key=b"\x03")


async def test_a_proxy_that_goes_away_is_said_and_one_that_comes_back_is_shown(tmp_path: Path):
    async with Double() as vllm:
        with serve(vllm.url, tmp_path, POLAR_CONTROL_TOKEN=TOKEN) as first:
            assert first.facts is not None
            url = first.facts.proxy
            with top(url, tmp_path / "home") as terminal:
                await terminal.until(lambda text: "0 sessions" in text)
                await asyncio.to_thread(first.stop)
                shown = await terminal.until(lambda text: "no proxy answers at" in text)
                assert "0 sessions" in shown
                with serve(vllm.url, tmp_path, "--port", url.rpartition(":")[2], POLAR_CONTROL_TOKEN=TOKEN):
                    await terminal.until(lambda text: "no proxy answers at" not in text and "0 sessions" in text)
                    assert await terminal.end(key=b"\x03") == 0
                assert is_clean(terminal)
