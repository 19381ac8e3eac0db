"""Build, export and verify give the same on SQLite and on PostgreSQL, and `datasets.load` the same lists."""

import json
from pathlib import Path

import numpy as np
import pytest
from datasets import Dataset

from polar_capture import datasets
from polar_capture.samples_table import read_samples, write_session
from polar_capture.trajectories.rows import Sample, Span
from tests.postgres import new_database
from tests.unit.export.databases import Captured
from tests.unit.export.readers import records
from tests.unit.trajectories.builders import END, opening

pytestmark = pytest.mark.timeout(180)


def filled(url, tmp_path, name):
    captured = Captured(url, spool=tmp_path / name)
    captured.home = tmp_path / f"{name}-home"
    for i in range(3):
        captured.two_turns(f"s{i}", group_id="g\u2028ü", task_id="t", sample_index=i, reward=i / 3)
    captured.session("edge")
    captured.call("edge", 0, opening(2**31 - 1), [0, 200018, END], logprobs=[-0.1, -1e-30, -123.456789])
    captured.reward("edge", -0.1)
    captured.run("build", "--advantage", "rloo", "--credit", "discounted", "--gamma", 0.9)
    captured.run("build", "--strategy", "per_request", "--advantage", "none")
    return captured


@pytest.fixture
def both(tmp_path):
    made = [filled(tmp_path / "polar.db", tmp_path, "sqlite"), filled(new_database(), tmp_path, "postgres")]
    yield made
    for captured in made:
        captured.store.close()


@pytest.mark.parametrize("late", [False, True])
def test_the_rows_are_equal(both, late):
    for captured in both if late else ():
        captured.run("reward", "s1", "0.75")
        captured.run("reward", "edge", "0.125", "--call", "edge-0")
    rows = [datasets.load(captured.path, "SELECT * FROM samples") for captured in both]
    one, two = (sorted(found, key=lambda row: row["id"]) for found in rows)
    assert len(one) == 4 + 7
    for mine, other in zip(one, two, strict=True):
        for name in ("reward", "advantage"):
            assert mine.pop(name) == pytest.approx(other.pop(name), abs=1e-12)
        assert mine.pop("logprobs") == [None if x is None else np.float32(x) for x in other.pop("logprobs")]
        assert mine == other


@pytest.mark.parametrize("format", ["jsonl", "parquet", "verl", "atif"])
def test_the_files_are_equal(both, tmp_path, format):
    files = []
    for number, captured in enumerate(both):
        out = Path(tmp_path / f"{number}.{'parquet' if format in ('parquet', 'verl') else 'jsonl'}")
        captured.run("export", "--format", format, "--out", out)
        rows = [json.dumps(row, sort_keys=True).replace(row.get("timestamp", "-"), "-") for row in records(out)]
        files.append(sorted(rows))
    assert files[0] == files[1]
    assert len(files[0]) == 4


def test_hugging_face_reads_the_view_lists_from_postgresql_and_json_text_from_sqlite(both, tmp_path):
    query = "SELECT sample_id, input_ids, loss_mask, logprobs, advantage FROM training_samples ORDER BY sample_id"
    found = []
    for number, captured in enumerate(both):
        url = captured.store.database.url.render_as_string(hide_password=False)
        rows = Dataset.from_sql(query, url, cache_dir=str(tmp_path / f"cache-{number}"))
        assert len(rows) == 4 + 7
        found.append(rows)
    sqlite, postgres = found
    assert sqlite.features["input_ids"].dtype.endswith("string")
    assert isinstance(postgres[0]["input_ids"], list)
    for name in ("input_ids", "loss_mask"):
        assert [json.loads(text) for text in sqlite[name]] == list(postgres[name])
    plain = datasets.load(both[0].path, query)
    assert [row["sample_id"] for row in plain] == list(sqlite["sample_id"])
    assert [row["logprobs"] for row in plain] == [json.loads(text) for text in sqlite["logprobs"]]


def test_both_verify(both):
    for captured in both:
        assert captured.json("verify")["samples"] == 11


@pytest.mark.parametrize("place", [0, 1])
def test_arrays_come_back_bit_for_bit(both, place):
    captured = both[place]
    n = 50_000
    random = np.random.default_rng(5)
    mask = (random.random(n) < 0.3).astype(np.uint8)
    ends = np.flatnonzero(np.diff(np.concatenate(([0], mask, [0]))))
    spans = [
        Span(start=int(a), end=int(b), call_id="c", policy_version=None, trained=True)
        for a, b in zip(ends[::2], ends[1::2], strict=True)
    ]
    sample = Sample(
        id="x",
        strategy="prefix_merging",
        session_id="edge",
        agent="main",
        branch=0,
        verdict="exact",
        delivered_fraction=1.0,
        prompt_len=0,
        finish_reason=None,
        turn_spans=spans,
        breaks=[],
        input_ids=random.integers(0, 2**31, n).astype(np.int32),
        loss_mask=mask,
        logprobs=np.where(mask == 1, -random.random(n).astype(np.float32) * 40, np.nan).astype(np.float32),
    )
    assert write_session(captured.store.database, "prefix_merging", "edge", [sample]) == 1
    with captured.store.database.read.connect() as connection:
        (back,) = read_samples(connection, ["x", "not there"])
    assert back.turn_spans == spans
    for name in ("input_ids", "loss_mask", "logprobs"):
        assert getattr(back, name).tobytes() == getattr(sample, name).tobytes(), name
        assert getattr(back, name).dtype == getattr(sample, name).dtype


def test_ids_that_are_none_are_refused_when_read(both):
    captured = both[0]
    with captured.store.database.write.begin() as connection:
        connection.exec_driver_sql("UPDATE samples SET input_ids = '[1, 4294967296]'")
        with pytest.raises(ValueError, match="does not fit into int32"):
            list(read_samples(connection, [row["id"] for row in captured.samples("id")]))


def test_a_session_that_lost_its_samples_has_none(both):
    for captured in both:
        assert write_session(captured.store.database, "per_request", "edge", []) == 0
        assert captured.samples("id", "session_id = 'edge' AND strategy = 'per_request'") == []
