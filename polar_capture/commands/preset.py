"""From a preset's name to a command and its environment, for `run --harness` and `env --harness`.

`polar_capture.harnesses.presets` offers `get(name)` (KeyError for others), `names()`, and presets with
`environment(home)` → dict and `command(prompt, arguments)` → argv; installing what is missing is theirs.
"""

import importlib
import importlib.util
from collections.abc import Mapping, Sequence
from typing import Any

from polar_capture.exits import Exit, Failure
from polar_capture.home import Home

PRESETS = "polar_capture.harnesses.presets"


def compose(name: str, prompt: str, arguments: Sequence[str], home: Home) -> tuple[tuple[str, ...], Mapping[str, str]]:
    """The command that gives `prompt` to a harness, with the user's own `arguments` added, and its environment."""
    preset = _preset(name)
    return tuple(preset.command(prompt, list(arguments))), preset.environment(home.path)


def extra_environment(name: str, home: Home) -> Mapping[str, str]:
    """What a harness needs besides proxy, CA and keys."""
    environment: Mapping[str, str] = _preset(name).environment(home.path)
    return environment


def _preset(name: str) -> Any:
    if importlib.util.find_spec(PRESETS) is None:
        raise Failure(
            f"--harness {name}: this installation has no harness presets; give the command: run -- COMMAND…", Exit.USAGE
        )
    presets = importlib.import_module(PRESETS)
    try:
        return presets.get(name)
    except KeyError:
        raise Failure(f"--harness {name!r} is unknown: one of {', '.join(presets.names())}", Exit.USAGE) from None
