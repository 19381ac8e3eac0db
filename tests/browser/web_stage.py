"""`serve --web` as a process of its own, over the vLLM double, and calls of every dialect through it."""

import asyncio
import contextlib
import json
import os
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import requests

from polar_capture import resources
from polar_capture.home import Home
from tests.browser.sessions import HOSTILE
from tests.double.process import running
from tests.double.script import Script, Step

ROOT = Path(__file__).resolve().parents[2]
TOOL = {"type": "object", "properties": {"command": {"type": "string"}}}
ASK = "list the files"

CALLS: dict[str, tuple[str, dict[str, Any]]] = {
    "anthropic": (
        "https://api.anthropic.com/v1/messages",
        {"model": "claude-x", "max_tokens": 512, "stream": True, "messages": [{"role": "user", "content": ASK}],
         "tools": [{"name": "bash", "description": "run", "input_schema": TOOL}]},
    ),
    "openai_chat": (
        "https://api.openai.com/v1/chat/completions",
        {"model": "gpt-x", "stream": True, "messages": [{"role": "user", "content": ASK}],
         "tools": [{"type": "function", "function": {"name": "bash", "parameters": TOOL}}]},
    ),
    "openai_responses": (
        "https://api.openai.com/v1/responses",
        {"model": "gpt-x", "stream": True, "input": [{"role": "user", "content": ASK}],
         "tools": [{"type": "function", "name": "bash", "parameters": TOOL}]},
    ),
    "google": (
        "https://generativelanguage.googleapis.com/v1beta/models/gemini-x:streamGenerateContent?alt=sse",
        {"contents": [{"role": "user", "parts": [{"text": ASK}]}],
         "tools": [{"functionDeclarations": [{"name": "bash", "parameters": TOOL}]}]},
    ),
}  # fmt: skip


class Stage:
    """A running `serve --web`: `ready` is its line, `send` makes a call as a session."""

    def __init__(self, ready: dict[str, Any]) -> None:
        self.ready = ready

    def send(self, dialect: str, session: str, **changes: Any) -> requests.Response:
        url, body = CALLS[dialect]
        address = self.ready["proxy"].replace("http://", f"http://{session}:any@")
        with requests.Session() as client:
            client.trust_env = False
            return client.post(
                url,
                json={**body, **changes},
                proxies={"https": address},
                verify=self.ready["ca"],
                headers={"anthropic-version": "2023-06-01", "x-goog-api-key": "dummy", "authorization": "Bearer dummy"},
                timeout=30,
            )

    def talk(self, session: str, frames: list[dict[str, Any]]) -> list[str]:
        """Send frames over one Responses WebSocket, each when the answer to the one before has ended; the text of each
        answer's last frame."""
        return asyncio.run(self._talk(session, frames))

    async def _talk(self, session: str, frames: list[dict[str, Any]]) -> list[str]:
        trusted = ssl.create_default_context(cafile=self.ready["ca"])
        ended = []
        async with (
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(30)) as client,
            client.ws_connect(
                "wss://api.openai.com/v1/responses",
                proxy=self.ready["proxy"].replace("http://", f"http://{session}:any@"),
                ssl=trusted,
                headers={"authorization": "Bearer dummy"},
            ) as socket,
        ):
            for frame in frames:
                await socket.send_json(frame)
                while True:
                    text = await socket.receive_str()
                    if json.loads(text)["type"] in ("response.completed", "response.failed", "error"):
                        ended.append(text)
                        break
        return ended


@contextlib.contextmanager
def _engine() -> Iterator[str]:
    says = Step(
        content=f"Running it. {HOSTILE.encode('utf-8', 'replace').decode()}",
        reasoning="The user wants files.",
        tool_calls=[{"name": "bash", "arguments": '{"command": "ls -la"}'}],
        repeat=1000,
    )
    with running(Script(steps=[says])) as engine:
        yield engine.url


@contextlib.contextmanager
def _process(command: list[str], log: Path, stdout: int = subprocess.PIPE) -> Iterator[subprocess.Popen[str]]:
    environment = {name: value for name, value in os.environ.items() if "proxy" not in name.lower()}
    with log.open("w") as errors:
        process = subprocess.Popen(
            command, cwd=ROOT, stdout=stdout, stderr=errors, text=True, env=environment, start_new_session=True
        )
        try:
            yield process
        finally:
            process.terminate()
            process.wait(30)
            if process.stdout is not None:
                process.stdout.close()


@contextlib.contextmanager
def serving(folder: Path) -> Iterator[Stage]:
    """`polar-capture serve --web`."""
    with _engine() as upstream:
        command = [sys.executable, "-m", "polar_capture", "serve", "--web", "--port", "0", "--upstream", upstream]
        command += ["--db", str(folder / "polar.db"), "--home", str(folder / "home")]
        with _process(command, folder / "serve.log") as process:
            assert process.stdout is not None
            line = process.stdout.readline()
            if not line.startswith("polar-capture ready "):
                raise RuntimeError(f"serve did not start: {(folder / 'serve.log').read_text()}")
            yield Stage(json.loads(line.removeprefix("polar-capture ready ")))


@contextlib.contextmanager
def mitmweb(folder: Path, password: str, **options: object) -> Iterator[Stage]:
    """`mitmweb -s addons/capture.py --set …` with a password of one's own."""
    port, web_port = _free_port(), _free_port()
    ca = Home(folder / "home")
    ca.make_ca()
    with _engine() as upstream:
        command = [str(Path(sys.executable).with_name("mitmweb")), "-s", str(resources.addon_script())]
        command += ["--no-web-open-browser", "--web-port", str(web_port), "--listen-port", str(port)]
        settings = {
            "confdir": ca.confdir,
            "web_password": password,
            "polar_upstream": upstream,
            "polar_db": folder / "polar.db",
            "polar_home": folder / "home",
            **options,
        }
        command += [part for name, value in settings.items() for part in ("--set", f"{name}={value}")]
        with _process(command, folder / "mitmweb.log", subprocess.DEVNULL) as process:
            end = time.monotonic() + 60
            while socket.socket().connect_ex(("127.0.0.1", port)) or socket.socket().connect_ex(
                ("127.0.0.1", web_port)
            ):
                if process.poll() is not None or time.monotonic() > end:
                    raise RuntimeError(f"mitmweb did not start: {(folder / 'mitmweb.log').read_text()}")
                time.sleep(0.1)
            yield Stage({"proxy": f"http://127.0.0.1:{port}", "ca": str(ca.ca), "web": f"http://127.0.0.1:{web_port}/"})


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
