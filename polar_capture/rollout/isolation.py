"""Where a sample's commands run: on this machine as they are, in a network jail, or in a container."""

import asyncio
import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit

import msgspec

from polar_capture.exits import Exit, Failure
from polar_capture.harnesses.install import cache_folder
from polar_capture.rollout import processes
from polar_capture.rollout.workspaces import Folders

RUNTIMES = ("local", "jail", "docker", "podman", "apptainer")


class Enclosed(msgspec.Struct, frozen=True):
    """A command as it is started on this machine. `jail` is for `processes.run`; `finish` ends what a daemon of the
    runtime would leave running."""

    command: tuple[str, ...]
    environment: Mapping[str, str]
    jail: str | None = None
    finish: tuple[str, ...] = ()


class Isolation(Protocol):
    """`agent` encloses the harness; setup commands and evaluators run on this machine. `blame` adds to the message
    where nothing was captured."""

    name: str
    blame: str

    async def open(self, proxies: Sequence[str]) -> None: ...

    async def close(self) -> None: ...

    def agent(
        self, command: Sequence[str], environment: Mapping[str, str], folders: Folders, proxy: str, bundle: Path
    ) -> Enclosed: ...


class Local:
    """Plain processes of this machine."""

    name = "local"
    blame = "does the harness ignore HTTPS_PROXY? --runtime jail makes sure"

    async def open(self, proxies: Sequence[str]) -> None:
        """Nothing is needed."""

    async def close(self) -> None:
        """Nothing was opened."""

    def agent(
        self, command: Sequence[str], environment: Mapping[str, str], folders: Folders, proxy: str, bundle: Path
    ) -> Enclosed:
        return Enclosed(tuple(command), environment)


class Jail(Local):
    """A network namespace for each sample, out of which only the proxy can be reached (Linux).

    It is about the network alone: files, other processes and Unix sockets of this machine stay within reach.
    """

    name = "jail"
    blame = "in the jail nothing but the proxy can be reached, so the harness ignores HTTPS_PROXY"

    def __init__(self) -> None:
        self._folder: str | None = None
        self._ways: dict[str, str] = {}
        self._servers: list[asyncio.Server] = []

    async def open(self, proxies: Sequence[str]) -> None:
        """Listen for the jails' connections. Failure where this machine has no such namespaces."""
        await self._try()
        self._folder = tempfile.mkdtemp(prefix="polar-jail-")
        for number, proxy in enumerate(proxies):
            parts = urlsplit(proxy)
            path = os.path.join(self._folder, str(number))
            passing = _Passage(parts.hostname or "127.0.0.1", parts.port or 80)
            self._servers.append(await asyncio.start_unix_server(passing.serve, path))
            self._ways[proxy] = f"{path}:{parts.port}"

    async def close(self) -> None:
        for server in self._servers:
            server.close()
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)

    def agent(
        self, command: Sequence[str], environment: Mapping[str, str], folders: Folders, proxy: str, bundle: Path
    ) -> Enclosed:
        return Enclosed(tuple(command), environment, jail=self._ways[proxy])

    async def _try(self) -> None:
        if sys.platform != "linux":
            raise Failure("--runtime jail needs Linux's network namespaces: use local or a container", Exit.USAGE)
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            ended = await processes.run(
                ["true"],
                folder=folder,
                environment=os.environ,
                seconds=30,
                output=folder / "out",
                jail=f"{folder}/none:1024",
            )
            if ended.status:
                said = (folder / "out").read_text(errors="replace").strip().splitlines()
                why = said[-1] if said else f"status {ended.status}"
                raise Failure(f"--runtime jail: {why}; it needs root, or user namespaces for all", Exit.USAGE)


class _Passage:
    """Passes the bytes of a jail's connection on to the proxy."""

    def __init__(self, host: str, port: int) -> None:
        self._host, self._port = host, port

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            from_proxy, to_proxy = await asyncio.open_connection(self._host, self._port)
        except OSError:
            writer.close()
            return
        await asyncio.gather(_pump(reader, to_proxy), _pump(from_proxy, writer))


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    with contextlib.suppress(OSError):
        writer.close()


class Container:
    """docker, podman or apptainer: the harness in `image`, with its own files and nothing else of this machine.

    It shares the machine's network, so that the proxy's loopback address holds inside too.
    """

    blame = "does the harness ignore HTTPS_PROXY?"

    def __init__(self, name: str, image: str | None) -> None:
        if not image:
            raise Failure(f"--runtime {name} needs --image IMAGE, in which the harness's programs can run", Exit.USAGE)
        if shutil.which(name) is None:
            raise Failure(f"--runtime {name}: there is no {name} on this machine", Exit.USAGE)
        self.name = name
        self._image = image

    async def open(self, proxies: Sequence[str]) -> None:
        """Failure where the runtime does not answer."""
        done = await asyncio.to_thread(subprocess.run, [self.name, "--version"], capture_output=True, text=True)
        if done.returncode:
            raise Failure(f"--runtime {self.name}: {done.stderr.strip() or done.stdout.strip()}")

    async def close(self) -> None:
        """Each container ends with its sample."""

    def agent(
        self, command: Sequence[str], environment: Mapping[str, str], folders: Folders, proxy: str, bundle: Path
    ) -> Enclosed:
        mounts = [(folders.work, "rw"), (folders.home, "rw"), (bundle, "ro")]
        mounts += [(cache_folder(), "ro")] if cache_folder().is_dir() else []
        inside = {name: value for name, value in environment.items() if name not in os.environ or _ours(name, value)}
        if self.name == "apptainer":
            return self._apptainer(command, environment, folders, mounts, inside)
        name = f"polar-{folders.root.name}"
        argv = [self.name, "run", "--rm", "--init", "--name", name, "--network", "host"]
        argv += ["--workdir", str(folders.work), "--user", f"{os.getuid()}:{os.getgid()}"]
        for path, mode in mounts:
            argv += ["--volume", f"{path}:{path}:{mode}"]
        # By name only: the values, keys among them, are read from the environment and shown to no `ps`.
        for variable in sorted(inside):
            argv += ["--env", variable]
        return Enclosed((*argv, self._image, *command), environment, finish=(self.name, "rm", "--force", name))

    def _apptainer(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        folders: Folders,
        mounts: Sequence[tuple[Path, str]],
        inside: Mapping[str, str],
    ) -> Enclosed:
        argv = [self.name, "exec", "--containall", "--cleanenv", "--pwd", str(folders.work)]
        for path, mode in mounts:
            argv += ["--bind", f"{path}:{path}:{mode}"]
        carried = {f"APPTAINERENV_{name}": value for name, value in inside.items()}
        return Enclosed((*argv, self._image, *command), {**environment, **carried})


def _ours(name: str, value: str) -> bool:
    """Of the variables that this machine has as well, those with a value of the sample's."""
    return os.environ.get(name) != value


def make(runtime: str, image: str | None) -> Isolation:
    """The isolation of this name. Failure with status 2 where it cannot be had."""
    if image and runtime in ("local", "jail"):
        raise Failure(f"--image is for a container: --runtime {', '.join(RUNTIMES[2:])}", Exit.USAGE)
    if runtime == "local":
        return Local()
    return Jail() if runtime == "jail" else Container(runtime, image)
