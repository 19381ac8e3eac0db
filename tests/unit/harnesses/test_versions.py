"""Which version is used, and how a registry's answer becomes one."""

import subprocess
from pathlib import Path

import pytest

from polar_capture.harnesses import presets, pythons, versions
from polar_capture.harnesses.install import InstallError

CODEX, AIDER = presets.get("codex"), presets.get("aider")


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POLAR_CACHE", str(tmp_path))


def answer(monkeypatch: pytest.MonkeyPatch, stdout: str, status: int = 0) -> list[list[str]]:
    asked: list[list[str]] = []

    def run(command: list[str], **_: object) -> "subprocess.CompletedProcess[str]":
        asked.append(command)
        return subprocess.CompletedProcess(command, status, stdout, "no such tag")

    monkeypatch.setattr(versions.subprocess, "run", run)
    monkeypatch.setattr(versions, "npm_command", lambda: ["npm"])
    return asked


def test_the_tested_version_until_another_is_chosen() -> None:
    assert versions.chosen(CODEX) == CODEX.package.version
    versions.choose(CODEX, "0.999.0")
    assert versions.chosen(CODEX) == "0.999.0"
    versions.choose(CODEX, CODEX.package.version)
    assert versions.chosen(CODEX) == CODEX.package.version


def test_installed_is_what_the_cache_holds(tmp_path: Path) -> None:
    assert not versions.installed(CODEX, "1.0")
    (tmp_path / "npm" / "openai-codex-1.0").mkdir(parents=True)
    (tmp_path / "pypi" / "aider-chat-2.0").mkdir(parents=True)
    assert versions.installed(CODEX, "1.0")
    assert versions.installed(AIDER, "2.0")


@pytest.mark.parametrize(("wanted", "version"), [(None, "0.171.0"), ("", "0.171.0"), ("0.172.0-alpha.1",) * 2])
def test_exact_versions_ask_nobody(wanted: str | None, version: str) -> None:
    assert versions.resolve(CODEX, wanted) == version


def test_a_tag_is_asked_of_the_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = answer(monkeypatch, '"0.180.0"\n')
    assert versions.resolve(CODEX, "latest") == "0.180.0"
    assert asked[0][:3] == ["npm", "view", "@openai/codex@latest"]
    answer(monkeypatch, "aider-chat (0.90.1)\nAvailable versions: 0.90.1, 0.90.0\n")
    assert versions.resolve(AIDER, "latest") == "0.90.1"


def test_what_the_registry_does_not_know_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    answer(monkeypatch, "", status=1)
    with pytest.raises(InstallError, match="knows no codex@nightly: no such tag"):
        versions.resolve(CODEX, "nightly")
    with pytest.raises(InstallError, match="PyPI has no tags"):
        versions.resolve(AIDER, "nightly")


def test_codex_catalog_is_kept_beside_the_installation(monkeypatch: pytest.MonkeyPatch) -> None:
    answer(monkeypatch, "")
    run = lambda *_, **__: subprocess.CompletedProcess([], 0, b'{"models": [{"slug": "a"}]}', b"")  # noqa: E731
    monkeypatch.setattr(versions.subprocess, "run", run)
    file = versions.codex_catalog("9.9.9", ["codex"])
    assert file == versions.catalog_file("9.9.9")
    assert b"slug" in file.read_bytes()
    broken = lambda *_, **__: subprocess.CompletedProcess([], 2, b"", b"unknown command")  # noqa: E731
    monkeypatch.setattr(versions.subprocess, "run", broken)
    assert versions.codex_catalog("9.9.9", ["codex"]) == file
    with pytest.raises(InstallError, match=r"codex 9.9.8 prints no model catalog: unknown command"):
        versions.codex_catalog("9.9.8", ["codex"])


def test_a_python_that_is_nowhere_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InstallError, match=r"no CPython 4.7 .* PYTHON47"):
        pythons.find_python("4.7")
    monkeypatch.setenv("PYTHON312", "/does/not/exist")
    with pytest.raises(InstallError, match=r"no CPython 3.12"):
        pythons.find_python("3.12")
