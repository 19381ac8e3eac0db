"""`polar-capture harness`"""

import shlex
from typing import Any

import click

from polar_capture.commands import options
from polar_capture.commands.output import print_json, print_table
from polar_capture.commands.preset import find, install
from polar_capture.environment import DUMMY_KEY
from polar_capture.exits import Failure
from polar_capture.harnesses import presets, versions
from polar_capture.harnesses.install import InstallError
from polar_capture.harnesses.preset import Npm, Preset


@click.group()
def harness() -> None:
    """Show and install harnesses: coding agents that run unmodified behind the proxy."""


@harness.command("list")
@options.as_json
def list_all(as_json: bool) -> None:
    """The harnesses with a preset, the version that is used, and what they speak."""
    rows = [_facts(preset) for preset in presets.PRESETS]
    if as_json:
        print_json(rows)
        return
    columns = ("name", "version", "installed", "dialects")
    print_table(columns, [(r["name"], r["version"], r["installed"], ", ".join(r["dialects"])) for r in rows])


@harness.command()
@click.argument("name")
@options.as_json
def show(name: str, as_json: bool) -> None:
    """How one harness is installed and started, and what it needs: `window` is the context in tokens that it believes
    to have, by dialect; `waits` the seconds after which it gives up on an answer without a stream."""
    preset, version = find(name)
    facts = _facts(preset, version) | _start(preset)
    if as_json:
        print_json(facts)
        return
    for key, value in facts.items():
        if isinstance(value, dict):
            value = "\n".join(f"{name}={text}" for name, text in value.items())
        elif isinstance(value, list):
            value = ", ".join(value)
        first, *rest = str("" if value is None else value).split("\n")
        click.echo("\n".join([f"{key:12} {first}".rstrip(), *(" " * 13 + line for line in rest)]))


@harness.command("install")
@click.argument("name", metavar="NAME[@VERSION]")
def install_one(name: str) -> None:
    """Install a harness and use this version from now on: without VERSION the one that was tested, `@latest` the
    newest."""
    wanted = name.partition("@")[2]
    preset, _ = find(name.partition("@")[0])
    try:
        version = versions.resolve(preset, wanted)
    except InstallError as error:
        raise Failure(str(error)) from error
    command = install(preset, version)
    versions.choose(preset, version)
    click.echo(f"{preset.name} {version}: {shlex.join(command)}")


def _facts(preset: Preset, version: str | None = None) -> dict[str, Any]:
    version = version or versions.chosen(preset)
    return {
        "name": preset.name,
        "title": preset.title,
        "version": version,
        "tested": preset.package.version,
        "installed": versions.installed(preset, version),
        "dialects": list(preset.ways),
    }


def _start(preset: Preset) -> dict[str, Any]:
    registry = "npm" if isinstance(preset.package, Npm) else "PyPI"
    return {
        "package": f"{preset.package.package} ({registry})",
        "command": shlex.join([preset.package.program, *preset.arguments("PROMPT")]),
        "resume": shlex.join([preset.package.program, *preset.arguments("PROMPT", again=True)])
        if preset.again
        else None,
        "environment": preset.variables("$HOME", DUMMY_KEY),
        "files": list(preset.files),
        "ca": list(preset.ca),
        "window": {dialect: way.window for dialect, way in preset.ways.items() if way.window is not None},
        "waits": preset.waits,
        "notes": preset.notes,
    }
