"""`build` on a database: rows, rewards, groups, repetition."""

import contextlib
import json
import sqlite3

import pytest

from polar_capture import datasets, rewards
from polar_capture.builds import Plan, build
from polar_capture.trajectories.credit import CreditOptions
from tests.unit.trajectories.builders import END, opening, then


def parsed(value):
    return json.loads(value) if isinstance(value, str) else value


def test_a_chain_becomes_one_row_with_everything_about_it(db):
    db.two_turns("s", reward=1.0, group_id="g", task_id="t")
    report = db.json("build")
    (row,) = db.samples()
    whole = [*opening(20), 50, 51, END, *then(60), 52, END]
    assert parsed(row["input_ids"]) == whole
    assert parsed(row["loss_mask"]) == [0] * 8 + [1] * 3 + [0] * 9 + [1] * 2
    logprobs = [None] * 8 + [-0.125, -0.25, -0.375] + [None] * 9 + [-0.125, -0.25]
    assert parsed(row["logprobs"]) == logprobs
    assert parsed(row["turn_spans"]) == [
        {"start": 8, "end": 11, "call_id": "s-0", "policy_version": 3, "trained": True},
        {"start": 20, "end": 22, "call_id": "s-1", "policy_version": 4, "trained": True},
    ]
    expected = {
        "strategy": "prefix_merging",
        "session_id": "s",
        "group_id": "g",
        "task_id": "t",
        "agent": "main",
        "branch": 0,
        "verdict": "exact",
        "delivered_fraction": 1.0,
        "prompt_len": 8,
        "length": 22,
        "reward": 1.0,
        "advantage": None,
        "policy_version_min": 3,
        "policy_version_max": 4,
        "finish_reason": "stop",
    }
    assert {name: row[name] for name in expected} == expected
    (session,) = report["sessions"]
    assert (session["verdicts"], session["calls"], session["trained_tokens"]) == ({"exact": 1}, 2, 5)
    assert report["groups"][0]["too_few"] is True


def test_building_twice_gives_the_same_rows_and_replaces_only_its_strategy(db):
    db.two_turns("s", reward=1.0, group_id="g")
    db.two_turns("t", reward=0.0, group_id="g")
    db.run("build")
    first = db.samples()
    db.run("build", "--strategy", "per_request")
    db.run("build")
    assert db.samples(where="strategy = 'prefix_merging'") == first
    assert len(db.samples(where="strategy = 'per_request'")) == 4
    assert [round(row["advantage"], 3) for row in first] == [0.707, -0.707]


def test_a_longer_session_replaces_its_row(db):
    db.session("s")
    db.call("s", 0, opening(20), [50, END])
    db.run("build")
    (before,) = db.samples()
    db.call("s", 1, [*opening(20), 50, END, *then(60)], [51, END], parent_call_id="s-0")
    db.run("build")
    (after,) = db.samples()
    assert after["id"] != before["id"]
    assert after["length"] == 21


def test_a_late_reward_reaches_the_whole_group(db):
    for session, value in (("a", 1.0), ("b", 0.0), ("c", None)):
        db.two_turns(session, reward=value, group_id="g")
    db.run("build", "--advantage", "dr-grpo")
    assert [row["advantage"] for row in db.samples()] == [0.5, -0.5, None]
    db.reward("c", 0.5)
    db.reward("a", 0.0)
    report = db.json("build", "--advantage", "dr-grpo", "--session", "c")
    assert [s["session_id"] for s in report["sessions"]] == ["c"]
    assert [row["reward"] for row in db.samples()] == [0.0, 0.0, 0.5]
    assert [round(row["advantage"], 6) for row in db.samples()] == [-0.166667, -0.166667, 0.333333]


def test_rewards_from_python(db):
    db.two_turns("a", group_id="g")
    assert rewards.rebuild(db.path, "a") is None
    db.run("build")
    rewards.give(db.path, "a", 0.25, comment="close")
    rewards.give(db.path, "a", 0.5)
    assert [row["value"] for row in rewards.history(db.path, "a")] == [0.25, 0.5]
    assert rewards.rebuild(db.path, "a") is not None
    assert db.samples("reward") == [{"reward": 0.5}]
    with pytest.raises(ValueError, match="finite"):
        rewards.give(db.path, "a", float("nan"))
    with pytest.raises(KeyError, match="nobody"):
        rewards.give(db.path, "nobody", 1.0)


def test_a_reward_inserted_by_sql_counts(db):
    db.two_turns("a")
    with db.store.database.write.begin() as connection:
        connection.exec_driver_sql(
            "INSERT INTO rewards (id, session_id, name, value, created_at) VALUES ('r', 'a', 'outcome', 0.75, 9e9)"
        )
    db.run("build")
    assert db.samples("reward") == [{"reward": 0.75}]


