"""The command line. Commands are imported when they are called, so that `--help` and `env` are quick and those that
need no proxy run on every Python that the library supports."""

import importlib
import importlib.util
import os
import sys
from typing import NamedTuple, NoReturn

import click

from polar_capture.config import ConfigError
from polar_capture.exits import Exit, Failure

DEBUG = "POLAR_DEBUG"


class Lazy(NamedTuple):
    """A command that is imported on use: `module:attribute` and its line in `--help`."""

    target: str
    summary: str


COMMANDS = {
    "serve": Lazy("polar_capture.commands.serve:serve", "Start the capturing proxy."),
    "run": Lazy("polar_capture.commands.run:run", "Run one harness behind a proxy, as one session."),
    "env": Lazy("polar_capture.commands.env:env", "Print the environment that points a harness at the proxy."),
    "harness": Lazy("polar_capture.commands.harness:harness", "Show and install harnesses."),
    "sessions": Lazy("polar_capture.commands.sessions:sessions", "List the sessions."),
    "calls": Lazy("polar_capture.commands.calls:calls", "List the calls of a session."),
    "show": Lazy("polar_capture.commands.show:show", "Show a call, a session or a group."),
    "top": Lazy("polar_capture.commands.top:top", "Watch a running proxy."),
    "sql": Lazy("polar_capture.commands.sql:sql", "Run one read-only query."),
    "reward": Lazy("polar_capture.commands.reward:reward", "Give a session or a call a reward."),
    "rollout": Lazy(
        "polar_capture.commands.rollout:rollout", "Run groups of sessions on a file of tasks, and reward them."
    ),
    "build": Lazy("polar_capture.commands.build:build", "Build training samples from the captured calls."),
    "export": Lazy("polar_capture.commands.export:export", "Write samples in a trainer's format."),
    "verify": Lazy("polar_capture.commands.verify:verify", "Check every row, and re-score samples on the engine."),
    "db": Lazy("polar_capture.commands.db:db", "Upgrade, check, prune and move the database."),
    "addon-path": Lazy("polar_capture.commands.addon_path:addon_path", "Print the script for `mitmdump -s`."),
}


class LazyGroup(click.Group):
    """A group whose commands live in modules of their own; one whose module is missing is not there."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [name for name, lazy in COMMANDS.items() if importlib.util.find_spec(lazy.target.partition(":")[0])]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.list_commands(ctx):
            return None
        module, _, attribute = COMMANDS[cmd_name].target.partition(":")
        command = getattr(importlib.import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        # Click would import every command to read its first line.
        with formatter.section("Commands"):
            formatter.write_dl([(name, COMMANDS[name].summary) for name in self.list_commands(ctx)])

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except (click.exceptions.Exit, click.ClickException, click.Abort, BrokenPipeError):
            raise
        except ConfigError as error:
            raise click.UsageError(str(error)) from error
        except KeyboardInterrupt:
            _end("interrupted", Exit.SIGNALLED + 2)
        except Exception as error:
            expected = _explain(error)
            if expected is not None:
                _end(*expected)
            if os.environ.get(DEBUG):
                raise
            where = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            _end(f"unexpected error: {where} ({DEBUG}=1 shows where)", Exit.FAULT)


def _explain(error: Exception) -> tuple[str, int] | None:
    """Message and status of an error that a user can meet; None for one that only a fault of ours brings about."""
    from polar_capture.home import HomeError
    from polar_capture.trust import TrustError

    if isinstance(error, Failure):
        return str(error), error.status
    if isinstance(error, HomeError | TrustError):
        return str(error), Exit.FAULT
    if _is(error, "polar_capture.store.codec", "CodecError"):
        return f"{error}: `polar-capture db check` names all damaged rows", Exit.DATABASE
    if _is(error, "polar_capture.store.database", "DatabaseError") or _is(error, "sqlalchemy.exc", "SQLAlchemyError"):
        return str(getattr(error, "orig", None) or error), Exit.DATABASE
    return None


def _is(error: Exception, module: str, name: str) -> bool:
    # Such an error can only be there if its module was imported; importing them here would slow every other error.
    return module in sys.modules and isinstance(error, getattr(sys.modules[module], name))


def _end(message: str, status: int) -> NoReturn:
    click.echo(f"polar-capture: {message}", err=True)
    raise click.exceptions.Exit(int(status))


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="polar-capture", prog_name="polar-capture")
def main() -> None:
    """Capture the exact tokens that a policy sampled behind any unmodified coding agent."""
