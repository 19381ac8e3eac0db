"""From a real vLLM to a trainer: captured, built, verified by scoring again, exported, one step of the real TRL."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import requests

from tests.installed import beside, installed
from tests.unit.export.databases import Captured
from tools.engine.serve import PYTHON as ENGINE_PYTHON

ROOT = Path(__file__).resolve().parents[2]
AGENT = """
import openai, sys
client = openai.OpenAI()
said = [{"role": "system", "content": "You are a coding agent."}, {"role": "user", "content": sys.argv[1]}]
for turn in range(3):
    answer = client.chat.completions.create(model="m", messages=said, max_tokens=60).choices[0].message
    said += [{"role": "assistant", "content": answer.content or ""}, {"role": "user", "content": f"next {turn}"}]
"""
pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def captured(vllm, tmp_path_factory):
    """Four sessions of three turns each by an official client behind the proxy, with rewards, built."""
    folder = tmp_path_factory.mktemp("vllm")
    database = Captured(folder / "polar.db")
    places = ["--db", str(folder / "polar.db"), "--home", str(folder / "polar.db.home")]
    for number in range(4):
        command = [sys.executable, "-m", "polar_capture", "run", *places, "--upstream", vllm, "--egress", "block"]
        command += ["--session", f"s{number}", "--group", "g", "--reward-cmd", f"echo 0.{number}", "--sampling"]
        command += ["temperature=1.0", "--", sys.executable, "-c", AGENT, f"list the files {number}"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=200)
        assert done.returncode == 0, done.stderr
    database.run("build")
    yield database
    database.store.close()


def test_the_chains_are_exact_and_score_again_the_same(captured, vllm):
    assert {row["verdict"] for row in captured.samples()} == {"exact"}
    report = captured.json("verify", "--rescore", vllm)
    assert report["rescored"] == 4
    assert report["rescored_tokens"] == report["trained_tokens"] > 20
    assert report["worst"]["difference"] < 1e-3
    assert report["worst_text"][1] is not None


def test_one_changed_logprob_is_found_by_scoring_again(captured, vllm):
    (row, *_) = captured.samples("id, logprobs")
    changed = json.loads(row["logprobs"])
    place = next(i for i, value in enumerate(changed) if value is not None)
    changed[place] -= 0.01
    try:
        set_logprobs(captured, row["id"], json.dumps(changed))
        report = captured.json("verify", "--rescore", vllm, status=1)
        assert report["mismatches"] == {"logprobs": 1}
        assert report["beyond_tolerance"] == [row["id"]]
        assert report["worst"]["at"] == place
    finally:
        set_logprobs(captured, row["id"], row["logprobs"])


def set_logprobs(captured, id, text):
    with captured.store.database.write.begin() as connection:
        connection.exec_driver_sql("UPDATE samples SET logprobs = ? WHERE id = ?", (text, id))


@pytest.fixture(scope="module")
def trl(vllm):
    """Runs trl_step.py on a file with the served model."""
    environment = beside(installed("trl", ENGINE_PYTHON))
    model = requests.get(f"{vllm}/v1/models", timeout=10).json()["data"][0]["root"]

    def step(export):
        command = [ENGINE_PYTHON, ROOT / "tests" / "engine" / "trl_step.py", export, model]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=400)
        lines = [line for line in done.stdout.splitlines() if line.startswith('{"worst"')]
        assert lines, done.stderr
        return done.returncode, json.loads(lines[-1])

    return step


def test_one_step_of_trl_takes_the_export_and_agrees_on_every_logprob(captured, trl, tmp_path):
    out = tmp_path / "out.jsonl"
    captured.run("export", "--format", "trl-grpo", "--out", out)
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    status, told = trl(out)
    assert status == 0
    assert told["compared"] == sum(sum(row["env_mask"]) for row in rows)
    assert told["worst"] < 1e-3
    assert told["moved"] > 0

    place = rows[2]["env_mask"].index(1)
    rows[2]["logprobs"][place] -= 0.01
    out.write_text("".join(json.dumps(row) + "\n" for row in rows))
    status, told = trl(out)
    assert status == 1
    assert told["worst"] == pytest.approx(0.01, abs=1e-3)
