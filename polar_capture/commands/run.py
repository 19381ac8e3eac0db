"""`polar-capture run`"""

import os
from typing import TYPE_CHECKING, Any

import click
import msgspec
from click.core import ParameterSource

from polar_capture.commands import options
from polar_capture.commands.preset import Choice, prepared, preset_options
from polar_capture.config import ConfigError, check_session_id
from polar_capture.environment import proxy_addresses
from polar_capture.home import Home
from polar_capture.launch import worker_for
from polar_capture.naming import new_session_id

if TYPE_CHECKING:
    from polar_capture import session_run

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
@preset_options
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
    command: tuple[str, ...],
    **given: Any,
) -> None:
    """Run COMMAND (a harness, unmodified) behind a proxy, as one session.

    Its exit status is passed through (127 not found, 126 not executable, 128+n signal n). Status 3: it ended well, but
    no turn with token ids was captured; 4: the engine gives no ids; 5: the database cannot be used.
    """
    from polar_capture import session_run

    choice = _choice(command, {name: given.pop(name) for name in Choice.__struct_fields__})
    if not (choice or command):
        raise ConfigError("no command: polar-capture run [OPTIONS] -- COMMAND…, or --harness NAME --prompt TEXT")
    plan = session_run.Run(
        command=command,
        session=check_session_id(session) if session else new_session_id(choice.harness if choice else command[0]),
        home=home,
        db=db,
        db_named=ctx.get_parameter_source("db") is not ParameterSource.DEFAULT,
        spool=(given["spool"] or home.spool).absolute(),
        task_id=task,
        group_id=group,
        reward_command=reward_cmd,
    )
    if choice is None:
        ctx.exit(_start(ctx, plan, proxy, db, given))
    with prepared(choice, command, home, plan.session, os.environ) as launch:
        plan = msgspec.structs.replace(
            plan,
            command=launch.command,
            inherited=launch.inherited,
            extra=launch.environment,
            harness=launch.harness,
            harness_version=launch.version,
            finish=launch.finish,
        )
        if not proxy and given["assumed_window"] is None:
            given["assumed_window"] = launch.told_window
        status = _start(ctx, plan, proxy, db, given)
    ctx.exit(status)


def _start(ctx: click.Context, plan: "session_run.Run", proxy: str | None, db: str, given: dict[str, Any]) -> int:
    from polar_capture import session_run

    if proxy:
        _check_no_private_options(ctx, given)
        address, own_key = worker_for(plan.session, proxy_addresses(proxy))
        return session_run.with_running_proxy(plan, address, given["key"] or own_key)
    from polar_capture.commands.serve import check_proxy_is_possible

    check_proxy_is_possible()
    config = options.serve_config(db, plan.home, control_token=plan.home.control_token(), options=given)
    return session_run.with_private_proxy(plan, config, os.environ)


def _choice(command: tuple[str, ...], given: dict[str, Any]) -> Choice | None:
    """What the user wants of a preset; None: a command of their own."""
    if given["harness"] is None:
        for name in ("prompt", "dialect", "harness_model", "harness_home", "harness_env", "resume"):
            if given[name]:
                raise ConfigError(f"--{name.replace('_', '-')} is for a preset: name it with --harness NAME")
        return None
    if given["prompt"] is None:
        raise ConfigError(f"--harness {given['harness']} needs --prompt TEXT")
    return Choice(**given)


def _check_no_private_options(ctx: click.Context, given: dict[str, Any]) -> None:
    for name in given.keys() - SHARED:
        if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            option = next(parameter.opts[0] for parameter in ctx.command.params if parameter.name == name)
            raise ConfigError(
                f"{option} is for a private proxy, but --proxy (POLAR_PROXY) names a running one: drop one of the two"
            )
