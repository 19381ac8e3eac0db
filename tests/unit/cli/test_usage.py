"""The command line as such: quick help, usage errors with status 2, no tracebacks."""

import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from polar_capture import cli
from polar_capture.cli import COMMANDS, main
from polar_capture.config import ConfigError
from polar_capture.exits import Failure


def invoke(*arguments: str, **environ: str) -> tuple[int, str]:
    """Status and all output of a command line with only these POLAR_ variables."""
    clean = {
        "POLAR_DB": None,
        "POLAR_HOME": None,
        "POLAR_UPSTREAM": None,
        "POLAR_PROXY": None,
        "POLAR_KEY": None,
        "POLAR_DEBUG": None,
    }
    result = CliRunner().invoke(main, list(arguments), env={**clean, **environ})
    return result.exit_code, result.output


def test_help_imports_no_command_and_no_heavy_library() -> None:
    code = (
        "import sys; from polar_capture.cli import main; main(['--help'], standalone_mode=False);"
        "heavy = {'mitmproxy', 'sqlalchemy', 'requests', 'numpy', 'rich', 'aiohttp', 'polar_capture.commands.serve'};"
        "sys.exit(str(heavy & set(sys.modules)) if heavy & set(sys.modules) else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for name in ("serve", "run", "env", "sessions", "calls", "show", "sql", "reward", "addon-path"):
        assert f"  {name} " in done.stdout


def test_every_command_that_is_there_explains_itself_and_takes_the_places() -> None:
    for name in main.list_commands(click.Context(main)):
        status, text = invoke(name, "--help")
        assert status == 0, name
        if name not in ("db", "harness"):  # groups, whose commands take them
            assert "--db" in text, name
            assert "--home" in text, name


def test_a_command_whose_module_is_missing_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(COMMANDS, "fly", cli.Lazy("polar_capture.commands.fly:fly", "Fly."))
    status, text = invoke("fly")
    assert status == 2
    assert "No such command 'fly'" in text


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["serve"], ["--upstream", "POLAR_UPSTREAM"]),
        (["serve", "--upstream", "localhost:8000"], ["'localhost:8000'", "http://"]),
        (["serve", "--upstream", "http://x", "--host", "0.0.0.0"], ["--host 0.0.0.0", "--key"]),
        (["serve", "--upstream", "http://x", "--gateway-port", "0"], ["--gateway-port", "--key"]),
        (["serve", "--upstream", "http://x", "--sampling", "heat=1"], ["'heat' is unknown", "temperature"]),
        (["serve", "--upstream", "http://x", "--egress", "open"], ["tunnel", "block"]),
        (["serve", "--upstream", "http://x", "--db", "mysql://h/n"], ["mysql", "sqlite:///PATH"]),
        (["serve", "--port", "many"], ["--port", "many"]),
        (["run", "--upstream", "http://x"], ["no command"]),
        (["run", "--upstream", "http://x", "--session", "a b", "--", "true"], ["session id 'a b'"]),
        (["run", "--", "true"], ["--upstream"]),
        (["run", "--prompt", "p", "--", "true"], ["--prompt", "--harness"]),
        (["run", "--proxy", "127.0.0.1:9", "--upstream", "http://x", "--", "true"], ["--upstream", "--proxy"]),
        (["run", "--proxy", "nowhere", "--", "true"], ["--proxy 'nowhere'"]),
        (["env", "--proxy", "nowhere"], ["--proxy 'nowhere'"]),
        (["env", "--session", "a/b"], ["session id 'a/b'"]),
        (["show"], ["CALL", "SESSION", "--group"]),
        (["show", "x", "--group", "g"], ["one thing"]),
        (["reward", "s", "nan"], ["nan", "finite"]),
        (["reward", "s", "much"], ["much"]),
        (["sql"], ["QUERY"]),
        (["sessions", "--limit", "0"], ["--limit"]),
        (["nonsense"], ["nonsense"]),
    ],
)
def test_usage_errors_are_status_2_and_name_the_thing(
    arguments: list[str], words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("polar_capture.commands.serve.check_proxy_is_possible", lambda: None)  # on every Python
    status, text = invoke(*arguments, POLAR_HOME=str(tmp_path / "home"))
    assert status == 2, text
    for word in words:
        assert word in text
    assert "Traceback" not in text


@pytest.mark.parametrize(
    "command", [["sessions"], ["calls", "s"], ["show", "s"], ["sql", "SELECT 1"], ["reward", "s", "1"]]
)
def test_a_database_that_is_not_there_is_status_5(command: list[str], tmp_path: Path) -> None:
    status, text = invoke(*command, "--db", str(tmp_path / "none.db"), "--home", str(tmp_path))
    assert status == 5
    assert f"{tmp_path}/none.db does not exist" in text
    assert not (tmp_path / "none.db").exists()


def test_a_file_that_is_no_database_is_status_5(tmp_path: Path) -> None:
    file = tmp_path / "notes.db"
    file.write_text("these are notes, and long enough to be looked at as a header of a database file" * 20)
    status, text = invoke("sessions", "--db", str(file), "--home", str(tmp_path))
    assert status == 5
    assert str(file) in text


@click.command()
@click.argument("what")
def break_down(what: str) -> None:
    raise {
        "failure": Failure("it failed", 4),
        "config": ConfigError("--x is wrong"),
        "bug": ZeroDivisionError("division by zero"),
        "interrupt": KeyboardInterrupt(),
    }[what]


@pytest.mark.parametrize(
    ("what", "status", "words"),
    [
        ("failure", 4, "polar-capture: it failed"),
        ("config", 2, "--x is wrong"),
        ("bug", 1, "unexpected error: ZeroDivisionError: division by zero (POLAR_DEBUG=1 shows where)"),
        ("interrupt", 130, "interrupted"),
    ],
)
def test_no_traceback_reaches_a_user(what: str, status: int, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(COMMANDS, "break", cli.Lazy(f"{__name__}:break_down", "Break."))
    got, text = invoke("break", what)
    assert (got, words in text) == (status, True), text
    assert "Traceback" not in text


def test_debug_shows_where(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(COMMANDS, "break", cli.Lazy(f"{__name__}:break_down", "Break."))
    result = CliRunner().invoke(main, ["break", "bug"], env={"POLAR_DEBUG": "1"})
    assert isinstance(result.exception, ZeroDivisionError)


@pytest.mark.parametrize("version", [(3, 11, 7), (3, 12, 1)])
def test_an_old_python_says_that_it_cannot_be_the_proxy(
    version: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "version_info", version)
    for command in (["serve", "--upstream", "http://x"], ["run", "--upstream", "http://x", "--", "true"]):
        status, text = invoke(*command)
        assert status == 2
        assert "needs Python 3.13 or newer, and this is " + ".".join(map(str, version)) in text


def test_addon_path_names_a_file_that_is_there() -> None:
    status, text = invoke("addon-path")
    assert status == 0
    assert Path(text.strip()).name == "capture.py"
    assert Path(text.strip()).is_file()
