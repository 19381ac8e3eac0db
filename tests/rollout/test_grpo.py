"""Three steps of the real loop, Pi and vLLM included, and the notebook on what they leave."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    folder = tmp_path_factory.mktemp("grpo") / "run"
    environment = {"POLAR_CACHE": str(ROOT / ".cache"), **os.environ}
    begun = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "tools.grpo", "--steps", "3", "--group", "8", "--folder", str(folder)],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=800,
    )
    print(done.stdout, f"{time.monotonic() - begun:.0f} s in all")
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return folder, done.stdout


def test_the_first_steps_ratio_is_one_and_a_changed_logprob_is_seen(ran):
    _, said = ran
    assert "they agree" in said
    assert "the check fails, as it must" in said


def test_each_new_policy_is_the_one_that_samples(ran):
    folder, _ = ran
    steps = [json.loads(line) for line in (folder / "steps.jsonl").read_text().splitlines()]
    assert [step["step"] for step in steps] == [0, 1, 2]
    assert max(step["worst"] for step in steps) < 1e-3
    assert all(abs(step["ratio"] - 1) < 1e-3 for step in steps)
    assert (folder / "rewards.png").read_bytes().startswith(b"\x89PNG")


def test_the_notebook_runs_on_it(ran, monkeypatch):
    folder, _ = ran
    monkeypatch.setenv("POLAR_GRPO", str(folder))
    book = nbformat.read(ROOT / "notebooks" / "04_grpo.ipynb", as_version=4)
    place = {"metadata": {"path": str(ROOT / "notebooks")}}
    NotebookClient(book, timeout=120, kernel_name="python3", resources=place).execute()
    outputs = [output for cell in book.cells if cell.cell_type == "code" for output in cell.outputs]
    told = "".join(output.get("text", "") for output in outputs)
    assert "sampled tokens, largest difference" in told
    assert "mean surrogate +" in told
    assert any("image/png" in output.get("data", {}) for output in outputs)
