"""From a preset's name to a process, for `run --harness` and `env --harness`."""

import contextlib
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click
import msgspec

from polar_capture.config import ConfigError
from polar_capture.environment import DUMMY_KEY
from polar_capture.exits import Exit, Failure
from polar_capture.harnesses import presets, versions
from polar_capture.harnesses.install import InstallError
from polar_capture.harnesses.launching import Launch, Wish, furnish, launch
from polar_capture.harnesses.preset import Preset
from polar_capture.home import Home

F = TypeVar("F", bound=Callable[..., Any])


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """The options of `run` that are about a preset, as the user gave them."""

    harness: str
    prompt: str
    dialect: str | None = None
    harness_model: str | None = None
    harness_home: Path | None = None
    harness_env: tuple[str, ...] = ()
    resume: bool = False


def preset_options(command: F) -> F:
    """The options of `Choice`."""
    options = [
        click.option("--harness", metavar="NAME[@VERSION]", help="Compose the command from this preset."),
        click.option("--prompt", metavar="TEXT", help="What the preset is asked to do."),
        click.option("--dialect", metavar="NAME", help="The wire format that the preset shall speak, of those it can."),
        click.option("--harness-model", metavar="NAME", help="The model name that the preset asks for."),
        click.option(
            "--harness-home",
            type=click.Path(path_type=Path, file_okay=False),
            help="HOME of the preset; by default a new, empty one, removed at the end.",
        ),
        click.option(
            "--harness-env", multiple=True, metavar="K=V", help="A variable for the preset; may be given several times."
        ),
        click.option("--resume", is_flag=True, help="Go on with the conversation in --harness-home."),
    ]
    for option in reversed(options):
        command = option(command)
    return command


@contextlib.contextmanager
def prepared(
    choice: Choice, arguments: tuple[str, ...], home: Home, session: str, environ: Mapping[str, str]
) -> Iterator[Launch]:
    """A harness ready to be started with the user's own `arguments` added, in a HOME that is there; what is missing is
    installed. Raises Failure."""
    preset, version = find(choice.harness)
    environment = dict(_variable(text) for text in choice.harness_env)
    wish = Wish(
        prompt=choice.prompt,
        arguments=arguments,
        dialect=choice.dialect,
        model=choice.harness_model,
        again=choice.resume,
        environment=environment,
    )
    if choice.dialect is not None and choice.dialect not in preset.ways:
        raise ConfigError(f"--dialect {choice.dialect!r}: {preset.name} speaks {', '.join(preset.ways)}")
    if choice.resume and (choice.harness_home is None or preset.again is None):
        why = "needs --harness-home DIR" if preset.again else f"is not possible with {preset.name}"
        raise ConfigError(f"--resume {why}")
    program = install(preset, version)
    with _home(choice.harness_home, home, session) as folder:
        furnish(preset, folder)
        yield launch(preset, wish, program, version, folder, environ)


def extra_environment(name: str, home: Home) -> dict[str, str]:
    """What a harness needs besides proxy, CA and keys, in a shell of the user's own."""
    preset, _ = find(name)
    return preset.variables(str(home.path), DUMMY_KEY)


def find(named: str) -> tuple[Preset, str]:
    """The preset and exact version of `NAME` or `NAME@VERSION`. Raises Failure with status 2 for an unknown name."""
    name, _, version = named.partition("@")
    try:
        preset = presets.get(name)
    except KeyError:
        raise Failure(f"harness {name!r} is unknown: one of {', '.join(presets.names())}", Exit.USAGE) from None
    try:
        return preset, versions.resolve(preset, version) if version else versions.chosen(preset)
    except InstallError as error:
        raise Failure(str(error)) from error


def install(preset: Preset, version: str) -> list[str]:
    """The command that starts this version, with all that the proxy needs of it. Raises Failure."""
    try:
        program = versions.install(preset, version)
        if preset.name == "codex":
            versions.codex_catalog(version, program)
    except InstallError as error:
        raise Failure(str(error)) from error
    return program


def _variable(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise ConfigError(f"--harness-env {text!r} has no value: write NAME=VALUE")
    return name, value


@contextlib.contextmanager
def _home(chosen: Path | None, home: Home, session: str) -> Iterator[Path]:
    if chosen is not None:
        yield home.folder(chosen.absolute())
        return
    folder = Path(tempfile.mkdtemp(prefix=f"{session[:40]}-", dir=home.folder(home.path / "agents")))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
