"""The home folder: made private, filled once, with errors that name the place."""

import os
import ssl
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from polar_capture.home import Home, HomeError
from polar_capture.trust import TrustError, certificates, write_bundle

needs_mitmproxy = pytest.mark.skipif(sys.version_info < (3, 13), reason="the proxy's Python")


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_folders_are_private_and_the_token_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("POLAR_CONTROL_TOKEN", raising=False)
    home = Home(tmp_path / "deep" / "home")
    token = home.control_token()
    assert len(token) >= 32
    assert home.control_token() == token == home.kept_token()
    assert mode(home.path) == 0o700
    assert mode(home.path / "control-token") == 0o600
    assert sorted(os.listdir(home.path)) == ["control-token"]


def test_an_empty_token_file_is_filled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("POLAR_CONTROL_TOKEN", raising=False)
    (tmp_path / "control-token").touch()
    assert Home(tmp_path).control_token() == Home(tmp_path).control_token() != ""


def test_the_environment_s_token_wins_and_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POLAR_CONTROL_TOKEN", "mine")
    assert Home(tmp_path / "h").control_token() == "mine"
    assert not (tmp_path / "h").exists()


def test_a_home_that_is_a_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for place in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(HomeError, match=r"(?s)cannot use the folder .*file.*--home"):
            Home(place).folder(place)


@needs_mitmproxy
def test_the_ca_is_made_once_and_is_private(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    first = home.make_ca().read_text()
    assert home.make_ca().read_text() == first
    assert mode(home.ca_key) == 0o600
    assert "PRIVATE" not in first
    assert sorted(path.name for path in home.path.iterdir()) == ["ca"]


@needs_mitmproxy
def test_proxies_that_start_together_share_one_ca(tmp_path: Path) -> None:
    code = "import pathlib, sys; from polar_capture.home import Home; "
    code += "print(Home(pathlib.Path(sys.argv[1])).make_ca().read_text())"
    processes = [
        subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    assert len({process.communicate()[0] for process in processes}) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["ca"]


@needs_mitmproxy
def test_half_a_ca_is_refused_with_the_remedy(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.make_ca()
    home.ca_key.unlink()
    with pytest.raises(HomeError, match="remove that folder"):
        home.make_ca()


@needs_mitmproxy
def test_o_transport_07_the_bundle_holds_public_roots_and_the_ca(tmp_path: Path) -> None:
    home = Home(tmp_path)
    bundle = write_bundle(home.make_ca().read_text(), home.bundle, {})
    blocks = certificates(bundle.read_text())
    assert blocks[-1] == certificates(home.ca.read_text())[0]
    assert len(blocks) > 50
    context = ssl.create_default_context(cafile=str(bundle))
    assert any(("commonName", "mitmproxy") in entry for cert in context.get_ca_certs() for entry in cert["subject"])


@needs_mitmproxy
def test_a_bundle_keeps_what_the_environment_trusted_and_does_not_grow(tmp_path: Path) -> None:
    company, own = Home(tmp_path / "company"), Home(tmp_path / "own")
    environ = {"NODE_EXTRA_CA_CERTS": str(company.make_ca()), "SSL_CERT_FILE": str(tmp_path / "gone.pem")}
    text = write_bundle(own.make_ca().read_text(), own.bundle, environ).read_text()
    assert certificates(company.ca.read_text())[0] in text
    again = write_bundle(own.ca.read_text(), own.bundle, {"SSL_CERT_FILE": str(own.bundle)}).read_text()
    assert sorted(certificates(again)) == sorted(certificates(text))


def test_a_ca_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TrustError, match="no PEM certificate"):
        write_bundle("<html>", tmp_path / "bundle.pem", {})


def test_old_logs_go(tmp_path: Path) -> None:
    home = Home(tmp_path)
    for number in range(5):
        file = home.new_log(f"run-{number}", keep=3)
        os.utime(file, (number, number))
    assert sorted(path.name for path in home.logs.iterdir()) == ["run-2.log", "run-3.log", "run-4.log"]
    assert mode(home.logs / "run-4.log") == 0o600
