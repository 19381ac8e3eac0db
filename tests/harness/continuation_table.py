"""Exact continuation behind real harnesses:  python -m tests.harness.continuation_table [--only NAME]…

Each harness does a task of three turns and is resumed for another question, once in capture mode and once with
continuation; the model is scripted, and its template drops thoughts before the last question, as Qwen3's does. Prints a
Markdown table; runs are kept in .cache/reports/continuation.json.
"""

import argparse
import itertools
import json
from collections import Counter
from typing import Any

from polar_capture.harnesses import presets
from polar_capture.harnesses.install import cache_folder
from tests.harness import scenarios, scripts
from tests.harness.stage import extends, staged

KEPT = cache_folder() / "reports" / "continuation.json"
MODES = {"off": "exact in capture mode", "auto": "exact with continuation"}


def run(harness: str, mode: str) -> list[dict[str, Any]]:
    """The turns of the task and of its resumption."""
    options = ("--continuation", mode)
    with staged(scripts.two_calls(harness), strips_thinking=True) as (stage, _):
        ran = stage.run(harness, scenarios.TASK, options=options)
        if presets.get(harness).again:
            ran = stage.run(harness, "And now?", options=(*options, "--resume"))
    return ran.turns


def seen(harness: str) -> dict[str, str]:
    row = {"harness": presets.get(harness).title}
    for mode, column in MODES.items():
        turns = run(harness, mode)
        exact = sum(extends(turn, before) for before, turn in itertools.pairwise(turns))
        row["turns"] = str(len(turns))
        row[column] = f"{exact} of {len(turns) - 1}"
        forks = Counter(turn["continuation"] for turn in turns if (turn["continuation"] or "").startswith("fork:"))
        row["forks"] = ", ".join(f"{name.removeprefix('fork:')} {count}" for name, count in forks.items()) or "none"
    return row


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.harness.continuation_table")
    parser.add_argument("--only", action="append", choices=scenarios.ALL, help="run this harness anew")
    chosen = parser.parse_args()
    rows: dict[str, dict[str, str]] = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    for harness in chosen.only or scenarios.ALL:
        rows[harness] = seen(harness)
        print(rows[harness], flush=True)
        KEPT.parent.mkdir(parents=True, exist_ok=True)
        KEPT.write_text(json.dumps(rows, indent=1))
    columns = ["harness", "turns", *MODES.values(), "forks"]
    print("| " + " | ".join(columns) + " |\n|" + "---|" * len(columns))
    for name in scenarios.ALL:
        if name in rows:
            print("| " + " | ".join(rows[name][column] for column in columns) + " |")


if __name__ == "__main__":
    main()
