"""The steps of `make setup` and `make engine`, and what is committed for them."""

import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tools import environments

ROOT = Path(__file__).resolve().parents[3]
PINS = ["dev.txt", "engine.txt"]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(environments, "CACHE", tmp_path)
    return tmp_path


def test_a_failed_step_shows_the_end_of_its_output() -> None:
    command = [sys.executable, "-c", "print('No matching distribution'); raise SystemExit(1)"]
    with pytest.raises(environments.SetupError, match=r"(?s)installing failed with status 1.*No matching distribution"):
        environments.run("installing", command)


def test_a_fingerprint_tells_changed_inputs_and_places(monkeypatch: pytest.MonkeyPatch) -> None:
    before = environments.fingerprint("a==1")
    assert before == environments.fingerprint("a==1")
    assert before != environments.fingerprint("a==2")
    monkeypatch.setattr(environments, "ROOT", Path("/elsewhere"))
    assert before != environments.fingerprint("a==1")


def test_a_good_environment_is_kept_and_a_broken_one_made_anew(tmp_path: Path) -> None:
    folder = tmp_path / "an environment"
    python = environments.make_venv(folder)
    (folder / "mark").touch()
    assert environments.make_venv(folder) == python
    assert (folder / "mark").exists()
    python.unlink()
    environments.make_venv(folder)
    assert not (folder / "mark").exists()
    assert subprocess.run([python, "-c", ""], check=False).returncode == 0


def test_one_at_a_time() -> None:
    order: list[str] = []

    def second() -> None:
        with environments.only_one("proxy"):
            order.append("second")

    with environments.only_one("proxy"):
        thread = threading.Thread(target=second)
        thread.start()
        thread.join(0.3)
        order.append("first")
    thread.join(10)
    assert order == ["first", "second"]


@pytest.mark.parametrize("name", PINS)
def test_pins_name_versions_only(name: str) -> None:
    text = (ROOT / "requirements" / name).read_text()
    assert "://" not in text
    assert "/" not in re.sub(r"(?m)#.*$", "", text)
    lines = [line for line in text.splitlines() if line and not line.lstrip().startswith("#")]
    assert all(re.match(r"[A-Za-z0-9._-]+(\[[a-z,]+\])?==\S+( ; .*)?$", line) for line in lines)


def test_the_proxy_is_the_measured_one() -> None:
    assert "\nmitmproxy==12.3.1\n" in (ROOT / "requirements" / "dev.txt").read_text()