def test_o_export_03_a_missing_reward_is_null_and_counted(db):
    for session, value in (("a", 1.0), ("b", None), ("c", 0.0)):
        db.two_turns(session, reward=value, group_id="g")
    (group,) = db.json("build", "--group", "g")["groups"]
    assert (group["mean"], group["rewarded"], group["missing"]) == (0.5, 2, ["b"])
    assert [row["reward"] for row in db.samples()] == [1.0, None, 0.0]


def test_a_session_counts_once_in_its_group_however_many_branches_it_has(db):
    db.session("a", group_id="g")
    for seq in range(3):
        db.call("a", seq, opening(20 + seq), [50, END])
    db.reward("a", 1.0)
    db.two_turns("b", reward=0.0, group_id="g")
    db.run("build", "--advantage", "dr-grpo")
    assert [row["advantage"] for row in db.samples()] == [0.5, 0.5, 0.5, -0.5]
    db.run("build", "--advantage", "dr-grpo", "--share", "split")
    assert [round(row["advantage"], 6) for row in db.samples()] == [0.166667, 0.166667, 0.166667, -0.5]


def test_credit_over_turns_stands_in_the_spans(db):
    db.two_turns("a", reward=1.0, group_id="g")
    db.two_turns("b", reward=0.0, group_id="g")
    db.run("build", "--advantage", "dr-grpo", "--credit", "discounted", "--gamma", "0.5")
    spans = parsed(db.samples()[0]["turn_spans"])
    assert [(s["reward"], s["advantage"]) for s in spans] == [(0.5, 0.25), (1.0, 0.5)]
    with_parts = Plan(credit=CreditOptions(components=(("outcome", 1.0), ("format", 0.5))))
    db.reward("a", 1.0, name="format")
    build(db.store, with_parts)
    assert [row["reward"] for row in db.samples()] == [1.5, None]


def test_the_table_says_what_was_left_out(db):
    db.two_turns("s", reward=1.0, group_id="g")
    db.call("s", 3, opening(90), [91, END], kind="side", trainable=False, reason="side")
    shown = db.run("build").stdout
    for part in ("exact 1", "side 1", "100.0%", "no row for call 2", "fewer than two rewards"):
        assert part in shown


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["--session", "nobody"], 2, "nobody"),
        (["--group", "none"], 2, "group none"),
        (["--session", "a", "--group", "b"], 2, "exclude"),
        (["--component", "x=y"], 2, "NAME=WEIGHT"),
        (["--component", "outcome"], 2, "NAME=WEIGHT"),
        (["--gamma", "2"], 2, "discount"),
        (["--admit", "redacted"], 2, "redacted"),
    ],
)
def test_what_can_not_be_built_is_refused_by_name(db, arguments, status, said):
    assert said in db.run("build", *arguments, status=status).output


def test_a_component_that_no_reward_has_is_told(db):
    db.two_turns("s", reward=1.0)
    assert "given were: outcome" in db.run("build", "--component", "fromat=0.2").stderr
    assert "no reward is named" not in db.run("build", "--component", "outcome=0.2").stderr


def test_a_damaged_session_is_named_with_the_remedy(db):
    db.two_turns("s", reward=1.0)
    with contextlib.closing(sqlite3.connect(db.path)) as connection, connection:
        connection.execute("UPDATE calls SET prompt_ids = x'00ff' WHERE id = 's-0'")
    said = db.run("build", status=5).output
    assert "session s" in said
    assert "db check" in said


def test_load_gives_lists(db):
    db.two_turns("s", reward=1.0)
    db.run("build")
    (row,) = datasets.load(db.path, "SELECT * FROM training_samples")
    assert row["input_ids"][:3] == [900, 10, 20]
    assert row["logprobs"][0] is None
    assert row["turn_spans"][0]["call_id"] == "s-0"


def test_a_prompt_stored_as_a_tail_with_a_break_behind_it_is_whole_again(db):
    """Store and tree agree on prompts of every kind: tails of parents, edits, and long ones."""
    first = opening(*range(1000, 1900))
    turn = [50, END]
    prompts = [
        (first, None),
        (first + turn + then(60), "s-0"),
        (first + turn + then(61), "s-0"),
        ([*first[:500], 7, *first[501:], *turn], "s-1"),
    ]
    db.session("s")
    for seq, (prompt, parent) in enumerate(prompts):
        db.call("s", seq, prompt, turn, parent_call_id=parent)
    db.run("build", "--strategy", "per_request")
    assert [parsed(row["input_ids"]) for row in db.samples()] == [prompt + turn for prompt, _ in prompts]
