"""`polar-capture addon-path`"""

import click

from polar_capture.commands import options
from polar_capture.exits import Failure
from polar_capture.home import Home


@click.command("addon-path")
@options.places
def addon_path(db: str, home: Home) -> None:
    """Print the path of the script for `mitmdump -s` and `mitmweb -s`."""
    from polar_capture.resources import addon_script

    try:
        click.echo(addon_script())
    except FileNotFoundError as error:
        raise Failure(str(error)) from error
