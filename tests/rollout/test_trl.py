"""TRL's real GRPOTrainer takes two steps on rollouts behind the proxy, on a real vLLM."""

import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from polar_capture.config import ServeConfig
from polar_capture.home import Home
from polar_capture.launch import start_proxy
from tests.installed import beside, installed
from tests.rollout.stage import AGENT
from tools.engine.serve import PYTHON as ENGINE_PYTHON
from tools.engine.serve import driver_model, engine

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.timeout(600)


@pytest.fixture
def environment():
    """Where TRL, torch and polar-capture's own needs are."""
    return beside(ROOT, *(installed(name, ENGINE_PYTHON) for name in ("trl", "trl-polar")))


def test_a_real_grpo_trainer_takes_two_steps_through_rollout_func(environment, tmp_path):
    home, db = Home(tmp_path / "home"), tmp_path / "polar.db"
    home.make_ca()
    with engine() as vllm, contextlib.ExitStack() as stack:
        config = ServeConfig(
            upstreams=(vllm.url,),
            home=home.path,
            db=f"sqlite:///{db}",
            port=0,
            control_token=home.control_token(),
            sampling={"temperature": 1.0, "top_p": 1.0, "top_k": -1, "min_p": 0.0},
            egress="block",
        )
        proxy = start_proxy(config, tmp_path / "proxy.log", os.environ)
        stack.callback(proxy.stop)
        script = str(Path(__file__).with_name("trl_two_steps.py"))
        done = subprocess.run(
            [
                *(str(ENGINE_PYTHON), script, str(driver_model())),
                *(str(db), str(home.path), proxy.ready.proxy),
                *(sys.executable, str(AGENT)),
            ],
            env=environment,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=500,
        )
    assert done.returncode == 0, done.stderr[-3000:]
    told = json.loads((tmp_path / "told.json").read_text())
    assert told["steps"] == 2
    assert len(told["given"]) == 2
    for given in told["given"]:
        assert len(set(given["session_id"])) == 4, "each row is a session of its own"
        assert sorted(given["reward"]) == [0.0, 0.0, 1.0, 1.0]
        assert min(given["trained"]) > 0
        assert given["left_out"] == [0, 0, 0, 0]
    assert told["worst"][0] < 1e-3, "the first step's ratio is 1"
    assert told["moved"] > 10
    assert told["rewards"] == [0.5, 0.5]
