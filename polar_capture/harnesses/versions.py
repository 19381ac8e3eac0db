"""Which version of a harness is used: the preset's own, or the one that `harness install NAME@VERSION` chose since."""

import json
import re
import subprocess
import sys
from pathlib import Path

from polar_capture.harnesses import codex
from polar_capture.harnesses.install import InstallError, Progress, cache_folder, install_pypi, say
from polar_capture.harnesses.node import install_npm, launch_command, npm_command
from polar_capture.harnesses.preset import Npm, Preset
from polar_capture.harnesses.pythons import find_python

_VERSION = re.compile(r"\d[A-Za-z0-9.+-]*")


def chosen(preset: Preset) -> str:
    """The version that is used from now on."""
    try:
        return _choice(preset).read_text().strip() or preset.package.version
    except FileNotFoundError:
        return preset.package.version


def choose(preset: Preset, version: str) -> None:
    """Use this version from now on; the preset's own one by leaving no trace."""
    file = _choice(preset)
    if version == preset.package.version:
        file.unlink(missing_ok=True)
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"{version}\n")


def installed(preset: Preset, version: str) -> bool:
    """Whether this version is in the cache."""
    kind = "npm" if isinstance(preset.package, Npm) else "pypi"
    name = preset.package.package.removeprefix("@").replace("/", "-") if kind == "npm" else preset.package.package
    return (cache_folder() / kind / f"{name}-{version}").is_dir()


def install(preset: Preset, version: str, progress: Progress = say) -> list[str]:
    """The command that starts an exact version, installed where it is missing. Raises InstallError."""
    if _VERSION.fullmatch(version) is None:
        raise InstallError(f"{version!r} is no exact version")
    package = preset.package
    if isinstance(package, Npm):
        return launch_command(install_npm(package.package, version, package.program, progress), progress)
    python = find_python(package.python)
    return [str(install_pypi(package.package, version, package.program, python, progress))]


def resolve(preset: Preset, wanted: str | None) -> str:
    """An exact version for what a user names: nothing is the preset's own, a tag (`latest`) is asked of the registry.
    Raises InstallError."""
    if not wanted:
        return preset.package.version
    if _VERSION.fullmatch(wanted):
        return wanted
    return _npm_tag(preset, wanted) if isinstance(preset.package, Npm) else _pypi_latest(preset, wanted)


def codex_catalog(version: str, command: list[str]) -> Path:
    """The model catalog that this version of Codex ships, kept beside the installation. Raises InstallError."""
    file = catalog_file(version)
    if file.exists():
        return file
    done = subprocess.run([*command, *codex.CATALOG], capture_output=True, stdin=subprocess.DEVNULL, check=False)
    try:
        models = json.loads(done.stdout)["models"]
    except (ValueError, KeyError) as error:
        raise InstallError(f"codex {version} prints no model catalog: {done.stderr.decode().strip()}") from error
    if not models:
        raise InstallError(f"codex {version} prints an empty model catalog")
    file.parent.mkdir(parents=True, exist_ok=True)
    draft = file.with_suffix(".unfinished")
    draft.write_bytes(done.stdout)
    draft.replace(file)
    return file


def catalog_file(version: str) -> Path:
    return cache_folder() / "harnesses" / f"codex-{version}-models.json"


def _choice(preset: Preset) -> Path:
    return cache_folder() / "harnesses" / f"{preset.name}.version"


def _npm_tag(preset: Preset, tag: str) -> str:
    command = [*npm_command(), "view", f"{preset.package.package}@{tag}", "version", "--json"]
    return _answer(preset, tag, command, r'"([^"]+)"')


def _pypi_latest(preset: Preset, tag: str) -> str:
    if tag != "latest":
        raise InstallError(f"{preset.name}@{tag}: PyPI has no tags; name a version, or latest")
    command = [sys.executable, "-m", "pip", "index", "versions", preset.package.package]
    command += ["--disable-pip-version-check", "--python-version", preset.package.python]  # type: ignore[union-attr]
    return _answer(preset, tag, command, r"\(([^)]+)\)")


def _answer(preset: Preset, tag: str, command: list[str], pattern: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    found = re.search(pattern, done.stdout)
    if done.returncode or found is None:
        raise InstallError(f"the registry knows no {preset.name}@{tag}: {(done.stderr or done.stdout).strip()}")
    return found[1]
