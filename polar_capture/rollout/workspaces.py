"""A sample's folders: `work`, where the agent starts; `home`, its HOME; `reward`, for the evaluator alone."""

import asyncio
import os
import shutil
import tarfile
import tempfile
from collections.abc import Mapping
from pathlib import Path

import msgspec

from polar_capture.rollout import processes
from polar_capture.rollout.problems import InfrastructureFault
from polar_capture.rollout.tasks import Task, Workspace


class Folders(msgspec.Struct, frozen=True):
    """Where one sample lives; everything of it is below `root`."""

    root: Path

    @property
    def work(self) -> Path:
        return self.root / "work"

    @property
    def home(self) -> Path:
        return self.root / "home"

    @property
    def reward(self) -> Path:
        return self.root / "reward"

    def log(self, stage: str) -> Path:
        return self.root / f"{stage}.log"

    def make(self) -> None:
        """New and empty, whatever an earlier attempt has left."""
        shutil.rmtree(self.root, ignore_errors=True)
        for folder in (self.root, self.work, self.home):
            folder.mkdir(mode=0o700, parents=True)

    def remove(self) -> None:
        shutil.rmtree(self.root, ignore_errors=True)
        if self.root.exists():  # an agent may have made folders that even their owner cannot write
            for folder, _, _ in os.walk(self.root):
                os.chmod(folder, 0o700)
            shutil.rmtree(self.root, ignore_errors=True)


def default_root() -> Path:
    """Outside of any repository, so that an agent's git finds none but its own, and not beside our secrets."""
    return Path(tempfile.gettempdir()) / f"polar-rollouts-{os.getuid()}"


async def prepare(task: Task, folders: Folders, environment: Mapping[str, str], seconds: float) -> None:
    """Fill `work` and run the setup commands in it. InfrastructureFault with the log's end where one of them fails:
    nothing was sampled yet, so all of it may be tried again."""
    log = folders.log("prepare")
    try:
        folders.make()
        await asyncio.to_thread(_fill, task.start, folders.work)
    except (OSError, tarfile.TarError) as error:
        raise InfrastructureFault(f"workspace: {error}") from error
    for command in [*_clone(task.start), *(["sh", "-c", text] for text in task.setup_commands)]:
        ended = await processes.run(command, folder=folders.work, environment=environment, seconds=seconds, output=log)
        if ended.timed_out:
            raise InfrastructureFault(f"setup took longer than {seconds:g} s: {command[-1]}{tail(log)}")
        if ended.status:
            raise InfrastructureFault(f"setup ended with status {ended.status}: {command[-1]}{tail(log)}")


def _fill(start: Workspace, work: Path) -> None:
    if start.folder:
        shutil.copytree(start.folder, work, symlinks=True, dirs_exist_ok=True)
    if start.tarball:
        with tarfile.open(start.tarball) as archive:
            archive.extractall(work, filter="tar")  # nothing outside of `work`


def _clone(start: Workspace) -> list[list[str]]:
    if not (start.git and start.commit):
        return []
    # No remote is kept: the agent could fetch the commit that solves its task.
    return [
        ["git", "clone", "--quiet", "--no-checkout", start.git, "."],
        ["git", "checkout", "--quiet", "--detach", start.commit],
        ["git", "remote", "remove", "origin"],
    ]


def tail(log: Path, lines: int = 5) -> str:
    """The end of a log as a suffix for messages."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - 4096))
            kept = [line for line in file.read().decode(errors="replace").splitlines() if line.strip()][-lines:]
    except OSError:
        return ""
    return "".join(f"\n  | {line}" for line in kept)
