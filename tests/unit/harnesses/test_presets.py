"""Every preset: what it starts, what it sets, what it keeps out."""

import json

import pytest

from polar_capture.environment import DUMMY_KEY
from polar_capture.harnesses import presets
from polar_capture.harnesses.launching import Wish, furnish, inherited, launch, told_window
from polar_capture.harnesses.preset import Preset
from polar_capture.rollout.agents import Spec

NAMES = [
    "claude-code",
    "codex",
    "qwen-code",
    "pi",
    "gemini-cli",
    "opencode",
    "copilot",
    "mini-swe-agent",
    "aider",
    "openhands",
]
EVERY_WAY = [(preset, dialect) for preset in presets.PRESETS for dialect in preset.ways]


def test_the_ten_of_the_field() -> None:
    assert presets.names() == NAMES


@pytest.mark.parametrize(("preset", "dialect"), EVERY_WAY, ids=lambda value: getattr(value, "name", value))
def test_the_prompt_arrives_once_and_no_placeholder_is_left(preset: Preset, dialect: str) -> None:
    arguments = preset.arguments("fix {model} and {prompt}", dialect=dialect)
    assert arguments.count("fix {model} and {prompt}") == 1
    assert not [a for a in arguments if "{" in a and a != "fix {model} and {prompt}"]
    variables = preset.variables("/home/a", DUMMY_KEY, dialect=dialect)
    assert not [value for value in variables.values() if "{" in value or not value]


@pytest.mark.parametrize(("preset", "dialect"), EVERY_WAY, ids=lambda value: getattr(value, "name", value))
def test_a_model_name_reaches_arguments_or_environment(preset: Preset, dialect: str) -> None:
    arguments = preset.arguments("p", dialect=dialect, model="policy-7")
    variables = preset.variables("/home/a", DUMMY_KEY, dialect=dialect, model="policy-7")
    assert "policy-7" in [*arguments, *variables.values()]


@pytest.mark.parametrize(
    ("name", "dialect", "model", "told"),
    [
        ("pi", None, None, 222_222),  # a tenth above the 200,000 that it believes in
        ("pi", "openai_chat", None, 1_111_111),
        ("pi", None, "policy-7", None),  # what it believes of a model of the user's own is unknown
        ("pi", "morse", None, None),
        ("codex", None, None, None),  # its catalog tells it ours
        ("mini-swe-agent", None, None, None),  # it does not compact
    ],
)
def test_usage_is_told_against_the_window_that_a_preset_believes_in(
    name: str, dialect: str | None, model: str | None, told: int | None
) -> None:
    assert told_window(presets.get(name), dialect, model) == told
    assert Spec(harness=name, dialect=dialect, model=model).told_window == told


def test_openhands_reads_its_settings_as_its_own() -> None:
    (text,) = presets.get("openhands").files.values()
    settings = json.loads(text)
    assert settings["llm"]["timeout"] == settings["condenser"]["llm"]["timeout"] == presets.get("openhands").waits


def test_a_harness_that_cannot_resume_says_so() -> None:
    with pytest.raises(ValueError, match="mini-swe-agent cannot go on"):
        presets.get("mini-swe-agent").arguments("p", again=True)


def test_nothing_of_the_users_own_setup_comes_along(tmp_path) -> None:
    environ = {
        "PATH": "/bin",
        "HOME": "/home/user",
        "ANTHROPIC_BASE_URL": "https://elsewhere.example",
        "ANTHROPIC_AUTH_TOKEN": "secret",
        "CLAUDE_CODE_USE_BEDROCK": "1",
        "CLAUDECODE": "1",
        "XDG_CONFIG_HOME": "/home/user/.config",
        "GITHUB_TOKEN": "secret",
        "LANG": "C.UTF-8",
    }
    assert inherited(environ) == {"PATH": "/bin", "LANG": "C.UTF-8"}
    preset = presets.get("claude-code")
    wish = Wish(prompt="p", arguments=("--max-turns", "3"), environment={"API_TIMEOUT_MS": "9"})
    started = launch(preset, wish, ["/cache/claude"], "2.0", tmp_path, environ)
    assert started.command == ("/cache/claude", *preset.arguments("p"), "--max-turns", "3")
    assert started.environment == {"HOME": str(tmp_path), "API_TIMEOUT_MS": "9"}
    assert "secret" not in str(started)


def test_files_of_the_dummy_login_are_written_once(tmp_path) -> None:
    preset = presets.get("claude-code")
    furnish(preset, tmp_path)
    state = json.loads((tmp_path / ".claude.json").read_text())
    assert state["customApiKeyResponses"]["approved"] == [DUMMY_KEY[-20:]]
    (tmp_path / ".claude.json").write_text("{}")
    furnish(preset, tmp_path)
    assert (tmp_path / ".claude.json").read_text() == "{}"
