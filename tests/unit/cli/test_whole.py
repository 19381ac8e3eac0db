"""The real thing from outside: `polar-capture` processes, the real proxy, a scripted engine, a small agent."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from polar_capture import ready
from tests.double.process import running
from tests.double.script import Script, Step

pytestmark = pytest.mark.skipif(sys.version_info < (3, 13), reason="the proxy's Python")

POLAR = (sys.executable, "-m", "polar_capture")

AGENT = """
import json, sys, urllib.request
messages = []
for turn in range(int(sys.argv[1])):
    messages.append({"role": "user", "content": f"turn {turn}"})
    body = json.dumps({"model": "gpt-x", "messages": messages}).encode()
    url, headers = "https://api.openai.com/v1/chat/completions", {"content-type": "application/json"}
    request = urllib.request.Request(url, body, headers)
    messages.append(json.load(urllib.request.urlopen(request, timeout=30))["choices"][0]["message"])
"""


class Stage:
    """A folder with its own home and database, and an engine."""

    def __init__(self, folder: Path, engine: str) -> None:
        self.folder, self.engine = folder, engine
        (folder / "agent.py").write_text(AGENT)
        kept = {name: value for name, value in os.environ.items() if not name.startswith("POLAR_")}
        self.environ = {**kept, "POLAR_HOME": str(folder / "home"), "POLAR_UPSTREAM": engine}

    def polar(self, *arguments: str, **environ: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [*POLAR, *arguments],
            cwd=self.folder,
            env={**self.environ, **environ},
            capture_output=True,
            text=True,
            timeout=120,
        )

    def json(self, *arguments: str) -> Any:
        done = self.polar(*arguments, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    @contextlib.contextmanager
    def serving(self, *arguments: str) -> Iterator[ready.Ready]:
        process = subprocess.Popen(
            [*POLAR, "serve", "--port", "0", *arguments],
            cwd=self.folder,
            env=self.environ,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        try:
            found = ready.parse(process.stdout.readline())
            assert found is not None
            assert found.pid == process.pid
            yield found
            process.send_signal(signal.SIGTERM)
            assert process.stdout.read() == ""  # the ready line is all that stdout ever gets
            assert process.wait(60) == 0
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()


@pytest.fixture(scope="module")
def engine() -> Iterator[str]:
    with running() as double:
        yield double.url


@pytest.fixture
def stage(tmp_path: Path, engine: str) -> Stage:
    return Stage(tmp_path, engine)


def agent(turns: int) -> tuple[str, ...]:
    return ("--", sys.executable, "agent.py", str(turns))


def test_a_run_captures_its_turns_in_the_default_database(stage: Stage) -> None:
    done = stage.polar("run", "--session", "first", "--task", "t-1", "--reward-cmd", "echo 0.5", *agent(2))
    assert done.returncode == 0, done.stderr
    assert "session first: 2 calls (2 turns)" in done.stderr
    assert done.stdout == ""
    (session,) = stage.json("sessions")
    wanted = {"id": "first", "task_id": "t-1", "status": "completed", "turns": 2, "reward": 0.5}
    assert wanted.items() <= session.items()
    one, two = stage.json("calls", "first", "--tokens")
    for call in (one, two):
        assert len(call["completion_ids"]) == len(call["logprobs"]) == call["completion_tokens"] > 0
    whole = one["prompt_ids"] + one["completion_ids"]
    assert two["prompt_ids"][: len(whole)] == whole
    assert stage.json("show", two["id"])["parent_call_id"] == one["id"]
    assert (stage.folder / "polar.db").is_file()


def test_a_harness_that_passes_the_proxy_by_is_status_3(stage: Stage) -> None:
    done = stage.polar(
        "run", "--", sys.executable, "-c", "print('done nothing')", OPENAI_BASE_URL="http://127.0.0.1:1/v1"
    )
    assert done.returncode == 3
    assert done.stdout == "done nothing\n"
    assert "no model call came through the proxy" in done.stderr
    assert "OPENAI_BASE_URL" in done.stderr


def test_a_client_that_does_not_trust_the_ca_is_explained(stage: Stage) -> None:
    code = "import os, urllib.request as u\nfor n in list(os.environ):\n if 'CERT' in n: del os.environ[n]\n"
    code += "try: u.urlopen('https://api.openai.com/v1/models', timeout=10)\nexcept OSError as e: print(e)"
    done = stage.polar("run", "--", sys.executable, "-c", code)
    assert done.returncode == 3
    assert "CERTIFICATE_VERIFY_FAILED" in done.stdout
    assert "seen in the proxy's log" in done.stderr
    assert "SSL_CERT_FILE" in done.stderr


def test_one_running_proxy_serves_runs_and_the_environment(stage: Stage) -> None:
    with stage.serving("--key", "the key") as proxy:
        done = stage.polar(
            "run", "--proxy", proxy.proxy, "--key", "the key", "--session", "second", *agent(1), POLAR_UPSTREAM=""
        )
        assert done.returncode == 0, done.stderr
        assert "session second: 1 call (1 turn)" in done.stderr
        refused = stage.polar("run", "--proxy", proxy.proxy, "--session", "third", *agent(1), POLAR_UPSTREAM="")
        assert refused.returncode != 0
        assert "key" in refused.stderr
        lines = stage.polar("env", "--proxy", proxy.proxy, "--key", "the key", "--session", "fourth").stdout
        shell = f"{lines}\n{sys.executable} agent.py 1"
        subprocess.run(["sh", "-c", shell], cwd=stage.folder, env=stage.environ, check=True, timeout=60)
    assert {row["id"]: (row["turns"], row["status"]) for row in stage.json("sessions")} == {
        "second": (1, "completed"),
        "fourth": (1, "open"),
    }


def test_workers_share_the_sessions(stage: Stage) -> None:
    with stage.serving("--workers", "2") as proxy:
        assert len(proxy.workers) == 2
        for session in ("a", "b", "c"):
            done = stage.polar(
                "run", "--proxy", ",".join(proxy.workers), "--session", session, *agent(2), POLAR_UPSTREAM=""
            )
            assert done.returncode == 0, done.stderr
    assert [(row["id"], row["turns"], row["trainable_calls"]) for row in stage.json("sessions")] == [
        ("c", 2, 2),
        ("b", 2, 2),
        ("a", 2, 2),
    ]


def test_an_engine_without_token_ids_is_status_4(stage: Stage) -> None:
    with running(Script(default=Step(missing=["prompt_token_ids", "token_ids"]))) as old:
        done = stage.polar("run", "--upstream", old.url, *agent(1))
    assert done.returncode == 4, done.stderr
    assert "ids" in done.stderr


def test_an_engine_that_is_down_at_the_start_is_a_warning(stage: Stage) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{unused.getsockname()[1]}"
        done = stage.polar("run", "--upstream", address, "--session", "down", "--", "true")
    assert done.returncode == 3
    assert address in (stage.folder / "home" / "logs" / "down.log").read_text()


def test_a_port_in_use_is_said(stage: Stage) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = stage.polar("serve", "--port", str(port))
    assert done.returncode == 1
    assert f"port {port}" in done.stderr
    assert "--port" in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize("command", [("serve", "--port", "0"), ("run", "--", "true")])
def test_a_database_that_cannot_be_used_is_status_5(stage: Stage, command: tuple[str, ...]) -> None:
    (stage.folder / "folder.db").mkdir()
    done = stage.polar(*command, POLAR_DB="folder.db")
    assert done.returncode == 5, done.stderr
    assert "folder.db" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_interrupted_run_drains_and_keeps_what_the_harness_saw(stage: Stage) -> None:
    (stage.folder / "agent.py").write_text(AGENT + "print('seen', flush=True)\nimport time; time.sleep(60)\n")
    process = subprocess.Popen(
        [*POLAR, "run", "--session", "cut", *agent(2)],
        cwd=stage.folder,
        env=stage.environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "seen\n"
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 143
    (session,) = stage.json("sessions")
    assert (session["turns"], session["status"]) == (2, "failed")


def test_an_agent_cannot_reach_the_control_host_s_guarded_pages(stage: Stage) -> None:
    code = (
        "import urllib.request as u, urllib.error as e, os\n"
        "for path in ('/health', '/sessions', '/sessions/x/rewards'):\n"
        " data = b'{\"value\": 1}' if 'rewards' in path else None\n"
        " try: print(u.urlopen('http://polar.capture' + path, data, timeout=10).status)\n"
        " except e.HTTPError as error: print(error.code)\n"
        "print([n for n in os.environ if n.startswith('POLAR_')])"
    )
    done = stage.polar("run", "--session", "x", "--", sys.executable, "-c", code, POLAR_CONTROL_TOKEN="secret")
    assert done.stdout.splitlines() == ["200", "401", "401", "[]"]


def test_env_needs_no_proxy_and_no_database(stage: Stage) -> None:
    done = stage.polar("env", "--session", "mine", "--shell", "json")
    values = msgspec.json.decode(done.stdout, type=dict[str, str])
    assert values["HTTPS_PROXY"].startswith("http://mine:")
    assert values["HTTPS_PROXY"].endswith("@127.0.0.1:8080")
    assert Path(values["NODE_EXTRA_CA_CERTS"]).is_file()
    assert not (stage.folder / "polar.db").exists()
