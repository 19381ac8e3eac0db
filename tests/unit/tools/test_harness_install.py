"""Agents are installed once, whole, whatever happens in the middle."""

import multiprocessing
import os
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest

from polar_capture.harnesses import node
from polar_capture.harnesses.install import InstallError, cache_folder, install_pypi, installed_once, run_logged


def quiet(_: str) -> None:
    pass


def fill(folder: Path) -> None:
    (folder / "program").write_text("whole")


def test_a_folder_is_filled_once(tmp_path: Path) -> None:
    said: list[str] = []
    for _ in range(2):
        folder = installed_once(tmp_path / "cache" / "tool-1", fill, "tool 1", said.append)
        assert (folder / "program").read_text() == "whole"
    assert [line.split(" in ")[0] for line in said] == ["installing tool 1", "installed tool 1"]


def test_a_failed_filling_leaves_nothing(tmp_path: Path) -> None:
    def fail(folder: Path) -> None:
        (folder / "half").touch()
        raise InstallError("no network")

    with pytest.raises(InstallError, match="no network"):
        installed_once(tmp_path / "tool-1", fail, "tool 1", quiet)
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == []
    assert installed_once(tmp_path / "tool-1", fill, "tool 1", quiet).is_dir()


def _count_and_fill(folder: Path) -> None:
    with (folder.parent / "count").open("a") as count:
        count.write("x")
    time.sleep(0.3)
    fill(folder)


def _install(folder: Path) -> None:
    installed_once(folder, _count_and_fill, "tool 1", quiet)


def test_processes_at_the_same_time_install_once(tmp_path: Path) -> None:
    fork = multiprocessing.get_context("spawn")
    processes = [fork.Process(target=_install, args=(tmp_path / "tool-1",)) for _ in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    assert [process.exitcode for process in processes] == [0, 0, 0]
    assert (tmp_path / "count").read_text() == "x"


def _hang_halfway(folder: Path) -> None:
    (folder / "half").touch()
    (folder.parent / "halfway").touch()
    time.sleep(60)


def _install_and_hang(folder: Path) -> None:
    installed_once(folder, _hang_halfway, "tool 1", quiet)


def test_a_killed_installation_is_not_taken_for_a_whole_one(tmp_path: Path) -> None:
    process = multiprocessing.get_context("spawn").Process(target=_install_and_hang, args=(tmp_path / "tool-1",))
    process.start()
    deadline = time.monotonic() + 60
    while not (tmp_path / "halfway").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert process.pid
    os.kill(process.pid, signal.SIGKILL)
    process.join(60)
    assert not (tmp_path / "tool-1").exists()
    folder = installed_once(tmp_path / "tool-1", fill, "tool 1", quiet)  # nor does its lock stay held
    assert sorted(path.name for path in folder.iterdir()) == ["program"]


def test_an_installers_last_words_are_told(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "import sys; print('404 no such version'); sys.exit(7)"]
    with pytest.raises(InstallError, match=r"status 7:\n404 no such version"):
        run_logged("tool 1", command, tmp_path, quiet)


def test_a_slow_installer_shows_signs_of_life(tmp_path: Path) -> None:
    said: list[str] = []
    command = [sys.executable, "-u", "-c", "import time; print('fetching x'); time.sleep(1)"]
    run_logged("tool 1", command, tmp_path, said.append, every=0.4)
    assert any("fetching x" in line for line in said)


def test_the_cache_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("POLAR_CACHE", str(tmp_path))
    assert cache_folder() == tmp_path
    monkeypatch.delenv("POLAR_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "polar-capture"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder() == tmp_path / ".cache" / "polar-capture"


def npm_tree(folder: Path) -> Path:
    """What npm leaves for @team/agent, with a dependency that brings a program, too."""
    modules = folder / "node_modules"
    for package, program, first_line in (
        ("@team/agent", "agent", b"#!/usr/bin/env node\n"),
        ("acorn", "acorn", b"\x7fELF"),
    ):
        (modules / package).mkdir(parents=True)
        (modules / package / "cli").write_bytes(first_line)
        (modules / ".bin").mkdir(exist_ok=True)
        (modules / ".bin" / program).symlink_to(f"../{package}/cli")
    return modules / ".bin"


def test_the_program_is_the_packages_own(tmp_path: Path) -> None:
    programs = npm_tree(tmp_path)
    assert node._program(programs, "@team/agent", None) == programs / "agent"
    assert node._program(programs, "@team/agent", "acorn") == programs / "acorn"


def test_scripts_run_on_our_node_and_binaries_by_themselves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    programs = npm_tree(tmp_path)
    monkeypatch.setattr(node, "node_bin", lambda progress: Path("/our/node"))
    assert node.launch_command(programs / "agent") == ["/our/node", str(programs / "agent")]
    assert node.launch_command(programs / "acorn") == [str(programs / "acorn")]


@pytest.fixture
def empty_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package `agent` 1.0 in a folder that pip looks into, and no other place to find one."""
    metadata = "Metadata-Version: 2.1\nName: agent\nVersion: 1.0\n"
    with zipfile.ZipFile(tmp_path / "agent-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("agent.py", "def main(): print('hello')\n")
        wheel.writestr("agent-1.0.dist-info/METADATA", metadata)
        wheel.writestr("agent-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr("agent-1.0.dist-info/entry_points.txt", "[console_scripts]\nagent = agent:main\n")
        wheel.writestr("agent-1.0.dist-info/RECORD", "")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("POLAR_CACHE", str(tmp_path / "cache with a space"))


@pytest.mark.usefixtures("empty_package")
def test_a_python_agent_gets_an_environment_of_its_own(tmp_path: Path) -> None:
    program = install_pypi("agent", "1.0", "agent", progress=quiet)
    assert subprocess.run([program], capture_output=True, text=True, check=True).stdout == "hello\n"
    with pytest.raises(InstallError, match="No matching distribution"):
        install_pypi("agent", "2.0", "agent", progress=quiet)
    left = [path.name for path in (tmp_path / "cache with a space" / "pypi").iterdir() if path.is_dir()]
    assert sorted(left) == ["agent-1.0", "agent-1.0.environment"]
