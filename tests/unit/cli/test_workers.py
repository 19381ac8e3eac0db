"""Several workers as one `serve`: ports, the one ready line, the common end."""

import json
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from polar_capture import ready, workers
from polar_capture.config import ServeConfig
from polar_capture.exits import Failure
from polar_capture.launch import ProxyProcess, start_proxy

FAKE = Path(__file__).with_name("fake_serve.py")


def config(**changes: Any) -> ServeConfig:
    given = {"upstreams": ("http://127.0.0.1:8000",), "home": Path("/nowhere"), "port": 0, "workers": 3, **changes}
    return ServeConfig(**given)


def test_ports_count_up_and_zero_stays_free() -> None:
    made = workers.configs(config(port=9000, gateway_port=9100, control_port=0, key="k"))
    assert [(one.port, one.gateway_port, one.control_port, one.workers) for one in made] == [
        (9000, 9100, 0, 1),
        (9001, 9101, 0, 1),
        (9002, 9102, 0, 1),
    ]
    assert [one.gateway_port for one in workers.configs(config())] == [None, None, None]


class Stage:
    """Starts stand-ins; `behaviours` says how each in turn behaves."""

    def __init__(self, folder: Path, *behaviours: str) -> None:
        self.folder = folder
        self.behaviours = list(behaviours)
        self.lock = threading.Lock()
        self.started: list[ProxyProcess] = []

    def __call__(self, one: ServeConfig) -> ProxyProcess:
        with self.lock:
            behaviour = self.behaviours.pop(0)
        log = self.folder / f"{time.monotonic_ns()}.log"
        environ = {**os.environ, "FAKE_LOG": str(self.folder / "control")}
        proxy = start_proxy(one, log, environ, command=(sys.executable, str(FAKE), behaviour))
        self.started.append(proxy)
        return proxy


@pytest.fixture(autouse=True)
def _signals() -> Any:
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def soon(action: Any) -> None:
    """Do it once the ready line has had time to be printed."""
    threading.Timer(2.0, action).start()


def test_one_ready_line_for_all_and_sigterm_drains_all(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    stage = Stage(tmp_path, "well", "well", "well")
    soon(lambda: os.kill(os.getpid(), signal.SIGTERM))
    assert workers.serve_all(config(), stage) == 0
    lines = [found for line in capfd.readouterr().out.splitlines() if (found := ready.parse(line))]
    assert len(lines) == 1
    assert sorted(lines[0].workers) == sorted(proxy.ready.proxy for proxy in stage.started)
    assert lines[0].proxy == lines[0].workers[0] == stage.started[0].ready.proxy
    assert lines[0].pid == os.getpid()
    assert [proxy.log.read_text()[-8:] for proxy in stage.started if proxy.log] == ["drained\n"] * 3


def test_a_worker_that_dies_ends_them_all(tmp_path: Path) -> None:
    stage = Stage(tmp_path, "well", "well", "well")
    soon(lambda: stage.started[1].process.kill())
    with pytest.raises(Failure, match="ended with status 137: stopping the others"):
        workers.serve_all(config(), stage)
    assert [proxy.died() for proxy in stage.started if proxy is not stage.started[1]] == [0, 0]


@pytest.mark.parametrize(("behaviours", "status"), [(["exit-4"], 4), (["well", "well", "exit-5"], 5)])
def test_one_that_does_not_start_ends_them_all_with_its_status(
    tmp_path: Path, behaviours: list[str], status: int, capfd: pytest.CaptureFixture[str]
) -> None:
    stage = Stage(tmp_path, *behaviours)
    with pytest.raises(Failure) as failed:
        workers.serve_all(config(), stage)
    assert failed.value.status == status
    assert all(proxy.died() == 0 for proxy in stage.started)
    assert "ready" not in capfd.readouterr().out


def test_secrets_and_places_reach_every_worker(tmp_path: Path) -> None:
    stage = Stage(tmp_path, "well", "well", "well")
    soon(lambda: os.kill(os.getpid(), signal.SIGTERM))
    workers.serve_all(config(key="k", control_token="t", db="sqlite:////x.db"), stage)
    for proxy in stage.started:
        assert proxy.log is not None
        environ = json.loads(proxy.log.read_text().splitlines()[0].removeprefix("started "))[1]
        assert (environ["POLAR_KEY"], environ["POLAR_CONTROL_TOKEN"], environ["POLAR_DB"]) == (
            "k",
            "t",
            "sqlite:////x.db",
        )
