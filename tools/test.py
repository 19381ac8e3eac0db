#!/usr/bin/env python3
"""Run the project's checks and tests, stage by stage, and end in one line that says how many passed.

    .venv/bin/python tools/test.py [--slow] [--harness NAME] [STAGE…]

Without names all stages run. Stages that need an engine share one, which is started when the run begins and gets ready
while the first stages are at work.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
from tools.engine.serve import Engine, EngineError  # noqa: E402

REPORTS = ROOT / ".cache" / "reports"
BIN = Path(sys.executable).parent
LINTS = {
    "ruff check": [str(BIN / "ruff"), "check", "."],
    "ruff format": [str(BIN / "ruff"), "format", "--check", "."],
    "mypy": [str(BIN / "mypy")],
}


@dataclass(frozen=True)
class Stage:
    name: str
    needs_engine: bool = False
    arguments: tuple[str, ...] = ()
    timeout: int = 1800  # seconds; CI's whole run has 5,400

    @property
    def folder(self) -> Path:
        return ROOT / "tests" / self.name


STAGES = [
    Stage("lint"),
    Stage("unit", arguments=("-n", "2", "--dist", "loadfile", "--timeout=300")),
    Stage("sdk", arguments=("--timeout=180",)),
    Stage("engine", needs_engine=True, arguments=("--timeout=300",)),
    Stage("harness", needs_engine=True, arguments=("--timeout=600",), timeout=2400),
    Stage("crash", needs_engine=True, arguments=("--timeout=600",)),
    Stage("browser", arguments=("--timeout=180",)),
    Stage("notebooks", arguments=("--timeout=240",)),
    Stage("rollout", needs_engine=True, arguments=("--timeout=900",), timeout=2400),
]


@dataclass
class Result:
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    seconds: float = 0.0
    note: str = ""
    logs: list[Path] = field(default_factory=list)


def say(text: str) -> None:
    print(text, flush=True)


def lint() -> Result:
    result = Result()
    for name, command in LINTS.items():
        say(f"-- {name}")
        failed = subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, check=False).returncode != 0
        result.failed += failed
        result.passed += not failed
    return result


def pytest(stage: Stage, slow: bool, environment: dict[str, str]) -> Result:
    report = REPORTS / f"{stage.name}.xml"
    report.unlink(missing_ok=True)
    command = [sys.executable, "-m", "pytest", str(stage.folder.relative_to(ROOT)), "-q", "--durations=5"]
    command += [*stage.arguments, f"--junitxml={report}", *(() if slow else ("-m", "not slow"))]
    process = subprocess.Popen(command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, start_new_session=True)
    try:
        status: int | None = process.wait(stage.timeout)
    except subprocess.TimeoutExpired:
        status = None
    finally:
        end_group(process)
    result = read_report(report)
    if status is None:
        result.failed += 1
        result.note = f"ended after {stage.timeout} s"
    elif status == 5:
        result.note = "no test was chosen"
    elif status and not result.failed:  # a collection that broke, or an interpreter that died
        result.failed += 1
        result.note = f"pytest ended with status {status}"
    return result


def end_group(process: subprocess.Popen[bytes]) -> None:
    """What a stage leaves running ends with it."""
    for ending in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, ending)
        except ProcessLookupError:
            return
        if process.poll() is None:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                continue
        time.sleep(0.2)


def read_report(report: Path) -> Result:
    if not report.exists():
        return Result()
    suites = ElementTree.parse(report).getroot().iter("testsuite")
    result = Result()
    for suite in suites:
        broken = int(suite.get("failures", 0)) + int(suite.get("errors", 0))
        skipped = int(suite.get("skipped", 0))
        result.failed += broken
        result.skipped += skipped
        result.passed += int(suite.get("tests", 0)) - broken - skipped
    return result


def chosen_stages(names: list[str]) -> list[Stage]:
    known = {stage.name for stage in STAGES}
    if unknown := set(names) - known:
        raise SystemExit(f"no such stage: {', '.join(sorted(unknown))}; there are {', '.join(s.name for s in STAGES)}")
    chosen = [stage for stage in STAGES if not names or stage.name in names]
    return [stage for stage in chosen if stage.name == "lint" or stage.folder.is_dir()]


def launch_engine(stages: list[Stage]) -> Engine | None:
    """Started before the first stage, because it takes half a minute; waited for before the first that needs it."""
    if not any(stage.needs_engine for stage in stages) or os.environ.get("POLAR_ENGINE_URL"):
        return None
    return Engine(progress=say).launch()


def run(stages: list[Stage], slow: bool) -> dict[str, Result]:
    results: dict[str, Result] = {}
    environment = dict(os.environ)
    server: Engine | None = None
    engine_fault = ""
    try:
        try:
            server = launch_engine(stages)
        except EngineError as error:
            engine_fault = str(error)
        for stage in stages:
            say(f"\n== {stage.name}")
            started = time.monotonic()
            if stage.needs_engine and server and not engine_fault and "POLAR_ENGINE_URL" not in environment:
                try:
                    server.wait()
                    environment["POLAR_ENGINE_URL"] = server.url
                except EngineError as error:
                    engine_fault = str(error)
            if stage.name == "lint":
                result = lint()
            elif stage.needs_engine and engine_fault:
                say(engine_fault)
                result = Result(failed=1, note="no engine")
            else:
                result = pytest(stage, slow, environment)
            result.seconds = time.monotonic() - started
            results[stage.name] = result
            if server and result.failed and stage.needs_engine and not server.healthy():
                say(f"the engine does not answer any more; the end of its log:\n{server.log_tail(60)}")
    finally:
        if server:
            server.stop()
    return results


def summary(results: dict[str, Result]) -> str:
    total = Result()
    lines = [f"{'stage':10} {'passed':>7} {'failed':>7} {'skipped':>8} {'seconds':>8}"]
    for name, result in results.items():
        counts = f"{result.passed:7} {result.failed:7} {result.skipped:8} {result.seconds:8.1f}"
        lines.append(f"{name:10} {counts}  {result.note}".rstrip())
        total.passed += result.passed
        total.failed += result.failed
        total.skipped += result.skipped
        total.seconds += result.seconds
    lines.append(f"{'all':10} {total.passed:7} {total.failed:7} {total.skipped:8} {total.seconds:8.1f}")
    skipped = f", {total.skipped} skipped" if total.skipped else ""
    return "\n".join([*lines, "", f"{total.passed} passed, {total.failed} failed{skipped}"])


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("stages", nargs="*", metavar="STAGE", help=", ".join(stage.name for stage in STAGES))
    parser.add_argument("--slow", action="store_true", help="also the tests marked slow")
    parser.add_argument("--harness", help="only this agent, in the stage harness")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    if options.harness:
        os.environ["POLAR_TEST_HARNESS"] = options.harness
    stages = chosen_stages(options.stages)
    if not stages:
        say(f"there is nothing to run yet for: {', '.join(options.stages)}")
        return 1
    REPORTS.mkdir(parents=True, exist_ok=True)
    results = run(stages, options.slow)
    say("\n" + summary(results))
    executed = sum(result.passed + result.failed for result in results.values())
    return 1 if any(result.failed for result in results.values()) or not executed else 0


if __name__ == "__main__":
    sys.exit(main())
