"""`harness list | show | install`, `run --harness`, `env --harness`: what they print and refuse."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from polar_capture.cli import main
from polar_capture.commands import preset as composing
from polar_capture.home import Home


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POLAR_CACHE", str(tmp_path))
    monkeypatch.setenv("POLAR_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(composing, "install", lambda preset, version: [f"/cache/{preset.name}-{version}"])


def polar(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


def test_list_has_every_harness() -> None:
    rows = json.loads(polar("harness", "list", "--json").stdout)
    assert len(rows) == 10
    assert {"name": "codex", "version": "0.171.0", "installed": False}.items() <= rows[1].items()
    assert "openai_responses" in polar("harness", "list").stdout


def test_show_tells_command_environment_and_ca() -> None:
    shown = json.loads(polar("harness", "show", "qwen-code", "--json").stdout)
    assert shown["command"] == "qwen -y --auth-type openai -p PROMPT"
    assert shown["environment"]["OPENAI_BASE_URL"] == "https://api.openai.com/v1"
    assert shown["ca"] == ["NODE_EXTRA_CA_CERTS"]
    assert shown["window"]["openai_responses"] == 272_000
    assert shown["waits"] is None  # it streams
    assert "NODE_EXTRA_CA_CERTS" in polar("harness", "show", "qwen-code").stdout


@pytest.mark.parametrize("command", [("harness", "show"), ("harness", "install"), ("env", "--harness")])
def test_an_unknown_harness_is_status_2_and_names_the_known(command: tuple[str, ...], monkeypatch) -> None:
    monkeypatch.setattr(Home, "make_ca", lambda home: Path(__file__))
    monkeypatch.setattr("polar_capture.commands.env.write_bundle", lambda *_: Path("bundle"))
    refused = polar(*command, "other")
    assert refused.exit_code == 2
    assert "'other' is unknown: one of claude-code, codex" in refused.stderr


def test_env_adds_what_the_harness_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Home, "make_ca", lambda home: Path(__file__))
    monkeypatch.setattr("polar_capture.commands.env.write_bundle", lambda *_: Path("bundle"))
    lines = polar("env", "--harness", "qwen-code", "--session", "s1").stdout.splitlines()
    assert "export OPENAI_MODEL=qwen3-coder-plus" in lines


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--harness", "pi"), "--harness pi needs --prompt TEXT"),
        (("--prompt", "p"), "--prompt is for a preset"),
        (("--harness-env", "A=b", "--", "true"), "--harness-env is for a preset"),
        (("--harness", "pi", "--prompt", "p", "--dialect", "morse"), "'morse': pi speaks anthropic"),
        (("--harness", "pi", "--prompt", "p", "--harness-env", "A"), "'A' has no value"),
        (("--harness", "pi", "--prompt", "p", "--resume"), "--resume needs --harness-home DIR"),
        (("--harness", "mini-swe-agent", "--prompt", "p", "--resume"), "not possible with mini-swe-agent"),
        ((), "no command"),
    ],
)
def test_run_refuses_what_cannot_be(arguments: tuple[str, ...], words: str) -> None:
    refused = polar("run", "--upstream", "http://127.0.0.1:1", *arguments)
    assert refused.exit_code == 2
    assert words in refused.stderr


def test_a_home_of_its_own_lives_as_long_as_the_run(tmp_path: Path) -> None:
    choice = composing.Choice(harness="claude-code@9.9.9", prompt="p")
    with composing.prepared(choice, ("-x",), Home(tmp_path / "home"), "s1", {"PATH": "/bin"}) as started:
        agent_home = Path(started.environment["HOME"])
        assert (agent_home / ".claude.json").is_file()
        assert started.command[0] == "/cache/claude-code-9.9.9"
        assert started.command[-1] == "-x"
        assert started.version == "9.9.9"
    assert not agent_home.exists()
    kept = composing.Choice(harness="claude-code", prompt="p", harness_home=tmp_path / "agent")
    with composing.prepared(kept, (), Home(tmp_path / "home"), "s1", {}) as started:
        assert started.environment["HOME"] == str(tmp_path / "agent")
    assert (tmp_path / "agent").is_dir()
