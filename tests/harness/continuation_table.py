"""Exact continuation behind real harnesses:  python -m tests.harness.continuation_table [--only NAME]… [--no-run]

Each harness does a task with its shell tool and is resumed in a new process with another question, once in capture mode
and once with continuation. The model is the tiny driver model on a real vLLM, with a template that drops the thoughts
before a new question, as Qwen3's does; harnesses that it can't drive talk with the scripted double under the same
habit, and the table says so. The runs are kept in .cache/reports; the table is put into docs/continuation.md.
"""

import argparse
import asyncio
import contextlib
import itertools
import json
import os
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import msgspec

from polar_capture.harnesses import presets, versions
from tests.engine.continuation_stage import roles_engine, served_with
from tests.harness import cases, kept, matrix, scripts
from tests.harness.stage import PROOF, Ran, Stage, extends, staged
from tests.harness.table import ROOT

KEPT = kept.folder().with_name("continuation.json")
PAGE = ROOT / "docs" / "continuation.md"
START = "<!-- continuation table: python -m tests.harness.continuation_table -->"
END = "<!-- end of continuation table -->"
COLUMNS = (
    "harness",
    "model",
    "turns",
    "exact in capture mode",
    "exact with continuation",
    "of those with an unedited history",
    "forks",
)
REAL, SCRIPTED = "vLLM", "scripted"
AGAIN = "Say a direction"
SAMPLING = ("--sampling", "max_tokens=400")
"""A tiny model asked for JSON would write it to the end of its window."""
TRIES = 2
"""The model samples: a run in which it calls no tool shows nothing and is done again."""


class Shown(msgspec.Struct):
    """What one mode of one harness came to: `exact` turns of those that follow another, `unedited` of which follow a
    history that the client left as it was, `both` of which are exact."""

    turns: int
    following: int
    exact: int
    unedited: int
    both: int
    forks: dict[str, int]


def asked(turn: dict[str, Any]) -> tuple[list[Any], Any]:
    """What a call asked the model, without what continuation is about: thoughts, and the spelling of arguments."""
    body = json.loads(turn["chat_request"])
    messages = []
    for message in body["messages"]:
        calls = [(c["function"]["name"], _value(c["function"]["arguments"])) for c in message.get("tool_calls") or []]
        content = message.get("content")
        messages.append((message["role"], content.strip() if isinstance(content, str) else content or "", calls))
    return messages, body.get("tools")


def _value(arguments: str) -> Any:
    try:
        return json.loads(arguments)
    except ValueError:
        return arguments


def unedited(turn: dict[str, Any], before: dict[str, Any]) -> bool:
    """Whether a call's messages begin with all those of the one before, and its tools are the same."""
    (messages, tools), (earlier, tools_before) = asked(turn), asked(before)
    return messages[: len(earlier)] == earlier and tools == tools_before


def shown(turns: list[dict[str, Any]]) -> Shown:
    pairs = list(itertools.pairwise(turns))
    exact = [extends(turn, before) for before, turn in pairs]
    kept = [unedited(turn, before) for before, turn in pairs]
    forks = Counter(turn["continuation"] for turn in turns if (turn["continuation"] or "").startswith("fork:"))
    return Shown(
        len(turns),
        len(pairs),
        sum(exact),
        sum(kept),
        sum(a and b for a, b in zip(exact, kept, strict=True)),
        {name.removeprefix("fork:"): count for name, count in forks.items()},
    )


def whole(stage: Stage, harness: str, task: str, again: str, mode: str) -> Ran:
    """The task and its resumption; the last run tells of all turns."""
    options = ("--continuation", mode, *SAMPLING)
    ran = stage.run(harness, task, options=options, patience=240)
    if ran.status == 0 and presets.get(harness).again:
        ran = stage.run(harness, again, options=(*options, "--resume"), patience=240)
    return ran


