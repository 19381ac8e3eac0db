"""Who does the tasks: a harness from the presets, or a command of the user's own."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from polar_capture.child import check_command
from polar_capture.exits import Exit, Failure
from polar_capture.harnesses import presets, versions
from polar_capture.harnesses.install import InstallError
from polar_capture.harnesses.launching import Launch, Wish, furnish, inherited, launch, told_window
from polar_capture.harnesses.preset import Preset
from polar_capture.rollout.tasks import Task


class Agent(Protocol):
    """`launch` says how to start it on a task in this HOME, which is there and may be filled."""

    name: str
    version: str

    def launch(self, task: Task, home: Path) -> Launch: ...


class OwnCommand:
    """A command with `{prompt}` in it, or with the prompt as its last argument."""

    name = "command"
    version = ""

    def __init__(self, command: Sequence[str], environ: Mapping[str, str] = os.environ) -> None:
        check_command(command, environ)
        self._command = tuple(command)
        self._environ = environ

    def launch(self, task: Task, home: Path) -> Launch:
        command = tuple(part.replace("{prompt}", task.prompt) for part in self._command)
        if command == self._command:
            command = (*command, task.prompt)
        return Launch(
            command=command,
            inherited=inherited(self._environ),
            environment={"HOME": str(home), **task.env},
            harness=Path(self._command[0]).name,
            version=self.version,
        )


class PresetAgent:
    """One of the presets at an exact version, installed once for the whole rollout."""

    def __init__(
        self, preset: Preset, version: str, program: Sequence[str], arguments: Sequence[str] = (), **wish: str | None
    ) -> None:
        self.name, self.version = preset.name, version
        self._preset, self._program = preset, program
        self._arguments, self._wish = tuple(arguments), wish

    def launch(self, task: Task, home: Path) -> Launch:
        furnish(self._preset, home)
        wish = Wish(prompt=task.prompt, arguments=self._arguments, environment=task.env, **self._wish)  # type: ignore[arg-type]
        return launch(self._preset, wish, self._program, self.version, home, os.environ)


def preset_agent(
    named: str, arguments: Sequence[str] = (), *, dialect: str | None = None, model: str | None = None
) -> PresetAgent:
    """The agent of `NAME` or `NAME@VERSION`, installed where it is missing. Raises Failure: status 2 for a name that
    is unknown."""
    name, _, version = named.partition("@")
    try:
        preset = presets.get(name)
    except KeyError:
        raise Failure(f"harness {name!r} is unknown: one of {', '.join(presets.names())}", Exit.USAGE) from None
    if dialect is not None and dialect not in preset.ways:
        raise Failure(f"--dialect {dialect!r}: {name} speaks {', '.join(preset.ways)}", Exit.USAGE)
    try:
        version = versions.resolve(preset, version) if version else versions.chosen(preset)
        program = versions.install(preset, version)
        if preset.name == "codex":
            versions.codex_catalog(version, program)
    except InstallError as error:
        raise Failure(f"harness {name} is not installed and could not be: {error}") from error
    return PresetAgent(preset, version, program, arguments, dialect=dialect, model=model)


class Spec(msgspec.Struct, frozen=True, kw_only=True):
    """What agent a rollout shall have, as a value that can be sent to another machine."""

    harness: str | None = None
    command: tuple[str, ...] = ()
    dialect: str | None = None
    model: str | None = None

    def make(self) -> Agent:
        """Raises Failure as `preset_agent` does, and for a command that is not there (status 127)."""
        if self.harness is None:
            return OwnCommand(self.command)
        return preset_agent(self.harness, self.command, dialect=self.dialect, model=self.model)

    @property
    def told_window(self) -> int | None:
        """What `--assumed-window` should be for this agent; None where nothing is known of it."""
        known = {preset.name: preset for preset in presets.PRESETS}
        preset = known.get((self.harness or "").partition("@")[0])
        return None if preset is None else told_window(preset, self.dialect, self.model)

    @property
    def label(self) -> str:
        return self.harness or (Path(self.command[0]).name if self.command else "")
