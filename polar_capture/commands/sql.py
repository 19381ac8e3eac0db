"""`polar-capture sql`"""

import click

from polar_capture.commands import options, querying
from polar_capture.home import Home


@click.command()
@click.argument("query")
@options.places
@options.as_json
def sql(query: str, db: str, home: Home, as_json: bool) -> None:
    """Run QUERY, one read-only statement, on the tables and views that db/README.md explains.

    With --json a list of objects, binary columns in base64. A statement that would write is refused with status 5.
    """
    from polar_capture.commands.reading import open_store

    with open_store(db, home) as captured:
        querying.print_rows(captured, query, as_json)