def driven(harness: str, mode: str, url: str) -> Shown | None:
    """By the real model; None where it does not get the task done."""
    tool = scripts.SHELL[harness][0] if harness in scripts.SHELL else None
    if tool is None:
        return None
    for _ in range(TRIES):
        with tempfile.TemporaryDirectory(prefix="harness-", ignore_cleanup_errors=True) as name:
            task = f"Please write polar into {PROOF}, use the tool {tool}"
            ran = whole(Stage(Path(name), url), harness, task, AGAIN, mode)
            found = shown(ran.turns)
            least = 3 if presets.get(harness).again else 2
            if ran.status == 0 and "polar" in ran.proof and found.turns >= least:
                return found
            print(f"{harness}, {mode}: status {ran.status}, {found}, {ran.proof!r}", flush=True)
    return None


@contextlib.contextmanager
def served() -> Iterator[str]:
    """The URL of a real vLLM with a template of Qwen3's kind."""
    ended = asyncio.Event()
    ready: Future[str] = Future()

    async def serve(upstream: str) -> None:
        async with served_with(upstream, "thinks") as url:
            ready.set_result(url)
            await ended.wait()

    with roles_engine() as running, asyncio.Runner() as runner:
        loop = runner.get_loop()
        thread = threading.Thread(target=runner.run, args=(serve(running.url),))
        thread.start()
        try:
            yield ready.result(60)
        finally:
            loop.call_soon_threadsafe(ended.set)
            thread.join()


def scripted(harness: str, mode: str) -> Shown:
    with staged(scripts.two_calls(harness), strips_thinking=True) as (stage, _):
        return shown(whole(stage, harness, cases.TASK, cases.AGAIN, mode).turns)


def seen(harness: str, url: str) -> dict[str, str]:
    """The cells of one harness."""
    model = REAL
    found = {}
    for mode in ("auto", "off"):
        ran = driven(harness, mode, url) if model == REAL else None
        if ran is None and model == REAL:
            model, found = SCRIPTED, {}
            break
        found[mode] = ran
    if model == SCRIPTED:
        found = {mode: scripted(harness, mode) for mode in ("auto", "off")}
    on, off = found["auto"], found["off"]
    assert on is not None
    assert off is not None
    return {
        "harness": presets.get(harness).title,
        "model": model,
        "turns": f"{on.turns} and {off.turns}" if on.turns != off.turns else str(on.turns),
        "exact in capture mode": f"{off.exact} of {off.following}",
        "exact with continuation": f"{on.exact} of {on.following}",
        "of those with an unedited history": f"{on.both} of {on.unedited}",
        "forks": ", ".join(f"{name} {count}" for name, count in on.forks.items()) or "none",
    }


def put_into(page: Path, table: str) -> None:
    text = page.read_text(encoding="utf-8")
    before, start, rest = text.partition(START)
    _, end, after = rest.partition(END)
    if not start or not end:
        raise SystemExit(f"{page} has no place for the table: put in the lines\n{START}\n{END}")
    page.write_text(f"{before}{START}\n\n{table}\n\n{END}{after}", encoding="utf-8")


def render(rows: dict[str, dict[str, str]]) -> str:
    lines = [COLUMNS, ["---"] * len(COLUMNS)]
    lines += [[rows[name][column] for column in COLUMNS] for name in matrix.ALL if name in rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.harness.continuation_table")
    parser.add_argument("--only", action="append", choices=matrix.ALL, help="run this harness anew")
    parser.add_argument("--no-run", action="store_true", help="write the table from the runs that are kept")
    chosen = parser.parse_args()
    rows: dict[str, dict[str, str]] = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    rows = {name: row for name, row in rows.items() if set(row) == set(COLUMNS)}
    if not chosen.no_run:
        wanted = chosen.only or matrix.ALL
        for harness in wanted:
            versions.install(presets.get(harness), versions.chosen(presets.get(harness)))
        with served() as url:
            for harness in wanted:
                rows[harness] = seen(harness, url)
                print(rows[harness], flush=True)
                KEPT.parent.mkdir(parents=True, exist_ok=True)
                KEPT.write_text(json.dumps(rows, indent=1))
    put_into(PAGE, render(rows))


if __name__ == "__main__":
    os.environ.setdefault("POLAR_CACHE", str(ROOT / ".cache"))
    main()
