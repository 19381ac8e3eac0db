"""Containers by the recorded command line of a fake runtime (no engine runs on the team's machines), and the jail."""

import itertools
import json
import os
from pathlib import Path

import pytest

from polar_capture.exits import Failure
from polar_capture.rollout import isolation, processes
from polar_capture.rollout.isolation import Jail
from polar_capture.rollout.workspaces import Folders

PROXY = "http://127.0.0.1:8080"
FAKE = """#!/usr/bin/env python3
import json, os, sys
with open(os.path.join({folder!r}, "argv.jsonl"), "a") as file:
    file.write(json.dumps([sys.argv, dict(os.environ)]) + "\\n")
"""


@pytest.fixture
def fake(tmp_path, monkeypatch):
    """A folder with programs called docker, podman and apptainer, first on PATH; gives back what they were told."""
    for name in ("docker", "podman", "apptainer"):
        (tmp_path / name).write_text(FAKE.format(folder=str(tmp_path)))
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("POLAR_CACHE", str(tmp_path / "cache"))
    (tmp_path / "cache").mkdir()
    return lambda: [json.loads(line) for line in (tmp_path / "argv.jsonl").read_text().splitlines()]


async def told(fake, runtime, tmp_path):
    walls = isolation.make(runtime, "an/image:1")
    await walls.open([PROXY])
    folders = Folders(tmp_path / "sample")
    folders.make()
    environment = {**os.environ, "HTTPS_PROXY": "http://s1:capture@127.0.0.1:8080", "SSL_CERT_FILE": "/ca.pem"}
    enclosed = walls.agent(["pi", "-p", "do it"], environment, folders, PROXY, Path("/ca.pem"))
    for command in filter(None, (enclosed.command, enclosed.finish)):
        await processes.run(
            command, folder=folders.work, environment=enclosed.environment, seconds=30, output=tmp_path / "out"
        )
    return folders, fake()


@pytest.mark.parametrize("runtime", ["docker", "podman"])
async def test_a_container_has_workspace_home_ca_and_proxy_and_is_removed_at_the_end(fake, runtime, tmp_path):
    folders, calls = await told(fake, runtime, tmp_path)
    _, (run, environment), (remove, _) = calls
    assert run[1:7] == ["run", "--rm", "--init", "--name", "polar-sample", "--network"]
    assert run[-4:] == ["an/image:1", "pi", "-p", "do it"]
    options = dict(itertools.pairwise(run))
    assert options["--workdir"] == str(folders.work)
    mounts = [value for name, value in itertools.pairwise(run) if name == "--volume"]
    assert f"{folders.work}:{folders.work}:rw" in mounts
    assert f"{folders.home}:{folders.home}:rw" in mounts
    assert "/ca.pem:/ca.pem:ro" in mounts
    names = [value for name, value in itertools.pairwise(run) if name == "--env"]
    assert "HTTPS_PROXY" in names
    assert "PATH" not in names, "the image has its own"
    assert environment["HTTPS_PROXY"] == "http://s1:capture@127.0.0.1:8080"
    assert "s1:capture" not in " ".join(run), "values are shown to no ps"
    assert remove[1:] == ["rm", "--force", "polar-sample"]


async def test_apptainer_gets_the_same_by_its_own_words(fake, tmp_path):
    folders, calls = await told(fake, "apptainer", tmp_path)
    run, environment = calls[1]
    assert run[1:6] == ["exec", "--containall", "--cleanenv", "--pwd", str(folders.work)]
    assert run[-4:] == ["an/image:1", "pi", "-p", "do it"]
    assert environment["APPTAINERENV_HTTPS_PROXY"] == "http://s1:capture@127.0.0.1:8080"
    assert "APPTAINERENV_PATH" not in environment


@pytest.mark.parametrize(
    ("runtime", "image", "said"),
    [("docker", None, "needs --image"), ("local", "x", "--image is for a container"), ("podman", "x", "no podman")],
)
def test_what_cannot_be_had_is_told(monkeypatch, tmp_path, runtime, image, said):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Failure, match=said) as failure:
        isolation.make(runtime, image)
    assert failure.value.status == 2


async def test_out_of_the_jail_leads_only_the_way_to_the_proxy(tmp_path):
    import asyncio

    async def greet(reader, writer):
        writer.write(b"proxy says " + await reader.readline())
        writer.close()

    server = await asyncio.start_server(greet, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    jail = Jail()
    try:
        await jail.open([f"http://127.0.0.1:{port}"])
    except Failure as failure:
        pytest.skip(str(failure))
    try:
        folders = Folders(tmp_path / "s")
        folders.make()
        code = (
            "import socket\n"
            f"s = socket.create_connection(('127.0.0.1', {port})); s.sendall(b'hello\\n'); print(s.recv(99).decode())\n"
            "try: socket.create_connection(('192.0.2.1', 80), 3)\n"
            "except OSError as error: print(error)\n"
        )
        enclosed = jail.agent(["python3", "-c", code], os.environ, folders, f"http://127.0.0.1:{port}", tmp_path)
        await processes.run(
            enclosed.command,
            folder=folders.work,
            environment=enclosed.environment,
            seconds=30,
            output=tmp_path / "out",
            jail=enclosed.jail,
        )
        assert (tmp_path / "out").read_text() == "proxy says hello\n\n[Errno 101] Network is unreachable\n"
    finally:
        await jail.close()
        server.close()
