"""A preset: how one harness is installed, told its task, its model and its dialect, and started without a login."""

from collections.abc import Mapping

import msgspec


class Npm(msgspec.Struct, frozen=True):
    """A package of the npm registry, at the version that our facts were measured on, and the program it brings."""

    package: str
    version: str
    program: str


class PyPI(msgspec.Struct, frozen=True):
    """A package of PyPI, the same way; `python` is the version of Python that it wants."""

    package: str
    version: str
    program: str
    python: str = "3.12"


class Way(msgspec.Struct, frozen=True, kw_only=True):
    """How a harness is told to speak one dialect, and to ask for a model by name.

    `{model}` stands for the model in `model_arguments` and `environment`. A `model` of None is the harness's own
    choice: then neither is used.
    """

    model: str | None = None
    arguments: tuple[str, ...] = ()
    model_arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = {}
    window: int | None = None
    """Tokens of context that it believes `model` to have, and compacts by; None where it reckons otherwise."""

    @property
    def told_window(self) -> int | None:
        """The window that usage is told against (`--assumed-window`): a tenth above the believed one, because some
        harnesses compact at 97 % of it, and the call that sums up must itself fit into ours."""
        return None if self.window is None else self.window * 10 // 9


class Preset(msgspec.Struct, frozen=True, kw_only=True):
    """One harness. In arguments `{prompt}` stands for the task, in environment and files `{home}` for its HOME and
    `{key}` for the dummy key."""

    name: str
    title: str
    package: Npm | PyPI
    start: tuple[str, ...]
    """Arguments that make it run headless."""
    again: tuple[str, ...] | None = None
    """The same to go on with the conversation that its HOME holds; None where it cannot."""
    prompt: tuple[str, ...] = ("{prompt}",)
    ways: Mapping[str, Way]
    """By dialect; the first is the default."""
    environment: Mapping[str, str] = {}
    files: Mapping[str, str] = {}
    """Files in its HOME, by path."""
    ca: tuple[str, ...]
    """Variables that make it trust a CA; one of them is enough."""
    finish: tuple[str, ...] = ()
    """A command that ends what it leaves running."""
    waits: int | None = None
    """Seconds that it waits for an answer without a stream, which no keep-alive can lengthen; None: it streams."""
    notes: str = ""

    @property
    def dialect(self) -> str:
        return next(iter(self.ways))

    def arguments(self, prompt: str, *, dialect: str | None = None, model: str | None = None, again: bool = False):
        """What follows the program's name. KeyError for a dialect that it does not speak, ValueError where it cannot
        go on with a conversation."""
        way = self.ways[dialect or self.dialect]
        start = self.again if again else self.start
        if start is None:
            raise ValueError(f"{self.name} cannot go on with an earlier conversation")
        model = model or way.model
        wanted = (*way.arguments, *(way.model_arguments if model else ()))
        task = tuple(part.replace("{prompt}", prompt) for part in self.prompt)
        return (*start, *(part.replace("{model}", model or "") for part in wanted), *task)

    def variables(self, home: str, key: str, *, dialect: str | None = None, model: str | None = None) -> dict[str, str]:
        """What it needs in its environment besides proxy, CA and keys."""
        way = self.ways[dialect or self.dialect]
        model = model or way.model
        values = {**self.environment, **(way.environment if model or "{model}" not in str(way.environment) else {})}
        return {
            name: value.replace("{home}", home).replace("{key}", key).replace("{model}", model or "")
            for name, value in values.items()
        }
