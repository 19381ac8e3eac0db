"""Migrations: what they make is what the models say, with data in it, up and down, on both databases."""

import shutil

import pytest
import sqlalchemy as sa
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory

from polar_capture import resources, store
from polar_capture.store.database import REVISION, VIEWS, Database, parse_url
from polar_capture.store.models import Base
from polar_capture.store.store import DatabaseError
from polar_capture.store.upkeep import check, upgrade
from tests.unit.store.build import assert_equal, chain, write

NEXT = '''"""A column more. Revision 0002, after 0001."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade():
    with op.batch_alter_table("calls") as calls:
        calls.add_column(sa.Column("note", sa.Text()))
        calls.alter_column("status", new_column_name="outcome")


def downgrade():
    with op.batch_alter_table("calls") as calls:
        calls.drop_column("note")
        calls.alter_column("outcome", new_column_name="status")
'''


def config(url, folder=None):
    made = Config()
    made.set_main_option("script_location", str(folder or resources.folder("db")))
    made.attributes["database"] = Database(parse_url(url))
    return made


def schema(url):
    """Columns, indexes and foreign keys of each table and view."""
    engine = sa.create_engine(parse_url(url))
    found = {}
    with engine.connect() as connection:
        inspector = sa.inspect(connection)
        for name in [*inspector.get_table_names(), *inspector.get_view_names()]:
            columns = [
                (column["name"], str(column["type"]), column["nullable"]) for column in inspector.get_columns(name)
            ]
            indexes = sorted(
                (index["name"], tuple(index["column_names"]), bool(index["unique"]))
                for index in inspector.get_indexes(name)
            )
            keys = sorted((key["name"], tuple(key["constrained_columns"])) for key in inspector.get_foreign_keys(name))
            found[name] = (columns, indexes, keys, inspector.get_pk_constraint(name)["constrained_columns"])
    engine.dispose()
    return found


def other(url):
    """A second empty database of the same kind."""
    if url.startswith("sqlite"):
        return url.replace("polar.db", "other.db")
    from tests.postgres import new_database

    return new_database()


def test_the_head_is_the_revision_that_the_code_names():
    scripts = ScriptDirectory(str(resources.folder("db")))
    assert scripts.get_current_head() == REVISION


def test_migrations_make_what_opening_makes(url, tmp_path):
    migrated = other(url)
    command.upgrade(config(migrated), "head")
    store.open(url, spool=tmp_path).close()
    assert schema(migrated) == schema(url)
    assert set(VIEWS) <= set(schema(migrated))
    store.open(migrated, create=False, spool=tmp_path).close()


def test_migrations_make_what_the_models_say(url):
    command.upgrade(config(url), "head")
    engine = sa.create_engine(parse_url(url))
    with engine.connect() as connection:
        differences = compare_metadata(MigrationContext.configure(connection), Base.metadata)
    engine.dispose()
    assert differences == []


def test_down_to_nothing_and_up_again(url, tmp_path):
    store.open(url, spool=tmp_path).close()
    command.downgrade(config(url), "base")
    assert set(schema(url)) == {"alembic_version"}
    command.upgrade(config(url), "head")
    with store.open(url, create=False, spool=tmp_path) as captured:
        write(captured, chain(2))


def test_a_migration_up_and_down_keeps_the_data(url, tmp_path, monkeypatch):
    records = chain(40)
    with store.open(url, spool=tmp_path) as captured:
        for record in records:
            record.minted = [f"msg_{record.id}"]
        write(captured, records)
        captured.add_reward("s", 1.0, call_id=records[3].id)
    folder = tmp_path / "db"
    shutil.copytree(resources.folder("db"), folder)
    (folder / "versions" / "0002_a_column_more.py").write_text(NEXT)
    for view in VIEWS:  # views of the newer version know the column by its new name
        path = folder / "views" / f"{view}.sql"
        path.write_text(path.read_text().replace("c.status", "c.outcome"))
    with monkeypatch.context() as patched:
        patched.setattr(resources, "folder", lambda _: folder)
        command.upgrade(config(url, folder), "head")
    engine = sa.create_engine(parse_url(url))
    with engine.connect() as connection:
        assert (
            connection.exec_driver_sql("SELECT COUNT(*) FROM calls WHERE outcome = 'ok' AND note IS NULL").scalar()
            == 40
        )
    engine.dispose()
    with pytest.raises(DatabaseError, match="at revision 0002, this version knows 0001: use a newer polar-capture"):
        store.open(url, spool=tmp_path)
    with pytest.raises(DatabaseError, match="use a newer polar-capture"):
        upgrade(url)
    command.downgrade(config(url, folder), "0001")
    with store.open(url, create=False, spool=tmp_path) as captured:
        for record in records:
            assert_equal(captured, record)
        assert captured.find_minted([f"msg_{records[5].id}"]) != {}
        assert captured.rewards("s")[0]["call_id"] == records[3].id
        assert list(check(captured)) == []


def test_upgrade_tells_from_where_to_where(url, tmp_path):
    store.open(url, spool=tmp_path).close()
    assert upgrade(url) == (REVISION, REVISION)


def test_upgrade_of_nothing_is_refused(tmp_path):
    with pytest.raises(DatabaseError, match="does not exist: name the database with --db"):
        upgrade(tmp_path / "polar.db")


def test_upgrade_brings_an_older_database_to_this_version(url, tmp_path, monkeypatch):
    store.open(url, spool=tmp_path).close()
    folder = tmp_path / "db"
    shutil.copytree(resources.folder("db"), folder)
    (folder / "versions" / "0002_a_column_more.py").write_text(
        NEXT.replace('        calls.alter_column("status", new_column_name="outcome")\n', "")
    )
    monkeypatch.setattr(resources, "folder", lambda _: folder)
    monkeypatch.setattr("polar_capture.store.database.REVISION", "0002")
    monkeypatch.setattr("polar_capture.store.upkeep.REVISION", "0002")
    with pytest.raises(
        DatabaseError, match="at revision 0001, this version needs 0002: run `polar-capture db upgrade`"
    ):
        store.open(url, spool=tmp_path)
    assert upgrade(url) == ("0001", "0002")
    store.open(url, spool=tmp_path).close()
