"""SQL for people: it only reads, it unpacks on SQLite, the views and the ten queries are the same on both databases."""

import json
import re
from pathlib import Path

import pytest
import sqlalchemy as sa

from polar_capture import datasets, store
from polar_capture.store.database import VIEWS
from polar_capture.store.models import Sample
from polar_capture.store.records import SessionRecord
from polar_capture.store.store import DatabaseError
from tests.postgres import new_database
from tests.unit.store.build import call, chain, write

README = Path(__file__).parents[3] / "db" / "README.md"
QUERIES = re.findall(r"```sql\n(.*?)```", README.read_text(), re.DOTALL)


def sample(session="s", **more):
    values = {
        "id": f"{session}-0",
        "strategy": "prefix_merging",
        "session_id": session,
        "group_id": "g",
        "agent": "main",
        "branch": 0,
        "verdict": "exact",
        "delivered_fraction": 1.0,
        "prompt_len": 3,
        "length": 5,
        "reward": 1.0,
        "advantage": 0.5,
        "turn_spans": [{"start": 3, "end": 5, "call_id": "c", "policy_version": 7}],
        "breaks": [],
        "input_ids": [1, 2, 3, 4, 5],
        "loss_mask": [0, 0, 0, 1, 1],
        "logprobs": [0.0, 0.0, 0.0, -0.25, -0.5],
    }
    return {**values, **more}


def fill(captured):
    """Two groups: in `g` the sessions earned differently, in `flat` the same; a retry, a break, an error."""
    writer = captured.writer()
    for number, (session, group, reward) in enumerate(
        [("a", "g", 1.0), ("b", "g", 0.0), ("c", "flat", 1.0), ("d", "flat", 1.0)]
    ):
        writer.session(
            SessionRecord(session, 10.0 + number, group_id=group, task_id="t", harness="pi", status="completed")
        )
        records = chain(4, session, policy_version=number, upstream_ms=100.0, delivered=True)
        write(captured, records)
        writer.reward({"session_id": session, "value": reward}).result(10)
    retry = call("a", 4, [*records[0].prompt_ids[:5], 3], [1], attempt=1, parent=records[0])
    write(captured, [retry, call("a", 5, completion=None, status="error", reason="upstream_error", trainable=False)])
    with captured.database.write.begin() as connection:
        connection.execute(sa.insert(Sample), [sample("a"), sample("b", reward=None), sample("c", verdict="split")])


def test_the_ten_queries_of_the_readme_run_on_both_databases(captured):
    assert len(QUERIES) == 10
    fill(captured)
    for query in QUERIES:
        columns, rows = captured.sql(query)
        assert rows, query
        assert len(columns) == len(rows[0])


def test_the_ten_queries_give_the_same_on_both_databases(tmp_path):
    answers = []
    for url in (tmp_path / "polar.db", new_database()):
        with store.open(url, spool=tmp_path / "spool") as captured:
            fill(captured)
        answers.append([datasets.load(url, query) for query in QUERIES])
    ids = ("session_id", "call_id", "parent_call_id", "sample_id")
    for query, here, there in zip(QUERIES, *answers, strict=True):
        assert [list(row) for row in here] == [list(row) for row in there], query
        for mine, yours in zip(here, there, strict=True):
            for name in mine:
                if name not in ids:
                    assert mine[name] == pytest.approx(yours[name]), (query, name)


@pytest.mark.parametrize("name", VIEWS)
def test_views_have_the_same_columns_on_both_databases(tmp_path, name):
    columns = []
    for url in (tmp_path / "polar.db", new_database()):
        with store.open(url, spool=tmp_path / "spool") as captured:
            columns.append(captured.sql(f"SELECT * FROM {name}")[0])
    assert columns[0] == columns[1]


def test_the_summaries_count_what_is_there(captured):
    fill(captured)
    (session,) = [row for row in captured.sessions() if row["session_id"] == "a"]
    wanted = {"calls": 6, "turns": 6, "trainable_calls": 5, "errors": 1, "delivered_calls": 4, "reward": 1.0}
    assert {name: session[name] for name in wanted} == wanted
    assert [row["session_id"] for row in captured.sessions(group_id="g")] == ["b", "a"]
    assert [row["session_id"] for row in captured.sessions(limit=1)] == ["d"]
    assert captured.sessions(status="failed") == []
    groups = {row["group_id"]: row for row in datasets.load(url_of(captured), "SELECT * FROM group_summary")}
    assert (groups["g"]["reward_mean"], groups["g"]["reward_variance"], groups["g"]["zero_variance"]) == (0.5, 0.5, 0)
    assert (groups["flat"]["reward_variance"], groups["flat"]["zero_variance"]) == (0.0, 1)
    calls = datasets.load(url_of(captured), "SELECT * FROM call_summary WHERE session_id = 'b' ORDER BY seq")
    assert [row["extends_parent"] for row in calls] == [None, 1, 1, 1]
    assert [row["new_prompt_tokens"] for row in calls] == [20, 7, 7, 7]
    assert calls[0]["trainable"] is True


