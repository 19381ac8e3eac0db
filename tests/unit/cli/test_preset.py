"""`--harness`: the preset's command and environment, the user's own arguments behind."""

import sys
import types
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from polar_capture.commands.preset import PRESETS, compose, extra_environment
from polar_capture.exits import Failure
from polar_capture.home import Home


class Tool:
    def command(self, prompt: str, arguments: Sequence[str]) -> list[str]:
        return ["tool", "-p", prompt, *arguments]

    def environment(self, home: Path) -> dict[str, str]:
        return {"TOOL_HOME": str(home / "tool")}


@pytest.fixture
def _presets(monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType(PRESETS)
    module.__spec__ = ModuleSpec(PRESETS, None)
    module.get = {"tool": Tool()}.__getitem__  # type: ignore[attr-defined]
    module.names = lambda: ["tool"]  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, PRESETS, module)


HOME = Home(Path("/home/me"))


@pytest.mark.usefixtures("_presets")
def test_a_preset_makes_command_and_environment() -> None:
    command, environment = compose("tool", "fix it", ("--fast",), HOME)
    assert command == ("tool", "-p", "fix it", "--fast")
    assert environment == extra_environment("tool", HOME) == {"TOOL_HOME": "/home/me/tool"}


@pytest.mark.usefixtures("_presets")
def test_an_unknown_preset_is_status_2_and_names_the_known() -> None:
    with pytest.raises(Failure, match="'other' is unknown: one of tool") as failed:
        extra_environment("other", HOME)
    assert failed.value.status == 2
