#!/usr/bin/env python3
"""The whole path once, for real: an unmodified agent behind the proxy, a real vLLM, and what was captured.

    make demo [UPSTREAM=http://gpu-box:8000]

The agent is Pi. It gets an empty home, a proxy, a CA and a dummy key; it asks for a tool, runs it, and reports. Its
calls are then read back with polar-capture's own commands, and checked. All files are in `.demo/`.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
from polar_capture.harnesses.install import InstallError  # noqa: E402
from polar_capture.harnesses.node import install_npm, launch_command  # noqa: E402
from tools.engine.serve import Engine, EngineError  # noqa: E402

PI_PACKAGE, PI_VERSION = "@earendil-works/pi-coding-agent", "1.6.0"
PROMPT = "Please write polar into proof.txt, use the tool bash"
PATIENCE = 300  # seconds for the agent's two turns, which take one on an idle machine
FOLDER = ROOT / ".demo"
POLAR_CAPTURE = Path(sys.executable).with_name("polar-capture")
STARTED = time.monotonic()


class DemoError(RuntimeError):
    """Something is not as it should be; the message says what, and where to look."""


def say(text: str) -> None:
    print(f"[{time.monotonic() - STARTED:5.1f} s] {text}", file=sys.stderr, flush=True)


def fresh(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def clean_environment(home: Path) -> dict[str, str]:
    """What the agent starts with. The proxy and CA variables are added by `polar-capture run`."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "TERM", "TMPDIR") if name in os.environ}
    return {**kept, "HOME": str(home), "ANTHROPIC_API_KEY": "dummy"}


def run_agent(agent: list[str], upstream: str, database: str, session: str) -> None:
    home, work = fresh(FOLDER / "agent-home"), fresh(FOLDER / "work")
    command = [str(POLAR_CAPTURE), "run", "--db", database, "--home", str(FOLDER / "home"), "--egress", "block"]
    command += ["--upstream", upstream, "--session", session, "--"]
    command += [*agent, "-p", "--provider", "anthropic", "--model", "claude-sonnet-4-5", "--thinking", "medium", PROMPT]
    say("running: " + shlex.join(part.replace(f"{ROOT}/", "") for part in command))
    log = FOLDER / "run.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            cwd=work,
            env=clean_environment(home),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        begun = reported = time.monotonic()
        try:
            while process.poll() is None and time.monotonic() - begun < PATIENCE:
                time.sleep(0.1)
                if time.monotonic() - reported >= 5:
                    reported = time.monotonic()
                    say(f"the agent is at work ({reported - begun:.0f} s)")
            status = process.poll()
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
                process.wait(15)
    words = log.read_text(errors="replace").strip()
    for line in words.splitlines():
        say(f"  | {line}")
    if status is None:
        raise DemoError(f"the agent did not end within {PATIENCE} s; its output is in {log}")
    if status == 3:
        raise DemoError("the agent ended well, but not one of its calls was captured (status 3)")
    if status:
        raise DemoError(f"the run ended with status {status}; its output is above and in {log}")


def read(*arguments: str) -> Any:
    """The answer of one of polar-capture's own commands, as JSON."""
    command = [str(POLAR_CAPTURE), *arguments, "--json"]
    answer = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    if answer.returncode:
        raise DemoError(f"{shlex.join(command)} ended with status {answer.returncode}:\n{answer.stderr.strip()}")
    return json.loads(answer.stdout)


def check_turns(turns: list[dict[str, Any]]) -> None:
    if len(turns) < 2:
        raise DemoError(f"a call with a tool takes two turns at least; {len(turns)} captured")
    for turn in turns:
        prompt, completion, logprobs = turn["prompt_ids"], turn["completion_ids"], turn["logprobs"]
        counts = {len(completion), len(logprobs), turn["completion_tokens"]}
        if not completion or len(counts) != 1 or len(prompt) != turn["prompt_tokens"]:
            counted = f"{len(prompt)} prompt ids, {len(completion)} completion ids, {len(logprobs)} logprobs"
            told = f"{turn['prompt_tokens']} and {turn['completion_tokens']} tokens"
            raise DemoError(f"call {turn['seq']} does not add up: {counted}, but {told}")