def url_of(captured):
    return captured.database.url.render_as_string(hide_password=False)


def test_rows_for_trainers_are_plain_lists_on_both_databases(captured):
    fill(captured)
    (row,) = datasets.load(
        url_of(captured), "SELECT input_ids AS ids, loss_mask, logprobs, turn_spans, agent FROM training_samples"
    )
    assert row == {
        "ids": [1, 2, 3, 4, 5],
        "loss_mask": [0, 0, 0, 1, 1],
        "logprobs": [0.0, 0.0, 0.0, -0.25, -0.5],
        "turn_spans": [{"start": 3, "end": 5, "call_id": "c", "policy_version": 7}],
        "agent": "main",
    }


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM calls",
        "UPDATE sessions SET status = 'failed'",
        "INSERT INTO rewards (id, session_id, name, value, created_at) VALUES ('r', 's', 'outcome', 1, 1)",
        "DROP TABLE calls",
        "CREATE TABLE x (y int)",
        "SELECT 1; DELETE FROM calls",
        "BEGIN",
        "WITH gone AS (SELECT 1) DELETE FROM calls",
        "WITH gone AS (DELETE FROM calls RETURNING id) SELECT * FROM gone",
    ],
)
def test_no_statement_writes(captured, statement):
    write(captured, [call()])
    try:
        captured.sql(statement)
    except DatabaseError as error:
        assert "statements here only read" in str(error)  # noqa: PT017 (BEGIN alone may pass: it changes nothing)
    captured.sql("SELECT 1")
    assert len(captured.calls("s")) == 1
    assert captured.session("s")["status"] == "open"
    assert captured.rewards("s") == []


@pytest.mark.parametrize(
    "statement",
    [
        "ATTACH DATABASE '/tmp/polar-attached.db' AS other",
        "PRAGMA query_only = OFF",
        "PRAGMA journal_mode = DELETE",
        "SELECT load_extension('x')",
        "VACUUM INTO '/tmp/polar-copy.db'",
    ],
)
def test_sqlite_offers_no_way_around(tmp_path, statement):
    with store.open(tmp_path / "polar.db") as captured, pytest.raises(DatabaseError, match="only read"):
        captured.sql(statement)
    assert not Path("/tmp/polar-attached.db").exists()
    assert not Path("/tmp/polar-copy.db").exists()


@pytest.mark.parametrize(
    "statement",
    [
        "SET TRANSACTION READ WRITE",
        "SELECT nextval('s')",
        "SELECT lo_create(0)",
        "COPY calls TO '/tmp/polar-copy.txt'",
        "COPY calls TO PROGRAM 'cat > /tmp/polar-copy.txt'",
        "SELECT set_config('transaction_read_only', 'off', false), count(*) FROM calls",
    ],
)
def test_postgres_offers_no_way_around(tmp_path, statement):
    with store.open(new_database(), spool=tmp_path) as captured:
        write(captured, [call()])
        try:
            captured.sql(statement)
        except DatabaseError as error:
            assert "only read" in str(error)  # noqa: PT017 (what passes is undone by the rollback)
        with pytest.raises(DatabaseError, match="only read"):
            captured.sql("DELETE FROM calls")
        assert len(captured.calls("s")) == 1
    assert not Path("/tmp/polar-copy.txt").exists()


def test_a_wrong_statement_is_answered_in_the_databases_words(captured):
    with pytest.raises(DatabaseError, match="nowhere"):
        captured.sql("SELECT * FROM nowhere")


def test_a_percent_sign_is_just_a_percent_sign(captured):
    assert captured.sql("SELECT 1 WHERE 'abc' LIKE 'a%' AND 7 % 4 = 3")[1] == [(1,)]


def test_sqlite_functions_unpack(tmp_path):
    records = chain(3)
    with store.open(tmp_path / "polar.db") as captured:
        write(captured, records)
        query = """
            SELECT polar_prompt_ids(id), polar_completion_ids(id), polar_logprobs(id), polar_text(id, 'request'),
                   polar_text(id, 'chat_request'), polar_text(message), polar_text(id), polar_prompt_ids(NULL)
            FROM calls WHERE seq = 2"""
        ((prompt, completion, logprobs, request, chat, message, same, nothing),) = captured.sql(query)[1]
        assert json.loads(prompt) == records[2].prompt_ids
        assert json.loads(completion) == records[2].completion_ids
        assert json.loads(logprobs) == records[2].logprobs
        assert (request, chat, message) == tuple(
            body.decode() for body in (records[2].request, records[2].chat_request, records[2].message)
        )
        assert (same, nothing) == (message, None)
        with pytest.raises(DatabaseError, match="user-defined function raised exception"):
            captured.sql("SELECT polar_text(request) FROM calls WHERE seq = 2")
