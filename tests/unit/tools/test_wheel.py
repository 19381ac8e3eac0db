"""The wheel as users install it: with the addon, the migrations and the views inside, away from this checkout."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> Path:
    """A folder with nothing but the unpacked wheel (a pure wheel needs no more to be installed)."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=120)
    (wheel,) = folder.glob("*.whl")
    site = folder / "site"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    return site


def polar_capture(installed: Path, *arguments: str) -> str:
    """What the installed command prints; its imports come from the wheel and not from the checkout."""
    environment = {**os.environ, "PYTHONPATH": str(installed), "POLAR_HOME": str(installed.parent / "home")}
    command = [sys.executable, "-P", "-m", "polar_capture", *arguments]
    done = subprocess.run(
        command, cwd=installed.parent, env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_it_brings_addon_migrations_and_views(installed):
    addon = Path(polar_capture(installed, "addon-path"))
    assert addon.is_relative_to(installed)
    assert {"capture.py", "contentview.py"} <= {file.name for file in addon.parent.iterdir()}
    packaged = {file.name for file in (installed / "polar_capture").rglob("*.sql")}
    assert packaged == {file.name for file in (ROOT / "db").rglob("*.sql")} != set()


def test_it_makes_a_database(installed):
    file = installed.parent / "new.db"
    file.touch()
    database = f"sqlite:///{file}"
    polar_capture(installed, "db", "upgrade", "--db", database)
    assert polar_capture(installed, "sql", "--db", database, "--json", "SELECT count(*) AS n FROM session_summary")


def test_it_leaves_nothing_in_site_packages_but_itself(installed):
    top = {file.name for file in installed.iterdir()}
    assert {name for name in top if not name.endswith(".dist-info")} == {"polar_capture"}
