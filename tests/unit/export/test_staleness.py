"""`build --max-staleness`: how old a policy may be, on a database; what an export and `verify` make of it."""

import json

import pytest

from polar_capture.builds import Plan, build
from polar_capture.trajectories.options import BuildOptions
from tests.unit.trajectories.builders import END, opening


def spans(row):
    return json.loads(row["turn_spans"])


@pytest.fixture
def aged(db):
    """Session `s` with turns of versions 3 and 4, and `old` with one of version 1."""
    db.two_turns("s", reward=1.0)
    db.session("old")
    db.call("old", 0, opening(30), [60, END], policy_version=1)
    db.reward("old", 0.0)
    return db


@pytest.mark.parametrize(
    ("arguments", "stale"),
    [
        ([], []),
        (["--max-staleness", "3"], []),
        (["--max-staleness", "1"], [1]),
        (["--max-staleness", "0"], [1, 3]),
        (["--max-staleness", "1", "--policy-version", "5"], [1, 3]),
        (["--max-staleness", "2", "--policy-version", "9"], [1, 3, 4]),
    ],
)
def test_turns_too_many_versions_behind_are_rows_with_a_reason(aged, arguments, stale):
    report = aged.json("build", *arguments)
    rows = aged.samples()
    assert len(rows) == 2, "no row is dropped"
    found = [span for row in rows for span in spans(row)]
    assert sorted(span["policy_version"] for span in found if span.get("reason") == "stale_policy") == stale
    assert all(span["trained"] == ("reason" not in span) for span in found)
    assert report["total"]["reasons"] == ({"stale_policy": len(stale)} if stale else {})
    assert aged.json("verify")["holds"]


def test_a_build_without_the_limit_takes_them_in_again(aged):
    aged.run("build", "--max-staleness", "0")
    aged.run("build")
    assert all(span["trained"] for row in aged.samples() for span in spans(row))


def test_the_export_counts_them_and_takes_no_row_of_them_alone(aged, tmp_path):
    aged.run("build", "--max-staleness", "0")
    about = aged.json("export", "--format", "jsonl", "--out", tmp_path / "out.jsonl")
    assert about["samples"] == 1
    assert about["policy_versions"] == [4, 4]
    assert about["left_out"] == {"verdict_not_trainable": 1}
    assert about["calls_left_out"] == {"stale_policy": 2}


def test_the_table_says_so(aged):
    assert "stale_policy 2" in aged.run("build", "--max-staleness", "0").stdout


def test_from_python_the_trainer_says_which_version_is_in_force(aged):
    build(aged.store, Plan(max_staleness=2, policy_version=6))
    assert [row["verdict"] for row in aged.samples()] == ["not_trainable", "exact"]
    (sample,) = aged.samples(where="verdict = 'exact'")
    assert (sample["policy_version_min"], sample["policy_version_max"]) == (4, 4)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [(["--policy-version", "3"], "give both"), (["--max-staleness", "-1"], "--max-staleness")],
)
def test_what_makes_no_sense_is_refused(aged, arguments, said):
    assert said in aged.run("build", *arguments, status=2).output


def test_two_limits_at_once_are_refused():
    with pytest.raises(ValueError, match="give one of them"):
        Plan(max_staleness=1, options=BuildOptions(oldest_policy=3))
    with pytest.raises(ValueError, match="max_staleness is -1"):
        Plan(max_staleness=-1)
