"""Rewards that come after the build reach the built samples, with the options they were built with."""

import json

import pytest

from polar_capture import rewards
from polar_capture.builds import Plan, build
from polar_capture.recredit import recredit
from tests.proxying import TOKEN, proxy


@pytest.fixture
def group(db):
    """Three sessions of a group, rewarded 1, 0 and not at all."""
    for session, value in (("a", 1.0), ("b", 0.0), ("c", None)):
        db.two_turns(session, reward=value, group_id="g")
    return db


OPTIONS = [
    [],
    ["--advantage", "dr-grpo"],
    ["--advantage", "rloo", "--share", "split"],
    ["--advantage", "none"],
    ["--credit", "discounted", "--gamma", "0.5"],
    ["--credit", "last-turn", "--component", "outcome=0.5", "--component", "outcome=2"],
    ["--strategy", "per_request", "--share", "tokens"],
]


@pytest.mark.parametrize("options", OPTIONS)
def test_a_late_reward_gives_the_rows_that_a_build_would_give(group, options):
    group.run("build", *options)
    assert group.json("reward", "c", "0.5")["samples"] == len(group.samples())
    assert group.json("reward", "a", "-1", "--call", "a-1")["samples"] == len(group.samples())
    late = group.samples()
    group.run("build", *options)
    assert group.samples() == late
    assert all(row["reward"] is not None for row in late)


def test_both_strategies_keep_their_own_options(group):
    group.run("build", "--advantage", "dr-grpo")
    group.run("build", "--strategy", "per_request", "--advantage", "rloo")
    group.run("reward", "c", "0.5")
    assert [row["advantage"] for row in group.samples(where="strategy = 'prefix_merging'")] == [0.5, -0.5, 0.0]
    assert [row["advantage"] for row in group.samples(where="strategy = 'per_request'")] == [
        0.75,
        0.75,
        -0.75,
        -0.75,
        0,
        0,
    ]


def test_a_later_build_with_the_defaults_is_what_counts(group):
    group.run("build", "--advantage", "dr-grpo")
    group.run("build")
    group.run("reward", "c", "0.5")
    assert [round(row["advantage"], 2) for row in group.samples()] == [1.0, -1.0, 0.0]


def test_history_stays_and_the_latest_counts(group):
    group.run("build")
    group.run("reward", "a", "0.25")
    assert [row["value"] for row in group.store.rewards("a")] == [1.0, 0.25]
    assert group.samples("reward", "session_id = 'a'") == [{"reward": 0.25}]


def test_only_rewards_change(group):
    group.run("build", "--advantage", "dr-grpo")
    before = group.samples("id, input_ids, loss_mask, logprobs, verdict, branch, length, policy_version_min")
    group.run("reward", "c", "1")
    assert group.samples("id, input_ids, loss_mask, logprobs, verdict, branch, length, policy_version_min") == before
    assert group.json("verify")["holds"]


def test_before_a_build_there_is_nothing_to_change(group):
    assert group.json("reward", "c", "0.5")["samples"] == 0
    assert "samples" not in group.run("reward", "c", "0.75").stdout


def test_from_python(group):
    build(group.store, Plan(advantage="dr-grpo"))
    rewards.give(group.path, "c", 0.5)
    assert [row["advantage"] for row in group.samples()] == [0.5, -0.5, 0.0]


def test_a_reward_by_sql_waits_for_refresh_and_the_export_says_so(group, tmp_path):
    group.run("build")
    with group.store.database.write.begin() as connection:
        connection.exec_driver_sql(
            "INSERT INTO rewards (id, session_id, name, value, created_at) VALUES ('r', 'c', 'outcome', 0.5, 9e9)"
        )
    assert (
        "1 sessions have another outcome now"
        in group.run("export", "--format", "jsonl", "--out", tmp_path / "o").stdout
    )
    assert rewards.refresh(group.path, "c") == 3
    assert group.json("export", "--format", "jsonl", "--out", tmp_path / "o")["stale_rewards"] == 0


def test_a_session_s_own_metadata_is_kept(group):
    group.session("d", extra={"tags": ["x"]})
    group.call("d", 0, [1, 2], [3], logprobs=[-0.5])
    group.run("build", "--advantage", "none")
    (row,) = group.rows("SELECT metadata FROM sessions WHERE id = 'd'")
    assert json.loads(row["metadata"]) == {"tags": ["x"], "build": {"prefix_merging": {"advantage": "none"}}}


async def test_by_the_control_host(group):
    group.run("build", "--advantage", "dr-grpo")
    async with proxy("http://127.0.0.1:9", db=f"sqlite:///{group.path}") as running:
        url = f"http://127.0.0.1:{running.runtime.control_port}/sessions/c/rewards"
        headers = {"authorization": f"Bearer {TOKEN}"}
        async with running.client.post(url, json={"value": 0.5}, headers=headers) as response:
            assert response.status == 201
    assert [row["advantage"] for row in group.samples()] == [0.5, -0.5, 0.0]


def test_an_unknown_session_has_no_samples(group):
    assert recredit(group.store, "nobody") == 0
