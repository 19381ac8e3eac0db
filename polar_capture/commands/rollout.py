"""`polar-capture rollout`"""

import asyncio
import contextlib
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec
from click.core import ParameterSource

from polar_capture.commands import options
from polar_capture.commands.output import print_json, printable
from polar_capture.config import ConfigError
from polar_capture.exits import Exit
from polar_capture.home import Home

if TYPE_CHECKING:
    from polar_capture.rollout.progress import Board, Group
    from polar_capture.rollouts import Plan


@click.command(context_settings={"allow_interspersed_args": True})
@options.serving(port=0)
@options.places
@options.as_json
@click.option("--proxy", envvar="POLAR_PROXY", metavar="URL", help="Use running proxies.  [env: POLAR_PROXY]")
@click.option("--harness", metavar="NAME[@VERSION]", help="Who does the tasks; or name a COMMAND behind --.")
@click.option("--dialect", metavar="NAME", help="The wire format that the harness shall speak, of those it can.")
@click.option("--harness-model", metavar="NAME", help="The model name that the harness asks for.")
@click.option("--samples", type=int, default=8, show_default=True, metavar="N", help="Sessions a task: its group.")
@click.option("--parallel", type=int, default=4, show_default=True, metavar="P", help="Sessions at once.")
@click.option("--name", metavar="NAME", help="Of the rollout, to go on with it; by default that of the tasks file.")
@click.option(
    "--retries", type=int, default=2, show_default=True, help="New attempts at a sample after a fault below the agent."
)
@click.option(
    "--patience", type=float, default=300.0, show_default=True, metavar="S", help="Seconds to wait for a lost engine."
)
@click.option(
    "--runtime",
    type=click.Choice(["local", "jail", "docker", "podman", "apptainer"]),
    default="local",
    show_default=True,
    help="Plain processes, a network jail (Linux), or a container.",
)
@click.option("--image", metavar="IMAGE", help="The container's image.")
@click.option(
    "--ray", metavar="ADDRESS", help="Spread the sessions over a Ray cluster: auto, HOST:PORT or ray://HOST:PORT."
)
@click.option("--workdir", type=click.Path(path_type=Path, file_okay=False), help="Where the workspaces are made.")
@click.option("--keep", is_flag=True, help="Keep the workspaces of finished samples.")
@click.argument("tasks", type=click.Path(path_type=Path, dir_okay=False))
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def rollout(
    ctx: click.Context,
    tasks: Path,
    command: tuple[str, ...],
    db: str,
    home: Home,
    as_json: bool,
    ray: str | None,
    **given: Any,
) -> None:
    """Run groups of sessions on TASKS (one JSON object a line: id, prompt, workspace, setup, evaluator, …) and reward
    them; started again, do only what is missing.

    COMMAND behind -- is either more arguments for the harness, or, without --harness, an agent of your own; {prompt} in
    it stands for the task's prompt. Egress is blocked unless --egress says otherwise. Status 1: some samples could not
    be had or judged; 3: nothing was captured.
    """
    if given["proxy"]:
        _check_no_private_options(ctx)
    elif ctx.get_parameter_source("egress") is ParameterSource.DEFAULT:
        given["egress"] = "block"
    plan = _plan(tasks, command, db, home, given)
    from polar_capture.rollout.progress import Board

    board = Board(plan.tasks, plan.samples)
    groups = _interruptible(_watch(plan, board, ray, quiet=as_json))
    if as_json:
        print_json([msgspec.to_builtins(group) | {"rewards": group.rewards, "mean": group.mean} for group in groups])
    ctx.exit(_status(groups))


def _check_no_private_options(ctx: click.Context) -> None:
    """Options of a proxy of its own must not be given, and do nothing, beside a running one."""
    own = {parameter.name for parameter in options.serving(port=0)(click.command()(lambda: None)).params} - {"key"}
    for parameter in ctx.command.params:
        if parameter.name in own and ctx.get_parameter_source(str(parameter.name)) is ParameterSource.COMMANDLINE:
            raise ConfigError(
                f"{parameter.opts[0]} is for a private proxy, but --proxy (POLAR_PROXY) names a running one: drop one"
            )


def _plan(tasks: Path, command: tuple[str, ...], db: str, home: Home, given: dict[str, Any]) -> "Plan":
    from polar_capture.rollout import agents, isolation
    from polar_capture.rollouts import Plan, read_tasks

    wanted = {name: given.pop(name) for name in ("samples", "parallel", "retries", "patience", "runtime", "image")}
    wanted |= {name: given.pop(name) for name in ("workdir", "keep", "proxy")}
    name = given.pop("name") or tasks.name.removesuffix(".jsonl")[:40]
    agent = agents.Spec(
        harness=given.pop("harness"), command=command, dialect=given.pop("dialect"), model=given.pop("harness_model")
    )
    if agent.harness is None and not command:
        raise ConfigError("no agent: polar-capture rollout TASKS.jsonl --harness NAME, or TASKS.jsonl -- COMMAND…")
    read = read_tasks(tasks)
    isolation.make(wanted["runtime"], wanted["image"])
    key = given["key"]
    serve = None
    if wanted["proxy"] is None:
        from polar_capture.commands.serve import check_proxy_is_possible

        check_proxy_is_possible()
        if given["assumed_window"] is None:
            given["assumed_window"] = agent.told_window
        serve = options.serve_config(db, home, control_token=home.control_token(), options=given)
    return Plan(name=name, tasks=read, agent=agent, db=db, home=home, serve=serve, key=key, **wanted)


async def _watch(plan: "Plan", board: "Board", ray: str | None, *, quiet: bool) -> "list[Group]":
    from rich.console import Console
    from rich.live import Live

    from polar_capture import rollouts
    from polar_capture.rollout import table

    console = Console(stderr=True, highlight=False, markup=False)
    screen = Live(get_renderable=lambda: table.live(board), console=console, refresh_per_second=2)
    shown = console.is_terminal and not quiet
    if ray is None:
        groups = rollouts.run(plan, board)
    else:
        from polar_capture.rollout.cluster import spread

        groups = spread(plan, board, ray)
    finished: list[Group] = []
    with screen if shown else contextlib.nullcontext():
        async with contextlib.aclosing(groups):
            async for group in groups:
                finished.append(group)
                if not shown:
                    click.echo(f"polar-capture: {printable(table.line(group))}", err=True)
    for text in [*table.node_lines(board), f"rollout {plan.name}: {table.total(board)}"]:
        click.echo(f"polar-capture: {text}", err=True)
    return finished


def _interruptible(work: Any) -> Any:
    """Run it; SIGINT, SIGTERM and SIGHUP cancel it, so that every sample's processes are ended first."""

    async def main() -> Any:
        task = asyncio.ensure_future(work)
        caught: list[int] = []

        def stop(number: int) -> None:
            if not caught:
                click.echo("polar-capture: stopping; started again, the rollout goes on from here", err=True)
                caught.append(number)
                task.cancel()

        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            asyncio.get_running_loop().add_signal_handler(number, stop, number)
        try:
            return await task
        except asyncio.CancelledError:
            if caught:
                raise click.exceptions.Exit(Exit.SIGNALLED + caught[0]) from None
            raise

    return asyncio.run(main())


def _status(groups: "list[Group]") -> int:
    results = [result for group in groups for result in group.results]
    if not any(result.turns for result in results):
        return Exit.NOTHING
    return Exit.FAULT if any(result.error for result in results) else Exit.OK
