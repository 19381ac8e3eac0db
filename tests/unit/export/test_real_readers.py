"""Files read back by the libraries they are for, as far as these install beside the proxy."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from polar_capture import datasets
from polar_capture.commands.build import ADMISSIBLE
from polar_capture.trajectories import options


@pytest.fixture
def exported(db, tmp_path):
    for number in range(3):
        db.two_turns(f"s{number}", reward=number / 2, group_id="g", harness="pi", harness_version="1.6.0")
    db.run("build")

    def export(format, suffix=".jsonl"):
        out = tmp_path / f"{format}{suffix}"
        db.run("export", "--format", format, "--out", out)
        return out

    return export


def test_atif_accepts_every_trajectory(exported):
    atif = pytest.importorskip("atif")
    for line in exported("atif").read_text().splitlines():
        found = atif.Trajectory.model_validate_json(line)
        assert found.schema_version == "ATIF-v1.8"
        assert [step.source for step in found.steps] == ["system", "user", "agent", "agent"]
        called = found.steps[2]
        assert called.tool_calls[0].function_name == "ls"
        assert called.tool_calls[0].arguments == {"dir": "."}
        assert called.observation.results[0].source_call_id == called.tool_calls[0].tool_call_id
        assert [len(step.metrics.completion_token_ids) for step in found.steps[2:]] == [3, 2]


@pytest.mark.parametrize(("format", "column"), [("parquet", "input_ids"), ("verl", "response_ids")])
def test_parquet_holds_arrow_lists(exported, format, column):
    table = pq.read_table(exported(format, ".parquet"))
    assert table.num_rows == 3
    assert table.schema.field(column).type == pa.list_(pa.int32())
    assert all(json.loads(text) for text in table.column(table.column_names[-1]).to_pylist() if isinstance(text, str))


def test_parquet_has_null_where_nothing_was_sampled(exported):
    table = pq.read_table(exported("parquet", ".parquet"))
    values = table.column("logprobs").combine_chunks().flatten()
    assert values.null_count == 3 * (22 - 5)
    assert values.type == pa.float32()


def test_the_default_export_is_the_view_training_samples(db, exported):
    view = datasets.load(db.path, "SELECT sample_id FROM training_samples")
    rows = [json.loads(line) for line in exported("jsonl").read_text().splitlines()]
    assert {row["sample_id"] for row in view} == {row["sample_id"] for row in rows}


def test_the_command_admits_what_the_builder_admits():
    assert set(ADMISSIBLE) == set(options.ADMISSIBLE)
