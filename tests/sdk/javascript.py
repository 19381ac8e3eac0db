"""The official JavaScript SDKs at exact versions, and one Node process that runs jobs with them."""

import json
import subprocess
import threading
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from polar_capture.harnesses.install import cache_folder, installed_once, run_logged, say
from polar_capture.harnesses.node import node_bin, npm_command

SDKS = ("openai@7.59.0", "@anthropic-ai/sdk@1.15.0", "@google/genai@3.3.0", "ws@8.23.0")
"""ws is what the openai package opens WebSockets with."""
WORKER = Path(__file__).with_name("worker.mjs")


def install() -> Path:
    """The folder that holds the SDKs in its node_modules, installed where it is missing."""
    name = "-".join(sdk.rpartition("@")[2] for sdk in SDKS)

    def fill(folder: Path) -> None:
        arguments = ["install", "--prefix", str(folder), "--no-audit", "--no-fund", "--ignore-scripts", *SDKS]
        run_logged("the JavaScript SDKs", [*npm_command(), *arguments], folder, say)

    return installed_once(cache_folder() / "npm" / f"sdks-{name}", fill, "the JavaScript SDKs from npm")


class Node:
    """One Node process: a job goes in as a line of JSON, its result comes back as one, in any order."""

    def __init__(self, proxy: str, ca: Path) -> None:
        modules = install() / "node_modules"
        environment = {
            "HTTPS_PROXY": proxy,
            "NODE_USE_ENV_PROXY": "1",  # Node's own fetch looks at HTTPS_PROXY only with it
            "NODE_EXTRA_CA_CERTS": str(ca),
            "SDK_MODULES": str(modules),
            "NODE_NO_WARNINGS": "1",
        }
        self._process = subprocess.Popen(
            [str(node_bin()), str(WORKER)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            text=True,
            encoding="utf-8",
        )
        self._waiting: dict[int, Future[dict[str, Any]]] = {}
        self._jobs = 0
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def run(self, job: dict[str, Any], patience: float = 60.0) -> dict[str, Any]:
        """The job's result. RuntimeError with JavaScript's own words where the worker itself failed."""
        assert self._process.stdin is not None
        self._jobs += 1
        future: Future[dict[str, Any]] = Future()
        self._waiting[self._jobs] = future
        self._process.stdin.write(json.dumps(job | {"number": self._jobs}) + "\n")
        self._process.stdin.flush()
        result = future.result(patience)
        if "broken" in result:
            raise RuntimeError(result["broken"])
        return result

    def stop(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(10)

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            result = json.loads(line)
            self._waiting.pop(result.pop("number")).set_result(result)
        for future in self._waiting.values():
            future.set_exception(RuntimeError("Node has ended"))
