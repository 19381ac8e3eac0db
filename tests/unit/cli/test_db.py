"""`db`: thin over the store's upkeep."""

import sqlite3
from pathlib import Path

import pytest

from tests.unit.cli.small_database import Stage


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


def test_a_database_of_this_version_needs_no_upgrade(stage: Stage) -> None:
    found = stage.json("db", "upgrade")
    assert found["before"] == found["after"]
    assert "already at revision" in stage.run("db", "upgrade").output


def test_a_sound_database_is_said_to_be_sound(stage: Stage) -> None:
    assert stage.json("db", "check") == []
    assert stage.json("db", "check", "s-1") == []
    assert "sound" in stage.run("db", "check").output
    assert stage.run("db", "check", "s-9").exit_code == 2


def test_a_damaged_row_is_status_5_and_named(stage: Stage) -> None:
    with sqlite3.connect(stage.db) as connection:
        connection.execute("UPDATE calls SET prompt_sha256 = x'00' WHERE id = 'call-1'")
    done = stage.run("db", "check")
    assert done.exit_code == 5
    assert "call-1" in done.output
    assert stage.run("show", "call-1").exit_code == 5


def test_stats_count_rows_and_tokens(stage: Stage) -> None:
    found = stage.json("db", "stats")
    assert (found["rows"]["sessions"], found["rows"]["calls"], found["completion_tokens"]) == (2, 3, 4)
    assert "rows: calls" in stage.run("db", "stats").output


def test_prune_deletes_what_is_not_kept(stage: Stage) -> None:
    assert stage.run("db", "prune").exit_code == 2
    assert stage.json("db", "prune", "--keep-sessions", "1", "--dry-run")["sessions"] == 1
    assert len(stage.json("sessions")) == 2
    assert "deleted 1 sessions with 3 calls" in stage.run("db", "prune", "--keep-sessions", "1").output
    assert [row["id"] for row in stage.json("sessions")] == ["s-2"]


def test_a_session_moves_to_another_database(stage: Stage, tmp_path: Path) -> None:
    file, other = tmp_path / "one.db", tmp_path / "other.db"
    assert stage.json("db", "export-session", "s-1", str(file))["calls"] == 3
    assert stage.run("db", "export-session", "s-1", str(file)).exit_code == 2  # it exists
    assert stage.run("db", "export-session", "s-9", str(tmp_path / "none.db")).exit_code == 2
    there = Stage.__new__(Stage)
    there.folder, there.db = tmp_path, other
    assert there.json("db", "import-session", str(file)) == {"sessions": 1, "calls": 3, "rewards": 0, "samples": 0}
    assert there.json("db", "import-session", str(file))["calls"] == 0
    assert there.json("calls", "s-1", "--tokens") == stage.json("calls", "s-1", "--tokens")
    assert there.run("db", "import-session", str(tmp_path / "gone.db")).exit_code == 2


def test_vacuum_tells_the_sizes(stage: Stage) -> None:
    assert stage.json("db", "vacuum")["bytes_after"] > 0
