"""The harness as a child: statuses, signals, process group, terminal."""

import os
import pty
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from polar_capture import child
from polar_capture.exits import Failure

ENVIRON = {"PATH": os.environ["PATH"]}


@pytest.mark.parametrize(
    ("script", "status"),
    [("exit 0", 0), ("exit 1", 1), ("exit 42", 42), ("kill -TERM $$", 143), ("kill -KILL $$", 137), ("exit 255", 255)],
)
def test_statuses_are_those_of_a_shell(script: str, status: int) -> None:
    assert child.run(["sh", "-c", script], ENVIRON) == status


def test_the_environment_is_the_one_given(tmp_path: Path) -> None:
    child.run(["sh", "-c", f"env > {tmp_path}/env"], {**ENVIRON, "ONLY": "this"})
    lines = (tmp_path / "env").read_text().splitlines()
    assert "ONLY=this" in lines
    assert not [line for line in lines if line.startswith("HOME=")]


@pytest.mark.parametrize(("name", "status"), [("no-such-program-here", 127), ("./gone", 127), ("/", 126)])
def test_a_command_that_is_not_there(name: str, status: int) -> None:
    with pytest.raises(Failure) as failed:
        child.check_command([name], ENVIRON)
    assert failed.value.status == status
    assert name in str(failed.value)


def test_a_file_that_is_no_program_is_126(tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("hello")
    with pytest.raises(Failure, match="not executable") as failed:
        child.check_command([str(file)], ENVIRON)
    assert failed.value.status == 126
    file.chmod(0o755)
    file.write_bytes(b"\x00\x01")
    with pytest.raises(Failure) as failed:
        child.run([str(file)], ENVIRON)
    assert failed.value.status == 126


def test_a_missing_interpreter_is_127(tmp_path: Path) -> None:
    file = tmp_path / "tool"
    file.write_text("#!/no/such/interpreter\n")
    file.chmod(0o755)
    with pytest.raises(Failure) as failed:
        child.run([str(file)], ENVIRON)
    assert failed.value.status == 127


def runner(code: str, **options: object) -> "subprocess.Popen[str]":
    """A process that runs `child.run(ARGUMENTS)`, to be signalled."""
    program = f"import sys; from polar_capture import child; sys.exit(child.run({code}))"
    return subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, **options)  # type: ignore[call-overload]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_signals_reach_the_whole_group(number: signal.Signals) -> None:
    script = "(trap 'echo inner; exit' TERM INT HUP; echo up; while :; do sleep 0.05; done) & wait"
    process = runner(f"['bash', '-c', {script!r}], {ENVIRON!r}")
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    process.send_signal(number)
    rest = process.stdout.read()
    if number is not signal.SIGINT:  # a shell's background job ignores SIGINT
        assert rest == "inner\n"
    assert process.wait() == 128 + number


def test_a_harness_may_survive_a_signal_and_end_as_it_likes() -> None:
    process = runner(f"['sh', '-c', 'trap \"exit 7\" TERM; echo up; while :; do sleep 0.05; done'], {ENVIRON!r}")
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    process.terminate()
    assert process.wait() == 7


def test_what_it_left_running_is_ended_when_asked(tmp_path: Path) -> None:
    script = f"(trap '' TERM; while :; do date >> {tmp_path}/alive; sleep 0.05; done) & sleep 0.2; exit 3"
    assert child.run(["sh", "-c", script], ENVIRON, kill_rest=True) == 3
    size = (tmp_path / "alive").stat().st_size
    time.sleep(0.3)
    assert (tmp_path / "alive").stat().st_size == size


def read_until(descriptor: int, mark: bytes, seconds: float = 10) -> bytes:
    seen = b""
    deadline = time.monotonic() + seconds
    while mark not in seen:
        assert time.monotonic() < deadline, seen
        if select.select([descriptor], [], [], 0.1)[0]:
            try:
                seen += os.read(descriptor, 1024)
            except OSError:
                break
    return seen


def test_an_interactive_harness_owns_the_terminal() -> None:
    """It reads keys, Ctrl-C is for it alone, and we get the terminal back."""
    script = "trap 'echo caught' INT; read line; echo got $line; read line; echo then $line"
    code = f"import sys; from polar_capture import child; s = child.run(['bash', '-c', {script!r}], {ENVIRON!r}); "
    code += "print('back', sys.stdin.readline().strip(), s)"
    pid, descriptor = pty.fork()
    if pid == 0:
        os.execv(sys.executable, [sys.executable, "-c", code])
    time.sleep(1.0)
    os.write(descriptor, b"one\n")
    read_until(descriptor, b"got one")
    os.write(descriptor, b"\x03")
    read_until(descriptor, b"caught")
    os.write(descriptor, b"two\n")
    read_until(descriptor, b"then")
    os.write(descriptor, b"three\n")
    assert b"back three 0" in read_until(descriptor, b"back three 0")
    os.waitpid(pid, 0)
    os.close(descriptor)


def test_ctrl_z_stops_both_and_fg_goes_on() -> None:
    code = "import sys; from polar_capture import child; print('up', flush=True);"
    code += f"print('end', child.run(['sh', '-c', 'echo in; read x; echo got $x'], {ENVIRON!r}))"
    pid, descriptor = pty.fork()
    if pid == 0:
        # A shell with job control between the terminal and us, as people have one.
        os.execvp("bash", ["bash", "-mc", '"$0" -c "$1"; echo stopped $?; fg; echo done', sys.executable, code])
    read_until(descriptor, b"in\r\n")
    time.sleep(0.3)
    os.write(descriptor, b"\x1a")
    read_until(descriptor, b"stopped")
    os.write(descriptor, b"x\n")
    assert b"got x" in read_until(descriptor, b"done")
    os.waitpid(pid, 0)
    os.close(descriptor)
