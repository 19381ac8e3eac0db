"""A small group of a real harness on a real vLLM: rewarded, built, exported, and scored again by the engine."""

import json
import os
import subprocess
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.rollout.stage import POLAR
from tools.engine.serve import engine

ROOT = Path(__file__).resolve().parents[2]
TASK = {
    "id": "direction",
    "prompt": "Write a direction into proof.txt, use the tool bash",
    "evaluator": {"command": "test -s proof.txt", "reads": "status"},
}
pytestmark = pytest.mark.timeout(600)


def test_the_engine_scores_every_token_of_pi_s_group_the_same(tmp_path):
    (tmp_path / "tasks.jsonl").write_text(json.dumps(TASK) + "\n")
    environ = {**os.environ, "POLAR_CACHE": os.environ.get("POLAR_CACHE", str(ROOT / ".cache"))}
    environ |= {"POLAR_DB": str(tmp_path / "polar.db"), "POLAR_HOME": str(tmp_path / "home")}

    def polar(*arguments):
        command = [*POLAR, *map(str, arguments), "--json"]
        done = subprocess.run(command, env=environ, cwd=tmp_path, capture_output=True, text=True, timeout=500)
        assert done.returncode == 0, done.stderr[-3000:]
        return json.loads(done.stdout)

    with engine() as vllm:
        options = ["--harness", "pi", "--samples", 4, "--parallel", 2, "--upstream", vllm.url]
        (group,) = polar("rollout", "tasks.jsonl", *options, "--sampling", "temperature=1.0,top_p=1.0,top_k=-1")
        assert group["mean"] is not None
        built = polar("build")["total"]
        assert set(built["verdicts"]) == {"exact"}
        assert built["trained_tokens"] == built["sampled_tokens"] > 0
        report = polar("verify", "--rescore", vllm.url)
    print(json.dumps(report, indent=2))
    assert report["holds"]
    assert report["rescored_tokens"] == report["trained_tokens"] == built["trained_tokens"]
    assert report["worst"]["difference"] < 1e-3
    manifest = polar("export", "--format", "parquet", "--out", tmp_path / "out.parquet")
    table = pq.read_table(tmp_path / "out.parquet")
    assert table.num_rows == manifest["samples"] == 4
    assert sum(sum(mask) for mask in table.column("loss_mask").to_pylist()) == built["trained_tokens"]
