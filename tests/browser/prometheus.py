"""A real Prometheus for the tests: Debian's package, unpacked into the cache (so that no service starts with it)."""

import contextlib
import fcntl
import json
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import requests

ROOT = Path(__file__).resolve().parents[2]
UNPACKED = Path(os.environ.get("POLAR_CACHE") or ROOT / ".cache") / "prometheus"


class PrometheusMissing(RuntimeError):
    """There is none, and none could be had; the message says what to install."""


def find() -> str:
    """The program; on Debian it is downloaded where it is missing. Raises PrometheusMissing."""
    UNPACKED.mkdir(parents=True, exist_ok=True)
    with (UNPACKED / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if found := _found():
            return found
        if shutil.which("apt-get") and shutil.which("dpkg-deb"):
            if os.geteuid() == 0:
                subprocess.run(["apt-get", "update", "-qq"], stdout=subprocess.DEVNULL, check=False)
            with tempfile.TemporaryDirectory() as folder:
                subprocess.run(["apt-get", "download", "-qq", "prometheus"], cwd=folder, check=False)
                for package in Path(folder).glob("prometheus_*.deb"):
                    subprocess.run(["dpkg-deb", "-x", package, UNPACKED], check=False)
        if found := _found():
            return found
    raise PrometheusMissing("the tests of the dashboard need prometheus: apt-get install prometheus")


def _found() -> str | None:
    unpacked = UNPACKED / "usr" / "bin" / "prometheus"
    return shutil.which("prometheus") or (str(unpacked) if unpacked.is_file() else None)


class Prometheus:
    def __init__(self, url: str) -> None:
        self.url = url

    def ask(self, path: str, **parameters: str) -> Any:
        """The `data` of an answer of the HTTP API. RuntimeError with Prometheus' own words where it refuses."""
        with requests.Session() as client:
            client.trust_env = False
            answer = client.get(f"{self.url}/api/v1/{path}", params=parameters, timeout=20).json()
        if answer["status"] != "success":
            raise RuntimeError(f"{parameters}: {answer['error']}")
        return answer["data"]

    def series(self, query: str) -> list[dict[str, Any]]:
        """What an instant query gives: [{metric, value}]."""
        return list(self.ask("query", query=query)["result"])


@contextlib.contextmanager
def scraping(folder: Path, control: str, token: str, job: str) -> Iterator[Prometheus]:
    """A Prometheus that scrapes the control port `control` (URL) each second."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    target = {
        "job_name": job,
        "authorization": {"credentials": token},
        "static_configs": [{"targets": [control.partition("//")[2]]}],
    }
    settings = folder / "prometheus.yml"
    # JSON is YAML too.
    settings.write_text(json.dumps({"global": {"scrape_interval": "1s"}, "scrape_configs": [target]}))
    command = [find(), f"--config.file={settings}", f"--storage.tsdb.path={folder / 'tsdb'}"]
    with (folder / "prometheus.log").open("w") as log:
        process = subprocess.Popen([*command, f"--web.listen-address={address}"], stdout=log, stderr=log)
    try:
        started = Prometheus(f"http://{address}")
        end = time.monotonic() + 60
        while True:
            with contextlib.suppress(requests.RequestException, ValueError, KeyError):
                if started.series("up == 1"):
                    break
            if process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"nothing was scraped: {(folder / 'prometheus.log').read_text()[-2000:]}")
            time.sleep(0.2)
        yield started
    finally:
        process.terminate()
        process.wait(30)
