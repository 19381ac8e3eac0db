"""The proxy as a process: start, stop, faults, and the two ways of loading the addon by hand."""

import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import requests

from tests.double import Script, Step, running
from tests.unit.process.serving import BODY, URL, environment, mitm, rows, serve


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def until(condition, seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "not in time"
        time.sleep(0.1)


def test_sigterm_drains_what_runs_and_refuses_what_is_new(tmp_path: Path):
    slow = Script(steps=[Step(), Step(content="At last.", delay=2.5)])
    with running(slow) as vllm, serve(vllm.url, tmp_path) as proxy:
        answers = []
        asking = threading.Thread(target=lambda: answers.append(proxy.post()))
        asking.start()
        until(lambda: requests.get(f"{proxy.facts.control}/health", timeout=5).json()["running"] == 1)
        proxy.process.send_signal(signal.SIGTERM)
        time.sleep(0.3)
        refused = proxy.post(session="late")
        assert refused.status_code in (429, 503)
        assert refused.json()["error"]["message"]
        asking.join()
        assert proxy.process.wait(60) == 0
    assert answers[0].json()["content"][0]["text"] == "At last."
    (row,) = rows(tmp_path)
    assert (row["status"], row["trainable"]) == ("ok", True)


def test_a_taken_port_is_a_clear_error(tmp_path: Path):
    with socket.socket() as holder, running() as vllm:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        command = [sys.executable, "-m", "polar_capture", "serve", "--port", str(port), "--upstream", vllm.url]
        command += ["--db", str(tmp_path / "a.db"), "--home", str(tmp_path / "home")]
        done = subprocess.run(command, capture_output=True, text=True, env=environment(), timeout=60)
    assert done.returncode == 1
    assert f"port {port}" in done.stderr
    assert "--port" in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_an_engine_without_ids_is_status_4_with_the_remedy(tmp_path: Path):
    script = Script()
    script.options.return_ids = False
    with running(script) as vllm:
        command = [sys.executable, "-m", "polar_capture", "serve", "--port", "0", "--upstream", vllm.url]
        command += ["--db", str(tmp_path / "a.db"), "--home", str(tmp_path / "home")]
        done = subprocess.run(command, capture_output=True, text=True, env=environment(), timeout=60)
    assert done.returncode == 4
    assert "return_token_ids" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_client_that_distrusts_the_ca_is_told_what_to_set(tmp_path: Path):
    with running() as vllm, serve(vllm.url, tmp_path) as proxy:
        with pytest.raises(requests.exceptions.SSLError):
            proxy.post(verify=True)
        until(lambda: "NODE_EXTRA_CA_CERTS" in proxy.log)
        assert "api.anthropic.com" in proxy.log


def test_the_leaf_certificate_is_one_that_strict_clients_take(tmp_path: Path):
    with running() as vllm, serve(vllm.url, tmp_path) as proxy:
        host, port = proxy.facts.proxy.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port))) as raw:
            raw.sendall(b"CONNECT api.anthropic.com:443 HTTP/1.1\r\nHost: api.anthropic.com:443\r\n\r\n")
            assert b"200" in raw.recv(4096)
            context = ssl.create_default_context(cafile=str(proxy.ca))
            context.verify_flags |= ssl.VERIFY_X509_STRICT
            with context.wrap_socket(raw, server_hostname="api.anthropic.com") as tls:
                leaf = tls.getpeercert()
    assert ("DNS", "api.anthropic.com") in leaf["subjectAltName"]
    lifetime = ssl.cert_time_to_seconds(leaf["notAfter"]) - ssl.cert_time_to_seconds(leaf["notBefore"])
    assert lifetime <= 825 * 86400


WATCHER = """
import sys
def watch(event, arguments):
    if event in ("socket.connect", "socket.getaddrinfo", "socket.sendto"):
        with open({log!r}, "a") as out:
            print(event, arguments[1] if event != "socket.getaddrinfo" else arguments[0], file=out)
sys.addaudithook(watch)
"""


