"""`polar-capture run`"""

import os
from collections.abc import Mapping
from typing import Any

import click
from click.core import ParameterSource

from polar_capture.commands import options
from polar_capture.config import ConfigError, check_session_id
from polar_capture.environment import proxy_addresses
from polar_capture.home import Home
from polar_capture.launch import worker_for
from polar_capture.naming import new_session_id

SHARED = {"key"}
"""Options of `serve` that also matter with a proxy that runs already."""


@click.command(context_settings={"allow_interspersed_args": False})
@options.serving(port=0)
@options.places
@click.option(
    "--proxy",
    envvar="POLAR_PROXY",
    metavar="URL",
    help="Use this running proxy; of several (workers) the session's.  [env: POLAR_PROXY]",
)
@click.option("--session", metavar="ID", help="Name of the session; by default a new one.")
@click.option("--task", metavar="T", help="The task that the session is an attempt at.")
@click.option("--group", metavar="G", help="The group whose rewards are compared.")
@click.option(
    "--reward-cmd",
    metavar="CMD",
    help='Evaluator, run when the agent is dead: last-line number, JSON {"reward": …}, or its status (0 is 1, else 0).',
)
@click.option("--harness", metavar="NAME", help="Compose the command from this preset.")
@click.option("--prompt", metavar="TEXT", help="What the preset is asked to do.")
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def run(
    ctx: click.Context,
    db: str,
    home: Home,
    proxy: str | None,
    session: str | None,
    task: str | None,
    group: str | None,
    reward_cmd: str | None,
    harness: str | None,
    prompt: str | None,
    command: tuple[str, ...],
    **given: Any,
) -> None:
    """Run COMMAND (a harness, unmodified) behind a proxy, as one session.

    Its exit status is passed through (127 not found, 126 not executable, 128+n signal n). Status 3: it ended well, but
    no turn with token ids was captured; 4: the engine gives no ids; 5: the database cannot be used.
    """
    from polar_capture import session_run

    command, extra = _command(command, harness, prompt, home)
    plan = session_run.Run(
        command=command,
        session=check_session_id(session) if session else new_session_id(harness or command[0]),
        home=home,
        db=db,
        db_named=ctx.get_parameter_source("db") is not ParameterSource.DEFAULT,
        spool=(given["spool"] or home.spool).absolute(),
        task_id=task,
        group_id=group,
        reward_command=reward_cmd,
        extra=extra,
    )
    if proxy:
        _check_no_private_options(ctx, given)
        address, own_key = worker_for(plan.session, proxy_addresses(proxy))
        ctx.exit(session_run.with_running_proxy(plan, address, given["key"] or own_key))
    from polar_capture.commands.serve import check_proxy_is_possible

    check_proxy_is_possible()
    config = options.serve_config(db, home, control_token=home.control_token(), options=given)
    ctx.exit(session_run.with_private_proxy(plan, config, os.environ))


def _command(
    command: tuple[str, ...], harness: str | None, prompt: str | None, home: Home
) -> tuple[tuple[str, ...], Mapping[str, str]]:
    """The command to run and what it needs in its environment besides the proxy."""
    if harness is None:
        if prompt is not None:
            raise ConfigError("--prompt is for a preset: name it with --harness NAME")
        if not command:
            raise ConfigError("no command: polar-capture run [OPTIONS] -- COMMAND…, or --harness NAME --prompt TEXT")
        return command, {}
    if prompt is None:
        raise ConfigError(f"--harness {harness} needs --prompt TEXT")
    from polar_capture.commands.preset import compose

    return compose(harness, prompt, command, home)


def _check_no_private_options(ctx: click.Context, given: dict[str, Any]) -> None:
    for name in given.keys() - SHARED:
        if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            option = next(parameter.opts[0] for parameter in ctx.command.params if parameter.name == name)
            raise ConfigError(
                f"{option} is for a private proxy, but --proxy (POLAR_PROXY) names a running one: drop one of the two"
            )
