"""`run` with a stand-in for the proxy: session, child, reward, statuses and what it says."""

import contextlib
import json
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from polar_capture import session_run
from polar_capture.capture_summary import Facts, count
from polar_capture.cli import main
from polar_capture.config import ServeConfig
from polar_capture.home import Home
from polar_capture.launch import start_proxy
from polar_capture.store import DatabaseError

FAKE = Path(__file__).with_name("fake_serve.py")

CAPTURED = Facts(calls=2, turns=2, captured=2, trainable=2, prompt_tokens=51, completion_tokens=8)


class Stage:
    """One `run` against the stand-in: `facts` is what the database will say."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.facts: Facts | Exception | None = CAPTURED
        self._patch = monkeypatch
        monkeypatch.setattr("polar_capture.captured.read_facts", self._read)
        monkeypatch.setattr("polar_capture.commands.serve.check_proxy_is_possible", lambda: None)
        monkeypatch.setattr("polar_capture.home.Home.make_ca", lambda home: self.ca(home))
        monkeypatch.setattr(
            "polar_capture.control_client.ControlClient.__init__", self._direct(session_run.ControlClient.__init__)
        )
        self.behave("well")

    def behave(self, behaviour: str) -> None:
        command = (sys.executable, str(FAKE), behaviour)
        self._patch.setattr(session_run, "start_proxy", partial(start_proxy, command=command))

    def _read(self, *_: object) -> Facts | None:
        if isinstance(self.facts, Exception):
            raise self.facts
        return self.facts

    def ca(self, home: Any) -> Path:
        pem = self.folder / "ca.pem"
        pem.write_text("-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n")
        home.folder(home.path)
        return pem

    def _direct(self, original: Callable[..., None]) -> Callable[..., None]:
        # The stand-in is a plain HTTP server and no proxy: reach its control host under its own name.
        def make(client: Any, base: str, token: str | None, *, proxy: str | None = None) -> None:
            original(client, f"http://{proxy.rpartition('@')[2]}" if proxy else base, token)

        return make

    def run(self, *arguments: str, **environ: str) -> Result:
        clean = dict.fromkeys(("POLAR_DB", "POLAR_PROXY", "POLAR_KEY", "POLAR_CONTROL_TOKEN"))
        places = {"POLAR_HOME": str(self.folder / "home"), "FAKE_LOG": str(self.folder / "control")}
        command = ["run", "--upstream", "http://127.0.0.1:8000", *arguments]
        return CliRunner().invoke(main, command, env={**clean, **places, **environ})

    def control(self) -> list[tuple[str, str, str, dict[str, Any]]]:
        """Every control request: method, path, authorization, body."""
        path = self.folder / "control"
        return [tuple(json.loads(line)) for line in path.read_text().splitlines()] if path.exists() else []


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stage:
    return Stage(tmp_path, monkeypatch)


@pytest.mark.parametrize("status", [0, 1, 42])
def test_the_child_s_status_is_passed_through(stage: Stage, status: int) -> None:
    done = stage.run("--session", "s-1", "--", "sh", "-c", f"exit {status}")
    assert done.exit_code == status, done.output
    assert "session s-1: 2 calls (2 turns), 51 prompt + 8 sampled tokens, 2 trainable" in done.output
    assert (stage.folder / "home" / "logs" / "s-1.log").read_text().endswith("drained\n")


def test_a_signal_is_128_plus_its_number(stage: Stage) -> None:
    assert stage.run("--", "sh", "-c", "kill -TERM $$").exit_code == 143


@pytest.mark.parametrize(("command", "status"), [("no-such-harness-here", 127), ("/", 126)])
def test_a_command_that_cannot_be_run_starts_no_proxy(stage: Stage, command: str, status: int) -> None:
    done = stage.run("--", command)
    assert done.exit_code == status
    assert command in done.output
    assert stage.control() == []


def test_the_session_is_opened_labelled_and_closed(stage: Stage) -> None:
    stage.run(
        "--session", "s-1", "--task", "t-1", "--group", "g-1", "--", "sh", "-c", "exit 3", POLAR_CONTROL_TOKEN="tok"
    )
    assert stage.control() == [
        ("POST", "/sessions", "Bearer tok", {"id": "s-1", "status": "open", "task_id": "t-1", "group_id": "g-1"}),
        ("PATCH", "/sessions/s-1", "Bearer tok", {"status": "failed", "metadata": {"exit_status": 3}}),
    ]


def test_a_session_without_a_name_gets_a_readable_one(stage: Stage) -> None:
    stage.run("--", "/bin/true")
    opened = stage.control()[0][3]["id"]
    assert opened.startswith("true-20")
    assert len(opened) > len("true-20261201-114530-")


def test_the_harness_gets_the_proxy_and_none_of_our_secrets(stage: Stage) -> None:
    out = stage.folder / "env"
    stage.run(
        "--session", "s-1", "--key", "k", "--", "sh", "-c", f"env > {out}", POLAR_CONTROL_TOKEN="tok", POLAR_DB="x.db"
    )
    environ = dict(line.split("=", 1) for line in out.read_text().splitlines() if "=" in line)
    assert environ["HTTPS_PROXY"].startswith("http://s-1:k@127.0.0.1:")
    assert Path(environ["SSL_CERT_FILE"]).read_text().count("BEGIN CERTIFICATE") > 50
    assert not [name for name in environ if name.startswith("POLAR_")]


@pytest.mark.parametrize(
    ("command", "value"),
    [("echo 0.25", 0.25), ("exit 1", 0.0), ("""echo '{"reward": 2}'""", 2.0), ("echo $POLAR_SESSION | wc -c", 4.0)],
)
def test_the_reward_command_judges_after_the_end(stage: Stage, command: str, value: float) -> None:
    done = stage.run("--session", "s-1", "--reward-cmd", command, "--", "true")
    assert done.exit_code == 0, done.output
    method, path, _, body = stage.control()[-1]
    assert (method, path, body["value"], body["source"]) == ("POST", "/sessions/s-1/rewards", value, "reward-cmd")


def test_the_reward_command_has_no_session_proxy(stage: Stage) -> None:
    done = stage.run(
        "--reward-cmd",
        "test -z $HTTPS_PROXY$POLAR_CONTROL_TOKEN",
        "--",
        "true",
        POLAR_CONTROL_TOKEN="t",
        HTTPS_PROXY="",
    )
    assert "reward 1" in done.output


@pytest.mark.parametrize("command", ["echo nan", "no-such-evaluator-here", "kill -9 $$"])
def test_an_evaluator_that_fails_gives_no_reward_and_is_our_fault(stage: Stage, command: str) -> None:
    done = stage.run("--reward-cmd", command, "--", "true")
    assert done.exit_code == 1
    assert [method for method, *_ in stage.control()] == ["POST", "PATCH"]


def test_the_harness_s_leftovers_are_dead_before_the_evaluator_starts(stage: Stage) -> None:
    file = stage.folder / "tampered"
    script = f"(sleep 0.7; echo 1 > {file}) & exit 0"
    done = stage.run("--reward-cmd", f"sleep 1; test ! -e {file}", "--", "sh", "-c", script)
    assert "reward 1" in done.output


NOTHING = count([])
WITHOUT_IDS = count(
    [
        {
            "kind": "turn",
            "trainable": False,
            "reason": "upstream_error",
            "warnings": [],
            "error": "engine is down",
            "prompt_tokens": None,
            "completion_tokens": None,
            "has_ids": False,
        }
    ]
)
ONLY_SIDE = Facts(calls=1, turns=0, captured=0)


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        (NOTHING, ["no model call came through", "HTTPS_PROXY", "CA", "NO_PROXY", "base URL", "--provider-host"]),
        (None, ["no model call came through"]),
        (WITHOUT_IDS, ["1 call came through", "no turn has token ids", "upstream_error ×1", "engine is down"]),
        (ONLY_SIDE, ["1 call came through", "no turn has token ids"]),
    ],
)
def test_nothing_captured_is_status_3_with_the_usual_causes(
    stage: Stage, facts: Facts | None, words: list[str]
) -> None:
    stage.facts = facts
    done = stage.run("--session", "s-1", "--", "true", OPENAI_BASE_URL="http://elsewhere")
    assert done.exit_code == 3
    for word in [*words, "OPENAI_BASE_URL=http://elsewhere", "logs/s-1.log"]:
        assert word in done.output
    assert stage.run("--", "false").exit_code == 1  # a harness that failed keeps its status


def test_tls_failures_of_the_log_are_quoted(stage: Stage) -> None:
    stage.facts = NOTHING
    log = stage.folder / "home" / "logs" / "s-1.log"
    done = stage.run(
        "--session", "s-1", "--", "sh", "-c", f"echo 'a client refused the certificate for api.x' >> {log}"
    )
    assert "seen in the proxy's log: a client refused the certificate for api.x" in done.output


def test_a_database_that_cannot_be_read_afterwards_is_status_5(stage: Stage) -> None:
    stage.facts = DatabaseError("polar.db: the disk is full")
    assert stage.run("--", "true").exit_code == 5
    done = stage.run("--", "sh", "-c", "exit 9")
    assert done.exit_code == 9
    assert "the disk is full" in done.output


@pytest.mark.parametrize(("behaviour", "status"), [("exit-4", 4), ("exit-5", 5), ("exit-2", 2), ("exit-1", 1)])
def test_a_proxy_that_does_not_start_ends_the_run(stage: Stage, behaviour: str, status: int) -> None:
    stage.behave(behaviour)
    done = stage.run("--", "touch", str(stage.folder / "ran"))
    assert done.exit_code == status
    assert "the reason of it" in done.output
    assert not (stage.folder / "ran").exists()


def test_a_proxy_that_dies_during_the_run_is_told(stage: Stage) -> None:
    stage.behave("short-lived")
    done = stage.run("--session", "s-1", "--", "sleep", "1")
    assert done.exit_code == 1, done.output
    assert "the proxy ended while the harness ran (status 9)" in done.output
    assert "logs/s-1.log" in done.output


def test_a_running_proxy_is_used_as_it_is(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """`--proxy`: no proxy is started, and the session goes through the named one with the key of its URL."""
    out = stage.folder / "env"
    pem = stage.ca(Home(stage.folder / "home")).read_text()
    monkeypatch.setattr("polar_capture.control_client.ControlClient.ca_pem", lambda client: pem)
    stage.behave("exit-1")
    with running(stage.folder) as address:
        done = CliRunner().invoke(
            main,
            [
                "run",
                "--proxy",
                address.replace("http://", "http://x:the%20key@"),
                "--session",
                "s-1",
                "--",
                "sh",
                "-c",
                f"env > {out}",
            ],
            env={"POLAR_HOME": str(stage.folder / "home"), "POLAR_CONTROL_TOKEN": "tok", "POLAR_UPSTREAM": None},
        )
    assert done.exit_code == 0, done.output
    assert f"HTTPS_PROXY={address.replace('http://', 'http://s-1:the%20key@')}" in out.read_text()
    assert [path for _, path, *_ in stage.control()] == ["/sessions", "/sessions/s-1"]


def test_a_running_proxy_s_captures_may_be_elsewhere(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without --db the default database need not be the proxy's: that nothing is in it says nothing."""
    pem = stage.ca(Home(stage.folder / "home")).read_text()
    monkeypatch.setattr("polar_capture.control_client.ControlClient.ca_pem", lambda client: pem)
    environ = {"POLAR_HOME": str(stage.folder / "home"), "POLAR_CONTROL_TOKEN": "tok", "POLAR_DB": None}
    stage.facts = None
    with running(stage.folder) as address:
        command = ["run", "--proxy", address, "--session", "s-1"]
        unnamed = CliRunner().invoke(main, [*command, "--", "true"], env=environ)
        named = CliRunner().invoke(main, [*command, "--db", "x.db", "--", "true"], env=environ)
    assert unnamed.exit_code == 0
    assert "name the proxy's database with --db" in unnamed.output
    assert named.exit_code == 3


def test_no_proxy_at_the_address_is_said(stage: Stage) -> None:
    done = CliRunner().invoke(
        main, ["run", "--proxy", "127.0.0.1:9", "--", "true"], env={"POLAR_HOME": str(stage.folder)}
    )
    assert done.exit_code == 1
    assert "no proxy answers at http://127.0.0.1:9" in done.output


@contextlib.contextmanager
def running(folder: Path) -> Iterator[str]:
    """The stand-in as a proxy that runs already; its URL."""
    log = folder / "standing.log"
    config = ServeConfig(upstreams=("http://127.0.0.1:8000",), home=folder)
    environ = {"FAKE_LOG": str(folder / "control"), "PATH": "/bin:/usr/bin"}
    proxy = start_proxy(config, log, environ, command=(sys.executable, str(FAKE), "well"))
    try:
        yield proxy.ready.proxy
    finally:
        proxy.stop()
