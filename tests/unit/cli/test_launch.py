"""Starting, watching and stopping a private proxy."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from polar_capture import launch
from polar_capture.cli import main
from polar_capture.config import ServeConfig
from polar_capture.exits import Failure

FAKE = Path(__file__).with_name("fake_serve.py")


def config(**changes: Any) -> ServeConfig:
    return ServeConfig(**{"upstreams": ("http://u:p@127.0.0.1:8000",), "home": Path("/nowhere"), "port": 0, **changes})


def start(tmp_path: Path, behaviour: str = "well", patience: float = 20, **changes: Any) -> launch.ProxyProcess:
    log = tmp_path / "proxy.log"
    log.touch()
    environ = {**os.environ, "FAKE_LOG": str(tmp_path / "control")}
    command = (sys.executable, str(FAKE), behaviour)
    return launch.start_proxy(config(**changes), log, environ, command=command, patience=patience)


def test_the_ready_line_says_where_it_is_and_sigterm_drains(tmp_path: Path) -> None:
    proxy = start(tmp_path)
    assert proxy.ready.control.startswith("http://127.0.0.1:")
    assert proxy.died() is None
    assert proxy.stop() == 0
    assert proxy.log.read_text().endswith("drained\n")


def test_secrets_are_not_on_the_command_line(tmp_path: Path) -> None:
    proxy = start(tmp_path, key="the-key", control_token="the-token", db="postgresql+psycopg://u:pw@h/n")
    proxy.stop()
    options, environ = json.loads(proxy.log.read_text().splitlines()[0].removeprefix("started "))
    line = " ".join(options)
    for secret in ("the-key", "the-token", "pw@h", "u:p@"):
        assert secret not in line
    assert environ["POLAR_KEY"] == "the-key"
    assert environ["POLAR_CONTROL_TOKEN"] == "the-token"
    assert environ["POLAR_DB"] == "postgresql+psycopg://u:pw@h/n"
    assert environ["POLAR_UPSTREAM"] == "http://u:p@127.0.0.1:8000"


def test_serve_gets_the_very_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What `serve` makes of our arguments is the configuration that we made them from."""
    wanted = config(
        home=tmp_path,
        db=f"sqlite:///{tmp_path}/x.db",
        key="k",
        control_token="t",
        model="m",
        sampling={"temperature": 0.7, "top_k": -1, "seed": 3},
        web=True,
        gateway_port=0,
        egress="block",
        continuation="off",
        continuation_thinking="template",
        strict_sessions=True,
        header_grace=0.5,
        session_idle=60.0,
        spool=tmp_path / "spool here",
        tokenizer="/tok",
        provider_hosts=("llm.corp.example", "b.example"),
        policy_version=4,
        policy_label="step 4",
    )
    made = []
    proxy = type(sys)("polar_capture.proxy")
    proxy.serve = lambda given: made.append(given) or 0  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "polar_capture.proxy", proxy)
    monkeypatch.setattr("polar_capture.proxy", proxy, raising=False)
    monkeypatch.setattr("polar_capture.home.Home.make_ca", lambda home: home.ca)
    monkeypatch.setattr("polar_capture.commands.serve.check_proxy_is_possible", lambda: None)
    result = CliRunner().invoke(
        main, ["serve", *launch.serve_arguments(wanted)], env=launch.serve_environment(wanted, {})
    )
    assert result.exit_code == 0, result.output
    assert made == [wanted]


@pytest.mark.parametrize(("status", "kept"), [(1, 1), (2, 2), (3, 1), (4, 4), (5, 5), (77, 1), (0, 1)])
def test_one_that_ends_before_it_is_ready_says_why(tmp_path: Path, status: int, kept: int) -> None:
    with pytest.raises(Failure, match="the reason of it") as failed:
        start(tmp_path, f"exit-{status}")
    assert failed.value.status == kept


def test_one_that_never_gets_ready_is_ended(tmp_path: Path) -> None:
    with pytest.raises(Failure, match=r"not ready within 1\.5 s"):
        start(tmp_path, "silent", patience=1.5)


def test_a_garbled_ready_line_is_quoted(tmp_path: Path) -> None:
    with pytest.raises(Failure, match="cannot be read"):
        start(tmp_path, "garbled")


def test_one_that_does_not_stop_is_killed(tmp_path: Path) -> None:
    proxy = start(tmp_path, "stubborn")
    with pytest.raises(Failure, match=r"did not stop within 0\.5 s"):
        proxy.stop(patience=0.5)
    assert proxy.died() == 137


def test_a_starter_that_is_killed_leaves_no_proxy_behind(tmp_path: Path) -> None:
    code = (
        "import os, sys, pathlib, time; sys.path.insert(0, sys.argv[1]); from test_launch import start;"
        "proxy = start(pathlib.Path(sys.argv[2])); print(proxy.pid, flush=True); time.sleep(60)"
    )
    starter = subprocess.Popen(
        [sys.executable, "-c", code, str(FAKE.parent), str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert starter.stdout is not None
    pid = int(starter.stdout.readline())
    starter.send_signal(signal.SIGKILL)
    starter.wait()
    deadline = time.monotonic() + 10
    while "drained" not in (tmp_path / "proxy.log").read_text():
        assert time.monotonic() < deadline, f"the proxy {pid} is still there"
        time.sleep(0.05)


def test_workers_share_the_sessions_and_each_session_stays() -> None:
    proxies = ["http://a", "http://b", "http://c"]
    chosen = {f"s-{number}": launch.worker_for(f"s-{number}", proxies) for number in range(300)}
    assert all(launch.worker_for(session, proxies) == proxy for session, proxy in chosen.items())
    assert min(list(chosen.values()).count(proxy) for proxy in proxies) > 60
