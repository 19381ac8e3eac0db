"""Opening: what a database may be, and what the refusal says when it may not."""

import os
import sqlite3
import stat
import subprocess
import sys
import time

import pytest
import sqlalchemy as sa

from polar_capture import store
from polar_capture.store.database import REVISION, parse_url
from polar_capture.store.store import DatabaseError
from tests.postgres import new_database, shared_server
from tests.unit.store.build import call, write


def test_a_new_database_is_made_at_once_and_opens_again(url, tmp_path):
    begun = time.perf_counter()
    with store.open(url, spool=tmp_path / "spool") as first:
        taken = time.perf_counter() - begun
        write(first, [call()])
    with store.open(url, create=False, spool=tmp_path / "spool") as again:
        assert len(again.calls("s")) == 1
    assert taken < 3  # 0.02 s on SQLite, 0.1 s on PostgreSQL, with much room for a busy machine


def test_a_sqlite_file_is_private(tmp_path):
    path = tmp_path / "deep" / "polar.db"
    with store.open(path) as opened:
        write(opened, [call()])
        for file in path.parent.iterdir():
            assert stat.S_IMODE(file.stat().st_mode) == 0o600, file
    assert [file.name for file in path.parent.iterdir()] == ["polar.db"]


@pytest.mark.parametrize(
    ("given", "backend", "database"),
    [
        ("polar.db", "sqlite", "polar.db"),
        ("/a/b c.db", "sqlite", "/a/b c.db"),
        ("sqlite:///polar.db", "sqlite", "polar.db"),
        ("sqlite:////a/b.db", "sqlite", "/a/b.db"),
        ("postgresql://u:p@h:1/d", "postgresql", "d"),
        ("postgres://h/d", "postgresql", "d"),
        ("postgresql+psycopg://h/d", "postgresql", "d"),
    ],
)
def test_the_forms_of_a_url(given, backend, database):
    url = parse_url(given)
    assert (url.get_backend_name(), url.database) == (backend, database)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("mysql://h/d", "mysql is not supported: give a path, sqlite:///PATH or postgresql://"),
        ("sqlite://", "a database in memory would be lost with the process"),
        ("sqlite:///:memory:", "a database in memory would be lost"),
        ("no such://thing", "is no database URL"),
    ],
)
def test_other_urls_are_refused(given, said):
    with pytest.raises(DatabaseError, match=said):
        store.open(given)


def test_what_is_not_there_is_not_made_for_a_reader(tmp_path):
    with pytest.raises(DatabaseError, match=r"polar\.db does not exist: name the database with --db or POLAR_DB"):
        store.open(tmp_path / "polar.db", create=False)
    assert not (tmp_path / "polar.db").exists()
    with pytest.raises(DatabaseError, match="holds no captures"):
        store.open(new_database(), create=False)


def make_text(path):
    path.write_text("dear diary, " * 50)


def make_folder(path):
    path.mkdir()


def make_foreign(path):
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE recipes (name TEXT)")


def make_old(path):
    store.open(path).close()
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '0000'")


def make_new(path):
    store.open(path).close()
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (make_text, "file is not a database: it is no SQLite file: name another with --db"),
        (make_folder, "is a folder: name a file with --db, for instance"),
        (make_foreign, "another program's database"),
        (make_old, f"at revision 0000, this version needs {REVISION}: run `polar-capture db upgrade`"),
        (make_new, f"at revision 9999, this version knows {REVISION}: use a newer polar-capture"),
    ],
)
@pytest.mark.parametrize("create", [True, False])
def test_what_can_not_be_used_says_why_and_what_to_do(tmp_path, make, said, create):
    path = tmp_path / "polar.db"
    make(path)
    with pytest.raises(DatabaseError, match=said) as refused:
        store.open(path, create=create)
    assert str(path) in str(refused.value)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission_is_named(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(DatabaseError, match="can't be created"):
        store.open(tmp_path / "polar.db")


def test_a_path_below_a_file_is_named(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(DatabaseError, match="can't be created"):
        store.open(tmp_path / "file" / "polar.db")


def test_an_old_postgres_is_refused_with_the_command(tmp_path):
    url = new_database()
    store.open(url, spool=tmp_path).close()
    engine = sa.create_engine(parse_url(url))
    with engine.begin() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '0000'")
    engine.dispose()
    with pytest.raises(DatabaseError, match="run `polar-capture db upgrade`"):
        store.open(url, spool=tmp_path)


def test_a_postgres_that_is_not_there_is_named_without_its_password(tmp_path):
    with pytest.raises(DatabaseError, match="check that the server runs and takes connections") as refused:
        store.open("postgresql://me:secret@127.0.0.1:1/polar", spool=tmp_path)
    assert "secret" not in str(refused.value)
    missing = shared_server().url("not_there")
    with pytest.raises(DatabaseError, match="does not exist: create it with `createdb`, or correct --db"):
        store.open(missing, spool=tmp_path)


MAKE = "import sys; from polar_capture import store; store.open(sys.argv[1]).close()"


def test_processes_that_make_one_database_at_the_same_time_all_succeed(url, tmp_path):
    environment = {**os.environ, "POLAR_HOME": str(tmp_path)}
    makers = [subprocess.Popen([sys.executable, "-c", MAKE, url], env=environment) for _ in range(3)]
    assert [maker.wait(60) for maker in makers] == [0, 0, 0]
    store.open(url, create=False, spool=tmp_path).close()


def test_synchronous_can_be_full(tmp_path):
    opened = store.open(tmp_path / "polar.db", synchronous="FULL")
    with opened, opened.database.write.connect() as connection:
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == 2
    with pytest.raises(ValueError, match="NORMAL or FULL"):
        store.open(tmp_path / "polar.db", synchronous="OFF")


def test_the_module_reads_the_tokens_of_a_call(tmp_path, monkeypatch):
    record = call(prompt=[1, 2], completion=[3])
    with store.open(tmp_path / "polar.db") as opened:
        write(opened, [record])
    assert store.tokens(record.id, db=tmp_path / "polar.db").prompt_ids.tolist() == [1, 2]
    monkeypatch.setenv("POLAR_DB", str(tmp_path / "polar.db"))
    assert store.tokens({"id": record.id}).completion_ids.tolist() == [3]
    with pytest.raises(KeyError, match="call nobody is not in"):
        store.tokens("nobody")


def test_the_module_keeps_a_few_databases_open_and_notices_one_that_was_replaced(tmp_path):
    records = {}
    for number in range(6):
        records[number] = call(prompt=[number, 2], completion=[3])
        with store.open(tmp_path / f"{number}.db") as opened:
            write(opened, [records[number]])
    for number in (*records, *records):
        assert store.tokens(records[number].id, tmp_path / f"{number}.db").prompt_ids.tolist() == [number, 2]
    (tmp_path / "1.db").replace(tmp_path / "0.db")
    assert store.tokens(records[1].id, tmp_path / "0.db").prompt_ids.tolist() == [1, 2]
    (tmp_path / "0.db").unlink()
    with pytest.raises(store.DatabaseError, match="does not exist"):
        store.tokens(records[1].id, tmp_path / "0.db")


def test_calls_that_are_written_while_the_module_reads_are_seen(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("POLAR_DB", raising=False)
    with store.open("polar.db") as opened:
        for number in range(3):
            record = call(seq=number, prompt=[number], completion=[3])
            write(opened, [record])
            assert store.tokens(record.id).prompt_ids.tolist() == [number]
