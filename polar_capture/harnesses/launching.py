"""From a preset to a process: command, environment, a HOME of its own."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from polar_capture.environment import DUMMY_KEY
from polar_capture.harnesses.preset import Preset

_OF_HARNESSES = (
    "ANTHROPIC_",
    "CLAUDE",
    "OPENAI_",
    "CODEX_",
    "QWEN_",
    "DASHSCOPE_",
    "PI_",
    "GEMINI_",
    "GOOGLE_",
    "OPENCODE",
    "COPILOT_",
    "GITHUB_COPILOT",
    "MSWEA_",
    "AIDER_",
    "LITELLM_",
    "OPENHANDS_",
    "LLM_",
    "DEEPSEEK_",
    "OPENROUTER_",
    "GROQ_",
    "MISTRAL_",
    "XAI_",
    "AZURE_",
    "AWS_",
    "XDG_",
)
"""Beginnings of variables that a user sets for the harness's or provider's sake. A run of ours is the same on every
machine only without them, and no real key belongs into a rollout."""

_ALSO = ("HOME", "GH_TOKEN", "GITHUB_TOKEN", "NODE_OPTIONS", "ALL_PROXY", "all_proxy", "TMUX", "TMUX_PANE")


class Launch(msgspec.Struct, frozen=True, kw_only=True):
    """One start of a harness. `inherited` is what is left of our own environment, `environment` what is added."""

    command: tuple[str, ...]
    inherited: Mapping[str, str]
    environment: Mapping[str, str]
    harness: str
    version: str
    finish: tuple[str, ...] = ()
    told_window: int | None = None
    """What `--assumed-window` should be, unless the user says."""


class Wish(msgspec.Struct, frozen=True, kw_only=True):
    """What a user asks of a preset; None: the preset's own choice."""

    prompt: str
    arguments: Sequence[str] = ()
    dialect: str | None = None
    model: str | None = None
    again: bool = False
    environment: Mapping[str, str] = {}


def launch(
    preset: Preset,
    wish: Wish,
    program: Sequence[str],
    version: str,
    home: Path,
    environ: Mapping[str, str],
) -> Launch:
    """How to start `program`, of this version, in `home`. Raises KeyError and ValueError as `Preset.arguments` does."""
    arguments = preset.arguments(wish.prompt, dialect=wish.dialect, model=wish.model, again=wish.again)
    variables = preset.variables(str(home), DUMMY_KEY, dialect=wish.dialect, model=wish.model)
    return Launch(
        command=(*program, *arguments, *wish.arguments),
        inherited=inherited(environ),
        environment={**variables, "HOME": str(home), **wish.environment},
        harness=preset.name,
        version=version,
        finish=preset.finish,
        told_window=told_window(preset, wish.dialect, wish.model),
    )


def told_window(preset: Preset, dialect: str | None, model: str | None) -> int | None:
    """The window that usage is told against. What a harness believes of a model that the user names is unknown."""
    way = preset.ways.get(dialect or preset.dialect)
    return None if model or way is None else way.told_window


def inherited(environ: Mapping[str, str]) -> dict[str, str]:
    """A shell's environment without what is meant for a harness, a provider, or another HOME."""
    return {name: value for name, value in environ.items() if not name.startswith(_OF_HARNESSES) and name not in _ALSO}


def furnish(preset: Preset, home: Path) -> None:
    """Put the files into a HOME that a harness wants there to start without a question. Those already there stay."""
    for name, text in preset.files.items():
        file = home / name
        if not file.exists():
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
