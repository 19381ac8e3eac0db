"""The one list of all harnesses. Adding one is its file and one line here."""

from polar_capture.harnesses import (
    aider,
    claude_code,
    codex,
    copilot,
    gemini_cli,
    mini_swe_agent,
    opencode,
    openhands,
    pi,
    qwen_code,
)
from polar_capture.harnesses.preset import Preset

PRESETS: tuple[Preset, ...] = (
    claude_code.PRESET,
    codex.PRESET,
    qwen_code.PRESET,
    pi.PRESET,
    gemini_cli.PRESET,
    opencode.PRESET,
    copilot.PRESET,
    mini_swe_agent.PRESET,
    aider.PRESET,
    openhands.PRESET,
)


def names() -> list[str]:
    return [preset.name for preset in PRESETS]


def get(name: str) -> Preset:
    """The preset of this name. KeyError for another."""
    return {preset.name: preset for preset in PRESETS}[name]
