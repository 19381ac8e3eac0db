"""`polar-capture env`"""

import os

import click

from polar_capture.commands import options
from polar_capture.config import check_session_id
from polar_capture.environment import SECRETS, Endpoint, proxy_addresses, render, variables
from polar_capture.home import Home
from polar_capture.launch import worker_for
from polar_capture.naming import new_session_id
from polar_capture.trust import write_bundle


@click.command()
@options.places
@click.option(
    "--proxy",
    envvar="POLAR_PROXY",
    default="http://127.0.0.1:8080",
    show_default=True,
    metavar="URL",
    help="The running proxy; of several (workers) the session's.  [env: POLAR_PROXY]",
)
@click.option("--key", envvar="POLAR_KEY", metavar="K", help="The proxy's key, where it has one.  [env: POLAR_KEY]")
@click.option("--session", metavar="ID", help="Session of all calls made with it; by default a new one.")
@click.option("--harness", metavar="NAME", help="Add what this harness needs besides.")
@click.option(
    "--shell",
    type=click.Choice(["sh", "fish", "powershell", "json"]),
    default="sh",
    show_default=True,
    help="Syntax of the lines.",
)
def env(db: str, home: Home, proxy: str, key: str | None, session: str | None, harness: str | None, shell: str) -> None:
    """Print the environment that points a harness at a running proxy.

    For instance: eval "$(polar-capture env --session my-run)". Secrets of ours that are set here are unset too: a
    harness must not see them.
    """
    session = check_session_id(session) if session else new_session_id(harness or "shell")
    address, own_key = worker_for(session, proxy_addresses(proxy))
    bundle = write_bundle(home.make_ca().read_text(encoding="utf-8"), home.bundle)
    values = variables(Endpoint(address, bundle, session, key or own_key), os.environ)
    if harness:
        from polar_capture.commands.preset import extra_environment

        values |= extra_environment(harness, home)
    click.echo(render(values, tuple(name for name in SECRETS if name in os.environ), shell))
