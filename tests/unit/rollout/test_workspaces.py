"""Workspaces: what fails before anything is sampled is a fault below the agent, in words; nothing leaves its folder."""

import errno
import io
import os
import tarfile

import pytest

from polar_capture.exits import Failure
from polar_capture.harnesses.install import InstallError
from polar_capture.rollout import agents, workspaces
from polar_capture.rollout.problems import InfrastructureFault
from polar_capture.rollout.tasks import checked
from polar_capture.rollout.workspaces import Folders


async def prepare(tmp_path, seconds=20.0, **task):
    folders = Folders(tmp_path / "sample")
    (task,) = checked([{"id": "t", "prompt": "p", **task}])
    await workspaces.prepare(task, folders, dict(os.environ), seconds)
    return folders


async def test_each_attempt_begins_with_empty_folders(tmp_path):
    folders = await prepare(tmp_path)
    (folders.work / "left").touch()
    (folders.home / ".left").touch()
    folders = await prepare(tmp_path)
    assert list(folders.work.iterdir()) == list(folders.home.iterdir()) == []
    assert folders.work.stat().st_mode & 0o777 == 0o700


async def test_a_copy_leaves_the_original_alone(tmp_path):
    (tmp_path / "given").mkdir()
    (tmp_path / "given" / "f").write_text("old")
    folders = await prepare(tmp_path, workspace=str(tmp_path / "given"), setup=["echo new > f"])
    assert (folders.work / "f").read_text() == "new\n"
    assert (tmp_path / "given" / "f").read_text() == "old"


async def test_a_tarball_cannot_write_outside(tmp_path):
    with tarfile.open(tmp_path / "bad.tar", "w") as archive:
        member = tarfile.TarInfo("../../stolen")
        member.size = 1
        archive.addfile(member, io.BytesIO(b"x"))
    with pytest.raises(InfrastructureFault, match="outside"):
        await prepare(tmp_path, workspace=str(tmp_path / "bad.tar"))
    assert not (tmp_path / "stolen").exists()


async def test_a_commit_that_is_not_there_is_told_in_gits_words(tmp_path):
    with pytest.raises(InfrastructureFault, match="setup ended with status 128: "):
        await prepare(tmp_path, workspace={"git": str(tmp_path / "none"), "commit": "abc"})


async def test_a_setup_that_takes_too_long_is_ended(tmp_path):
    with pytest.raises(InfrastructureFault, match=r"setup took longer than 0\.3 s: sleep 60"):
        await prepare(tmp_path, seconds=0.3, setup="sleep 60")


async def test_a_full_disk_is_a_fault_below_the_agent(tmp_path, monkeypatch):
    def full(*_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    (tmp_path / "given").mkdir()
    monkeypatch.setattr(workspaces.shutil, "copytree", full)
    with pytest.raises(InfrastructureFault, match="No space left on device"):
        await prepare(tmp_path, workspace=str(tmp_path / "given"))


async def test_even_folders_that_their_owner_cannot_write_are_removed(tmp_path):
    folders = await prepare(tmp_path, setup="mkdir -p a/b && touch a/b/c && chmod 500 a/b a")
    folders.remove()
    assert not folders.root.exists()


def test_a_harness_that_cannot_be_installed_is_told_before_anything_starts(monkeypatch):
    def fail(*_, **__):
        raise InstallError("the registry does not answer")

    monkeypatch.setattr(agents.versions, "install", fail)
    with pytest.raises(Failure, match="harness pi is not installed and could not be: the registry does not answer"):
        agents.preset_agent("pi")


def test_an_own_command_gets_the_prompt_where_it_says_so_or_last(tmp_path):
    (task,) = checked([{"id": "t", "prompt": "do it", "env": {"A": "b"}}])
    last = agents.OwnCommand(["sh", "-c"]).launch(task, tmp_path)
    placed = agents.OwnCommand(["sh", "-c", "echo {prompt}!", "x"]).launch(task, tmp_path)
    assert last.command == ("sh", "-c", "do it")
    assert placed.command == ("sh", "-c", "echo do it!", "x")
    assert last.environment == {"HOME": str(tmp_path), "A": "b"}
