"""Alembic's environment: called by `polar-capture db upgrade`, or by `alembic -c db/alembic.ini` with POLAR_DB set.

The views are dropped before and created after the migrations, so that a migration may change any table below them.
"""

import os

import sqlalchemy as sa
from alembic import context

from polar_capture.store.database import Database, create_views, drop_views, parse_url
from polar_capture.store.models import Base


def migrate() -> None:
    """Runs the migrations in one transaction on the database of the caller, or of POLAR_DB."""
    database = context.config.attributes.get("database")
    if database is None:
        database = Database(parse_url(os.environ.get("POLAR_DB", "sqlite:///polar.db")))
    with database.write.connect() as connection:
        if database.is_sqlite:
            # A table that is rebuilt (batch mode) must not take the rows that refer to it along.
            connection.connection.cursor().execute("PRAGMA foreign_keys=OFF")
        context.configure(
            connection=connection,
            target_metadata=Base.metadata,
            render_as_batch=database.is_sqlite,
            compare_type=True,
            transactional_ddl=True,  # SQLite has it as well, whatever Alembic thinks of its driver
        )
        with connection.begin():
            drop_views(connection)
            context.run_migrations()
            if sa.inspect(connection).has_table("calls"):
                create_views(connection)
    database.dispose()


migrate()