def extension(first: dict[str, Any], second: dict[str, Any]) -> tuple[bool, int]:
    """Whether the second prompt starts with the first's prompt and completion; else where it leaves them."""
    history, prompt = first["prompt_ids"] + first["completion_ids"], second["prompt_ids"]
    same = 0
    while same < min(len(history), len(prompt)) and history[same] == prompt[same]:
        same += 1
    return same == len(history), same


def ends(ids: list[int]) -> str:
    return f"{ids[:4]} … {ids[-4:]}"


def report(session: str, turns: list[dict[str, Any]]) -> str:
    lines = [f"session {session}: {len(turns)} calls by Pi {PI_VERSION}, answered by {turns[0]['model_served']}", ""]
    for number, turn in enumerate(turns, 1):
        mean = sum(turn["logprobs"]) / len(turn["logprobs"])
        lines += [
            f"  call {number}  {turn['id']}  {turn['dialect']}, finish {turn['finish_reason']}, "
            f"{'trainable' if turn['trainable'] else 'not trainable: ' + str(turn['reason'])}",
            f"    prompt      {turn['prompt_tokens']:6,} tokens  {ends(turn['prompt_ids'])}",
            f"    completion  {turn['completion_tokens']:6,} tokens  {ends(turn['completion_ids'])}",
            f"    logprobs    {len(turn['logprobs']):6,} values, mean {mean:.4f}",
        ]
    exact, same = extension(turns[0], turns[1])
    total = turns[0]["prompt_tokens"] + turns[0]["completion_tokens"]
    said = "yes, token by token" if exact else f"no, they part after token {same:,}"
    lines += ["", f"  call 2 extends call 1 exactly (its {total:,} tokens of prompt and completion): {said}"]
    return "\n".join(lines)


def look_further(session: str) -> str:
    columns = "seq, agent, kind, prompt_tokens, completion_tokens, finish_reason"
    query = f"SELECT {columns} FROM calls WHERE session_id = '{session}' ORDER BY seq"
    program = POLAR_CAPTURE.relative_to(ROOT) if POLAR_CAPTURE.is_relative_to(ROOT) else POLAR_CAPTURE
    return "\n".join(
        [
            "  look further:",
            f'    {program} sql "{query}" --db .demo/polar.db',
            f"    {program} show {session} --db .demo/polar.db",
            f'    {program} sql "SELECT * FROM session_summary" --db .demo/polar.db',
        ]
    )


def demo(upstream: str) -> None:
    FOLDER.mkdir(exist_ok=True)
    database, session = f"sqlite:///{FOLDER / 'polar.db'}", time.strftime("demo-%Y%m%d-%H%M%S")
    with contextlib.ExitStack() as ends_with_demo:
        engine = None
        if not upstream:  # it starts while the agent is being installed
            engine = Engine(progress=say, scale_out=False, dev_mode=False).launch()
            ends_with_demo.callback(engine.stop)
            upstream = engine.url
        agent = launch_command(install_npm(PI_PACKAGE, PI_VERSION, progress=say), progress=say)
        if engine:
            engine.wait()
        run_agent(agent, upstream, database, session)
        say("reading what was captured")
        calls = read("calls", session, "--tokens", "--db", database)
    turns = [call for call in calls if call["kind"] == "turn" and call["status"] == "ok"]
    check_turns(turns)
    print("\n" + report(session, turns), flush=True)
    proof = FOLDER / "work" / "proof.txt"
    if not proof.exists() or "polar" not in proof.read_text():
        fault = "holds other text" if proof.exists() else "is missing"
        raise DemoError(f"the tool call was not carried out: {proof} {fault}")
    print(f"  the tool really ran: .demo/work/proof.txt holds {proof.read_text().strip()!r}\n")
    print(look_further(session) + "\n", flush=True)
    if engine and not extension(turns[0], turns[1])[0]:
        raise DemoError("call 2 does not extend call 1, though it does with this model and agent")
    say("demo passed")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--upstream", default=os.environ.get("POLAR_UPSTREAM", ""), help="your own vLLM server")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        demo(options.upstream.rstrip("/"))
    except (DemoError, EngineError, InstallError) as error:
        say(f"demo failed: {error}")
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
