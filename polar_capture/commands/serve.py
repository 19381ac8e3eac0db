"""`polar-capture serve`"""

import importlib.util
import os
import signal
import sys
import threading
from typing import Any

import click

from polar_capture.commands import options
from polar_capture.exits import Exit, Failure
from polar_capture.home import Home


@click.command()
@options.serving(port=8080)
@options.places
@click.option("--until-stdin-closes", is_flag=True, hidden=True)
@click.pass_context
def serve(ctx: click.Context, db: str, home: Home, until_stdin_closes: bool, **given: Any) -> None:
    """Start the capturing proxy.

    Prints one line on stdout once it takes calls: `polar-capture ready {…}`. SIGTERM and SIGINT let running calls end,
    write everything and stop. Status 4: the engine gives no token ids; 5: the database cannot be used.
    """
    check_proxy_is_possible()
    config = options.serve_config(db, home, control_token=home.control_token(), options=given)
    home.folder(config.spool_folder)
    home.make_ca()
    if until_stdin_closes:
        _stop_when_stdin_closes()
    if config.workers > 1:
        from polar_capture.workers import serve_all

        ctx.exit(serve_all(config))
    from polar_capture import proxy

    ctx.exit(int(proxy.serve(config)))


def check_proxy_is_possible() -> None:
    """Raise Failure (status 2) on a Python that cannot be the proxy."""
    if sys.version_info < (3, 13):
        running = ".".join(map(str, sys.version_info[:3]))
        raise Failure(
            f"the proxy needs Python 3.13 or newer, and this is {running}: install polar-capture there and run "
            "`serve` from it; all commands that only read the database work here too",
            Exit.USAGE,
        )
    if importlib.util.find_spec("mitmproxy") is None:
        raise Failure("the proxy needs mitmproxy: pip install 'mitmproxy>=12.3.1,<13'", Exit.USAGE)


def _stop_when_stdin_closes() -> None:
    """Whoever started us holds our stdin: when it dies, however hard, we drain and end instead of staying behind."""

    def watch() -> None:
        while os.read(0, 1024):
            pass
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, daemon=True, name="stdin-watch").start()
