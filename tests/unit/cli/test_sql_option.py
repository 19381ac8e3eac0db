"""`--sql` of sessions, calls and show: any read-only statement, on both databases, in place of what they list."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from polar_capture import store
from polar_capture.cli import main
from tests.postgres import new_database
from tests.unit.cli.small_database import FAULTY, call


class Reader:
    """Commands over one database with session s-1 (two turns and an error) and an empty s-2 of group g'1."""

    def __init__(self, url: str, folder: Path) -> None:
        self._places = ["--db", url, "--home", str(folder / "home")]
        with store.open(url, spool=folder / "spool") as captured:
            writer = captured.writer()
            for record in (call(0), call(1), FAULTY):
                writer.call([record]).result(10)
            captured.upsert_session(store.records.SessionRecord("s-2", 2000.0, group_id="g'1"))

    def run(self, *arguments: str) -> Result:
        return CliRunner().invoke(main, [*arguments, *self._places])

    def json(self, *arguments: str) -> Any:
        done = self.run(*arguments, "--json")
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout)


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def reader(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Reader:
    folder = tmp_path_factory.mktemp("sql")
    return Reader(str(folder / "polar.db") if request.param == "sqlite" else new_database(), folder)


COMMANDS = [["sessions"], ["calls"], ["calls", "s-1"], ["show"], ["show", "s-1"], ["show", "--group", "g"], ["sql"]]


def with_sql(command: list[str], query: str) -> list[str]:
    return [*command, query] if command == ["sql"] else [*command, "--sql", query]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_statement_gives_its_own_rows_and_columns(reader: Reader, command: list[str]) -> None:
    query = "SELECT session_id, calls, errors FROM session_summary ORDER BY session_id"
    assert reader.json(*with_sql(command, query)) == [
        {"session_id": "s-1", "calls": 3, "errors": 1},
        {"session_id": "s-2", "calls": 0, "errors": 0},
    ]
    shown = reader.run(*with_sql(command, query)).output
    assert "errors" in shown
    assert "s-2" in shown


@pytest.mark.parametrize("view", store.database.VIEWS)
@pytest.mark.parametrize("command", [["sessions"], ["calls"], ["show"]], ids=" ".join)
def test_any_view_can_be_asked(reader: Reader, command: list[str], view: str) -> None:
    assert isinstance(reader.json(*command, "--sql", f"SELECT * FROM {view}"), list)


def test_what_the_command_names_may_stand_in_the_statement(reader: Reader) -> None:
    query = "SELECT seq FROM call_summary WHERE session_id = :session ORDER BY seq"
    assert reader.json("calls", "s-1", "--sql", query) == [{"seq": 0}, {"seq": 1}, {"seq": 2}]
    assert reader.json("calls", "s-2", "--sql", query) == []
    query = "SELECT session_id FROM session_summary WHERE group_id = :group"
    assert reader.json("show", "--group", "g'1", "--sql", query) == [{"session_id": "s-2"}]
    query = "SELECT id, CAST(seq AS TEXT) AS named FROM calls WHERE id = :name"
    assert reader.json("show", "call-1", "--sql", query) == [{"id": "call-1", "named": "1"}]


WRITES = [
    "DELETE FROM calls",
    "UPDATE sessions SET status = 'failed'",
    "INSERT INTO minted_ids VALUES ('x', 'call-0')",
    "DROP TABLE calls",
    "CREATE TABLE x (y INTEGER)",
    "SELECT 1; DELETE FROM calls",
    "SELECT 1; COMMIT; DROP TABLE rewards",
    "",
]


@pytest.mark.parametrize("query", [*WRITES, "SELECT oops FROM calls"])
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_statement_that_writes_or_is_wrong_is_refused_and_changes_nothing(
    reader: Reader, command: list[str], query: str
) -> None:
    done = reader.run(*with_sql(command, query))
    assert done.exit_code == 5, done.output
    assert "(statements here only read)" in done.output
    assert "Traceback" not in done.output
    assert [row["id"] for row in reader.json("calls", "s-1")] == ["call-0", "call-1", "call-2"]
    assert {row["status"] for row in reader.json("sessions")} == {"open"}


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["sessions", "--limit", "1"], "put --group, --status and --limit into its WHERE"),
        (["calls", "s-1", "--tokens"], "--sql and --tokens exclude each other"),
        (["show", "s-1", "--html", "page.html"], "--html and --sql exclude each other"),
    ],
)
def test_options_that_a_statement_makes_meaningless_are_refused(reader: Reader, command: list[str], said: str) -> None:
    done = reader.run(*command, "--sql", "SELECT 1")
    assert done.exit_code == 2
    assert said in done.output


def test_without_a_statement_the_names_are_still_needed(reader: Reader) -> None:
    assert reader.run("calls").exit_code == 2
    assert "name a SESSION" in reader.run("calls").output
    assert reader.run("show").exit_code == 2
    assert reader.run("calls", "nobody", "--sql", "SELECT 1").exit_code == 2
