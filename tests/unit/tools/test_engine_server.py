"""How the engine is started and ended, with a small web server in vLLM's place."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from tools.engine import serve
from tools.engine.serve import Engine, EngineError

ROOT = Path(__file__).resolve().parents[3]
HEALTHY = """
    import http.server, os, subprocess, sys
    child = subprocess.Popen(["sleep", "600"])
    open(os.environ["PIDS"], "w").write(f"{os.getpid()} {child.pid}")
    port = int(sys.argv[sys.argv.index("--port") + 1])
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200); self.end_headers()
    http.server.HTTPServer(("127.0.0.1", port), Handler).serve_forever()
"""
DYING = """
    import sys
    print("no kernel for this CPU"); sys.exit(3)
"""


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Puts a program in the place of .venv-engine's python."""
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").touch()
    monkeypatch.setenv("PIDS", str(tmp_path / "pids"))

    def install(body: str) -> Engine:
        program = tmp_path / "python"
        program.write_text(f"#!{sys.executable}\n{textwrap.dedent(body)}")
        program.chmod(0o755)
        monkeypatch.setattr(serve, "PYTHON", program)
        return Engine(model=tmp_path / "model", log=tmp_path / "engine.log", progress=lambda _: None)

    return install


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def pids(tmp_path: Path) -> list[int]:
    return [int(word) for word in (tmp_path / "pids").read_text().split()]


def wait_until(condition, seconds: float = 20) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.05)
    return False


def test_it_is_ready_inside_and_gone_after(stand_in, tmp_path: Path) -> None:
    with stand_in(HEALTHY) as engine:
        assert engine.healthy()
        assert all(alive(pid) for pid in pids(tmp_path))
    assert wait_until(lambda: not any(alive(pid) for pid in pids(tmp_path)))
    assert not engine.healthy()


def test_an_early_end_shows_its_log(stand_in) -> None:
    with pytest.raises(EngineError, match=r"(?s)status 3 at its start.*no kernel for this CPU.*engine\.log"):
        stand_in(DYING).start()


def test_a_late_start_is_given_up(stand_in, tmp_path: Path) -> None:
    engine = stand_in("import time; time.sleep(600)").launch()
    with pytest.raises(EngineError, match="did not answer within 1 s"):
        engine.wait(timeout=1)
    assert engine.process is None


@pytest.mark.parametrize(("missing", "says"), [("python", "environment"), ("model/config.json", "driver model")])
def test_what_is_missing_names_the_remedy(stand_in, tmp_path: Path, missing: str, says: str) -> None:
    engine = stand_in(HEALTHY)
    (tmp_path / missing).unlink()
    with pytest.raises(EngineError, match=f"{says}.*make engine"):
        engine.start()


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel of Linux only tells a child of its parent's end")
def test_a_killed_test_run_leaves_no_engine(stand_in, tmp_path: Path) -> None:
    stand_in(HEALTHY)
    owner = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import sys, time; from pathlib import Path; from tools.engine import serve\n"
            "serve.PYTHON, model = Path(sys.argv[1]), Path(sys.argv[2])\n"
            "serve.Engine(model=model, log=model / 'log').start(); print('up', flush=True); time.sleep(600)",
            str(serve.PYTHON),
            str(tmp_path / "model"),
        ],
        cwd=ROOT,
        stdout=subprocess.PIPE,
    )
    assert owner.stdout
    assert owner.stdout.readline() == b"up\n"
    os.kill(owner.pid, signal.SIGKILL)
    owner.wait()
    server, child = pids(tmp_path)
    assert wait_until(lambda: not alive(server))
    os.kill(child, signal.SIGKILL)  # vLLM's own processes watch their parent; this stand-in's don't
    owner.stdout.close()


def test_a_proxy_of_the_environment_is_kept_from_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:1")
    environment = Engine(model=tmp_path).environment()
    assert not [name for name in environment if "proxy" in name.lower()]
    assert environment["TORCHDYNAMO_DISABLE"] == "1"


def test_a_named_engine_is_used(monkeypatch: pytest.MonkeyPatch, stand_in) -> None:
    # No second one is started: the stand-in would die, and the URL's own answer is not JSON of a model list.
    stand_in(DYING)
    monkeypatch.setenv("POLAR_ENGINE_URL", "http://127.0.0.1:9/")
    with pytest.raises(OSError, match="refused"), serve.engine():
        pass
