"""Exports read by the trainers' own classes: verl's AgentLoopOutput, DataProto and GRPO; OpenRLHF's Experience; SkyRL's
GeneratorOutput, its validation and its batch tensors. They are real and run on a CPU, in the engine's environment.

Not there, so that `tests/unit/export/test_export.py` checks their layouts alone: prime-rl and NeMo Gym are not on the
package index; `slime` and `nemo-rl` on it are placeholders (0.0.0), not the trainers.
"""

import json
import subprocess
from pathlib import Path

import pytest

from tests.installed import beside, installed
from tests.unit.export.databases import Captured
from tests.unit.trajectories.builders import END, opening, then
from tools.engine.serve import PYTHON as ENGINE_PYTHON

SCRIPT = Path(__file__).with_name("read_in_trainers.py")
SUFFIX = {"verl": ".parquet", "openrlhf": ".jsonl", "skyrl": ".jsonl"}
pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def environment():
    return beside(installed("trainers", ENGINE_PYTHON), installed("trl", ENGINE_PYTHON))


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Two groups: turns with tool results between them, a session of two branches, a turn that is context only."""
    captured = Captured(tmp_path_factory.mktemp("trainers") / "polar.db")
    for number in range(3):
        captured.two_turns(f"a{number}", reward=number / 2, group_id="a", sample_index=number)
    captured.two_turns("b0", reward=1.0, group_id="b", sample_index=0)
    captured.call("b0", 2, opening(30, 31), [60, END])
    captured.session("b1", group_id="b", sample_index=1)
    first = opening(*range(100, 140))
    captured.call(
        "b1", 0, first, [70, 71, END], logprobs=[-1.0, -2.0, 0.5]
    )  # no logprob is positive: it does not train
    captured.call("b1", 1, [*first, 70, 71, END, *then(60)], [72, END], parent_call_id="b1-0")
    captured.reward("b1", 0.0)
    captured.run("build")
    yield captured
    captured.store.close()


def export(built, folder, format):
    out = folder / f"out{SUFFIX[format]}"
    built.run("export", "--format", format, "--out", out)
    return out


def read(environment, format, file):
    command = [str(ENGINE_PYTHON), str(SCRIPT), format, str(file)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=400)


def trained(row):
    """[[id, logprob]] of a row of `samples`."""
    ids, mask, logprobs = (json.loads(row[name]) for name in ("input_ids", "loss_mask", "logprobs"))
    return [[id, logprob] for id, chosen, logprob in zip(ids, mask, logprobs, strict=True) if chosen]


@pytest.mark.parametrize("format", sorted(SUFFIX))
def test_the_trainer_s_own_tensors_hold_the_sampled_tokens_and_their_logprobs(built, environment, tmp_path, format):
    done = read(environment, format, export(built, tmp_path, format))
    assert done.returncode == 0, done.stderr[-3000:]
    told = json.loads(done.stdout.splitlines()[-1])
    samples = built.samples()
    assert sorted(told["rows"]) == sorted(trained(row) for row in samples)
    assert sum(map(len, told["rows"])) == 3 * 5 + 7 + 2
    assert sorted(told["rewards"]) == sorted(row["reward"] for row in samples)


def test_verl_s_grpo_gives_our_advantages(environment, tmp_path):
    """Where each session is one row: verl's statistics count rows, ours sessions."""
    captured = Captured(tmp_path / "polar.db")
    for number, reward in enumerate((0.0, 0.25, 1.0)):
        captured.two_turns(f"s{number}", reward=reward, group_id="g", sample_index=number)
    captured.run("build")
    done = read(environment, "verl", export(captured, tmp_path, "verl"))
    captured.store.close()
    assert done.returncode == 0, done.stderr[-3000:]
    told = json.loads(done.stdout.splitlines()[-1])
    ours = [row["advantage"] for row in captured.samples()]
    assert [values[0] for values in told["advantages"]] == pytest.approx(ours, abs=1e-3)  # its epsilon is 1e-6
    assert {len(values) for values in told["advantages"]} == {1}


def test_a_range_shifted_by_one_is_seen(built, environment, tmp_path):
    out = export(built, tmp_path, "openrlhf")
    records = [json.loads(line) for line in out.read_text().splitlines()]
    records[0]["action_ranges"] = [[start + 1, end + 1] for start, end in records[0]["action_ranges"]]
    out.write_text("".join(json.dumps(record) + "\n" for record in records))
    done = read(environment, "openrlhf", out)
    assert done.returncode != 0
    assert "AssertionError" in done.stderr
