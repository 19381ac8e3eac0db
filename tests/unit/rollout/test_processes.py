"""A stage's command and everything below it: ended in time, and nothing left."""

import asyncio
import os
import signal
import subprocess
import sys
import time

import pytest

from polar_capture.rollout import processes
from polar_capture.rollout.processes import SUPERVISOR

linux = pytest.mark.skipif(sys.platform != "linux", reason="subreapers are Linux's")


def alive(*seconds):
    """Which of these sleeps are running."""
    return [s for s in seconds if subprocess.run(["pgrep", "-f", f"^sleep {s}$"], capture_output=True).returncode == 0]


async def run(tmp_path, script, seconds=20.0, **more):
    options = {"folder": tmp_path, "environment": dict(os.environ), "output": tmp_path / "out"} | more
    return await processes.run(["sh", "-c", script], seconds=seconds, **options)


@pytest.mark.parametrize(("script", "status"), [("exit 0", 0), ("exit 7", 7), ("kill -9 $$", 137), ("kill $$", 143)])
async def test_statuses_are_a_shells(tmp_path, script, status):
    ended = await run(tmp_path, script)
    assert (ended.status, ended.timed_out) == (status, False)


async def test_a_program_that_is_not_there_is_127_with_its_name(tmp_path):
    ended = await processes.run(
        ["no-such-program"], folder=tmp_path, environment={}, seconds=9, output=tmp_path / "out"
    )
    assert ended.status == 127
    assert "no-such-program" in (tmp_path / "out").read_text()


async def test_output_and_errors_are_kept_and_stdin_is_given(tmp_path):
    await run(tmp_path, "cat; echo bad >&2", stdin=b"told", errors=tmp_path / "err")
    assert (tmp_path / "out").read_text() == "told"
    assert (tmp_path / "err").read_text() == "bad\n"


@linux
async def test_a_daemon_that_the_command_leaves_is_ended(tmp_path):
    assert (await run(tmp_path, "setsid sleep 961 & (setsid sh -c 'sleep 962 & exit' &) ; sleep 0.2")).status == 0
    assert alive(961, 962) == []


@linux
async def test_time_is_up_for_the_whole_tree_even_where_signals_are_ignored(tmp_path, monkeypatch):
    monkeypatch.setattr(processes, "PATIENCE", 0.5)
    begun = time.monotonic()
    ended = await run(tmp_path, "trap '' TERM; setsid sleep 963 & while :; do sleep 964; done", seconds=0.5)
    assert ended.timed_out
    assert time.monotonic() - begun < 10
    assert alive(963, 964) == []


@linux
async def test_cancelling_ends_the_tree(tmp_path):
    task = asyncio.create_task(run(tmp_path, "setsid sleep 965 & sleep 966"))
    while len(alive(965, 966)) < 2:
        await asyncio.sleep(0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert alive(965, 966) == []


@linux
def test_a_killed_parent_takes_the_tree_with_it(tmp_path):
    command = [sys.executable, "-I", "-S", str(SUPERVISOR), "1", "--", "sh", "-c", "setsid sleep 967 & sleep 968"]
    code = f"import subprocess, time; subprocess.Popen({command!r}, start_new_session=True); time.sleep(60)"
    parent = subprocess.Popen([sys.executable, "-c", code])
    try:
        deadline = time.monotonic() + 20
        while len(alive(967, 968)) < 2 and time.monotonic() < deadline:
            time.sleep(0.05)
        assert alive(967, 968) == [967, 968]
    finally:
        parent.send_signal(signal.SIGKILL)
        parent.wait()
    deadline = time.monotonic() + 10
    while alive(967, 968) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert alive(967, 968) == []
