"""Run the command of a stage with a time limit, and leave nothing of it running."""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

SUPERVISOR = Path(__file__).with_name("supervisor.py")

PATIENCE = 3.0
"""Seconds between SIGTERM and SIGKILL."""

_SURE = 10.0
"""Seconds after which even the supervisor counts as stuck."""


class Ended(msgspec.Struct, frozen=True):
    """How a command ended: its status as shells say it, or that its time was up."""

    status: int
    timed_out: bool = False


async def run(
    command: Sequence[str],
    *,
    folder: Path,
    environment: Mapping[str, str],
    seconds: float,
    output: Path,
    errors: Path | None = None,
    stdin: bytes | None = None,
    jail: str | None = None,
) -> Ended:
    """Run to the end or for so many seconds; when this returns, is cancelled or raises, the whole tree is dead.

    stdout goes to `output`, stderr to `errors` (None: to the same file), both appended. `jail` is `SOCKET:PORT`.
    OSError where no process can be made.
    """
    walls = ["--jail", jail] if jail else []
    argv = [sys.executable, "-I", "-S", str(SUPERVISOR), str(PATIENCE), *walls, "--", *command]
    with output.open("ab") as out, errors.open("ab") if errors else contextlib.nullcontext(out) as err:
        process = await asyncio.create_subprocess_exec(
            *argv,
            cwd=folder,
            env=dict(environment),
            stdin=asyncio.subprocess.DEVNULL if stdin is None else asyncio.subprocess.PIPE,
            stdout=out,
            stderr=err,
            start_new_session=True,  # Ctrl-C at the terminal is ours to pass on
        )
    try:
        async with asyncio.timeout(seconds):
            if stdin is not None:
                await process.communicate(stdin)
            return Ended(_shell_status(await process.wait()))
    except TimeoutError:
        await _end(process)
        return Ended(128 + signal.SIGTERM, timed_out=True)
    finally:
        if process.returncode is None:
            await asyncio.shield(_end(process))


async def _end(process: asyncio.subprocess.Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.terminate()
    try:
        await asyncio.wait_for(process.wait(), PATIENCE + _SURE)
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()


def _shell_status(returncode: int) -> int:
    return 128 - returncode if returncode < 0 else returncode
