"""The commands that read, over a small database."""

import sqlite3
from pathlib import Path

import pytest

from polar_capture import store
from tests.unit.cli.small_database import PROBABLE, PROMPT, SAMPLED, Stage


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Stage:
    return Stage(tmp_path_factory.mktemp("reading"))


def test_sessions_are_listed_latest_first_with_their_counts(stage: Stage) -> None:
    rows = stage.json("sessions")
    assert [row["id"] for row in rows] == ["s-2", "s-1"]
    first = rows[1]
    wanted = {"calls": 3, "turns": 3, "trainable_calls": 2, "errors": 1, "prompt_tokens": 8, "completion_tokens": 4}
    assert wanted.items() <= first.items()
    assert (first["unmapped"], first["warnings"], rows[0]["unmapped"]) == (2, 1, 0)
    assert (first["reward"], rows[0]["reward"]) == (None, 0.5)


def test_sessions_may_be_chosen(stage: Stage) -> None:
    assert [row["id"] for row in stage.json("sessions", "--limit", "1")] == ["s-2"]
    assert stage.json("sessions", "--group", "g-2") == []
    assert len(stage.json("sessions", "--status", "open")) == 2


def test_calls_are_in_order_and_hold_arrays_when_asked(stage: Stage) -> None:
    plain = stage.json("calls", "s-1")
    assert [row["seq"] for row in plain] == [0, 1, 2]
    assert "prompt_ids" not in plain[0]
    assert [(row["seconds"], row["extends_parent"], row["new_prompt_tokens"]) for row in plain] == [
        (0.5, None, 3),
        (0.5, 1, 0),
        (0.5, 0, None),
    ]
    rows = stage.json("calls", "s-1", "--tokens")
    assert rows[1]["prompt_ids"] == PROMPT + SAMPLED
    assert rows[1]["completion_ids"] == SAMPLED
    assert rows[1]["logprobs"] == PROBABLE
    assert rows[1]["prefix_len"] == len(PROMPT + SAMPLED)


def test_o_capture_03_arrays_that_the_engine_did_not_give_are_null_and_not_empty(stage: Stage) -> None:
    row = stage.json("calls", "s-1", "--tokens")[2]
    shown = stage.json("show", "call-2")
    for name in ("prompt_ids", "completion_ids", "logprobs"):
        assert row[name] is None
        assert shown[name] is None


def test_a_call_shows_every_column_with_plain_lists_and_bodies(stage: Stage) -> None:
    shown = stage.json("show", "call-1")
    columns, _ = store.open(stage.db, create=False).sql("SELECT * FROM calls LIMIT 0")
    assert set(columns) <= set(shown)
    assert shown["prompt_ids"] == PROMPT + SAMPLED
    assert shown["logprobs"] == PROBABLE
    assert shown["request"]["messages"][0]["content"] == "question 1"
    assert shown["message"]["content"] == "answer 1 \x1b[2J\ud83d"  # a lone surrogate survives as an escape
    assert shown["trainable"] is True


def test_a_session_shows_its_calls_and_rewards(stage: Stage) -> None:
    shown = stage.json("show", "s-2")
    assert shown["metadata"] == {"exit_status": 0}
    assert [reward["value"] for reward in shown["rewards"]] == [0.5]
    assert [row["id"] for row in stage.json("show", "s-1")["calls"]] == ["call-0", "call-1", "call-2"]


def test_a_group_shows_its_sessions_best_first(stage: Stage) -> None:
    shown = stage.json("show", "--group", "g-1")
    assert (shown["sessions"], shown["reward_mean"]) == (2, 0.5)
    assert [row["session_id"] for row in shown["members"]] == ["s-2", "s-1"]


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (["sessions"], ["s-1", "s-2", "open", "g-1", "0.5"]),
        (["calls", "s-1"], ["call-0", "openai_chat", "gpt-x", "upstream_error", "unmapped_fields"]),
        (["calls", "s-1", "--tokens"], ["1 2 3", "-0.500 -0.250", "none"]),
        (
            ["show", "s-1"],
            ["session s-1", "3 prompt (0 kept) + 2 sampled", "answer 1", "engine is down", "not trainable"],
        ),
        (["show", "call-0"], ["[3] 1 2 3", "[2] 4 5", "mean logprob", "-0.3750", "answer 0"]),
        (["show", "--group", "g-1"], ["g-1", "s-1", "s-2"]),
        (["sql", "SELECT seq, prompt_ids FROM calls ORDER BY seq"], ["seq", "prompt_ids", "bytes>"]),
    ],
)
def test_tables_for_people_are_plain_where_no_terminal_is(stage: Stage, command: list[str], words: list[str]) -> None:
    done = stage.run(*command)
    assert done.exit_code == 0, done.output
    assert "\x1b" not in done.output
    for word in words:
        assert word in done.output


def test_sql_gives_rows_as_objects(stage: Stage) -> None:
    assert stage.json("sql", "SELECT id, seq + 0.5 AS half, reason FROM calls ORDER BY seq DESC LIMIT 1") == [
        {"id": "call-2", "half": 2.5, "reason": "upstream_error"}
    ]
    assert stage.json("sql", "SELECT x'00ff' AS raw, 9e999 AS endless") == [{"raw": "AP8=", "endless": None}]
    assert stage.json("sql", "SELECT 1 AS n WHERE 1 = 0") == []


@pytest.mark.parametrize("query", ["DELETE FROM calls", "DROP TABLE calls", "UPDATE calls SET seq = 9", "SELECT oops"])
def test_sql_only_reads_and_says_what_is_wrong(stage: Stage, query: str) -> None:
    done = stage.run("sql", query)
    assert done.exit_code == 5
    assert "Traceback" not in done.output
    assert len(stage.json("calls", "s-1")) == 3


@pytest.mark.parametrize(
    "command", [["calls", "s-9"], ["show", "s-9"], ["show", "--group", "s-9"], ["reward", "s-9", "1"]]
)
def test_an_unknown_name_is_status_2_and_says_where_it_looked(stage: Stage, command: list[str]) -> None:
    done = stage.run(*command)
    assert done.exit_code == 2
    assert "s-9" in done.output
    assert str(stage.db) in done.output


def test_rewards_are_added_and_the_latest_outcome_counts(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    assert stage.run("reward", "s-1", "1").exit_code == 0
    assert stage.run("reward", "s-1", "-0.5", "--comment", "on second thoughts").exit_code == 0
    assert stage.run("reward", "s-1", "7", "--name", "style", "--call", "call-1").exit_code == 0
    assert stage.json("sessions")[1]["reward"] == -0.5
    given = stage.json("show", "s-1")["rewards"]
    assert [(row["name"], row["value"], row["call_id"], row["comment"], row["source"]) for row in given] == [
        ("outcome", 1.0, None, None, "cli"),
        ("outcome", -0.5, None, "on second thoughts", "cli"),
        ("style", 7.0, "call-1", None, "cli"),
    ]


def test_a_call_of_another_session_takes_no_reward(stage: Stage) -> None:
    done = stage.run("reward", "s-2", "1", "--call", "call-1")
    assert done.exit_code == 2
    assert "call-1" in done.output


def test_an_older_database_names_the_command_that_upgrades_it(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    with sqlite3.connect(stage.db) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '0000'")
    done = stage.run("sessions")
    assert done.exit_code == 5
    assert "polar-capture db upgrade" in done.output