def test_with_blocked_egress_no_address_beyond_loopback_is_tried(tmp_path: Path):
    watched = tmp_path / "watched.log"
    (tmp_path / "sitecustomize.py").write_text(WATCHER.format(log=str(watched)))
    with running() as vllm, serve(vllm.url, tmp_path, "--egress", "block", PYTHONPATH=str(tmp_path)) as proxy:
        assert proxy.post().status_code == 200
        assert proxy.post(url="https://statsig.anthropic.com/v1/log").status_code == 404
        for url in ("https://github.com/", "https://registry.npmjs.org/"):
            with pytest.raises(requests.exceptions.ProxyError):
                proxy.post(url=url)
        assert proxy.post(url="http://example.com/").status_code == 403
    tried = {line.split(" ", 1)[1] for line in watched.read_text().splitlines()}
    assert tried, "the watcher saw the proxy's own connections"
    outside = [address for address in tried if not any(own in address for own in ("127.0.0.1", "localhost"))]
    assert outside == []


def test_an_agents_own_curl_can_neither_reward_nor_read(tmp_path: Path):
    script = tmp_path / "agent.sh"
    script.write_text(
        "set -e\n"
        f'curl -s {URL} -H \'content-type: application/json\' -d \'{{"model":"m","max_tokens":9,'
        '"messages":[{"role":"user","content":"hi"}]}\'\n'
        "for path in sessions sessions/s1 metrics; do curl -s -w '%{http_code}\\n' https://polar.capture/$path; done\n"
        "curl -s -w '%{http_code}\\n' -X POST -d '{\"value\":1}' http://polar.capture/sessions/s1/rewards\n"
        "env | grep -c POLAR_CONTROL_TOKEN || true\n"
    )
    with running() as vllm:
        command = [sys.executable, "-m", "polar_capture", "run", "--upstream", vllm.url, "--session", "s1"]
        command += ["--db", str(tmp_path / "polar.db"), "--home", str(tmp_path / "home"), "--", "bash", str(script)]
        done = subprocess.run(
            command, capture_output=True, text=True, env=environment(POLAR_CONTROL_TOKEN="top-secret"), timeout=90
        )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("401") == 4, done.stdout
    assert done.stdout.rstrip().endswith("0"), "the token is not in the agent's environment"
    assert len(rows(tmp_path)) == 1


def test_mitmdump_with_the_script_does_all_of_it(tmp_path: Path):
    port = free_port()
    with running() as vllm, mitm("mitmdump", vllm.url, tmp_path, port) as proxy:
        until(lambda: proxy.ca.exists() and _listens(port))
        answer = proxy.post(proxy=f"http://127.0.0.1:{port}")
        assert answer.status_code == 200, proxy.log
        until(lambda: "api.anthropic.com/v1/messages" in proxy.log)
        assert "ERROR" not in proxy.log
    (row,) = rows(tmp_path)
    assert row["trainable"]
    assert len(row["completion_ids"]) == row["completion_tokens"]


def test_mitmweb_shows_the_flows_with_their_original_urls(tmp_path: Path):
    port, web = free_port(), free_port()
    options = ["--set", "web_open_browser=false", "--set", "web_password=pw", "--web-port", str(web)]
    with running() as vllm, mitm("mitmweb", vllm.url, tmp_path, port, *options) as proxy:
        until(lambda: proxy.ca.exists() and _listens(port) and _listens(web))
        assert proxy.post(proxy=f"http://127.0.0.1:{port}", body=BODY | {"stream": True}).status_code == 200
        bearer = {"Authorization": "Bearer pw"}
        flows = requests.get(f"http://127.0.0.1:{web}/flows", headers=bearer, timeout=10).json()
    urls = [f"{f['request']['scheme']}://{f['request']['pretty_host']}{f['request']['path']}" for f in flows]
    assert urls == [URL]
    assert "127.0.0.1" not in str(flows[0]["request"]["headers"])
    assert len(rows(tmp_path)) == 1


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("polar_egress=everything", "everything"),
        ("polar_sampling=temprature=1", "temprature"),
        ("polar_header_grace=soon", "soon"),
        ("stream_large_bodies=1m", "stream_large_bodies"),
    ],
)
def test_a_bad_option_of_the_addon_is_quoted(tmp_path: Path, setting: str, said: str):
    with mitm("mitmdump", "http://127.0.0.1:9", tmp_path, free_port(), **dict([setting.split("=", 1)])) as proxy:
        until(lambda: proxy.process.poll() is not None)
        assert proxy.process.returncode != 0
        assert said in proxy.log
        assert "Traceback" not in proxy.log


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
