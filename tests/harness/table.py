"""The README's table of harnesses, from real runs:  python -m tests.harness.table [--only NAME]… [--quick]

Every cell is what a run just showed; runs are kept in .cache/reports/harnesses.json, so that one harness can be run
anew. `--quick` leaves out the silence, which takes six minutes (for all together).
"""

import argparse
import json
import os
import threading
import time
from pathlib import Path
from typing import Any

from polar_capture.harnesses import presets
from polar_capture.harnesses.install import cache_folder
from tests.harness import scenarios

ROOT = Path(__file__).resolve().parents[2]
os.environ.setdefault("POLAR_CACHE", str(ROOT / ".cache"))  # as make has it
KEPT = cache_folder() / "reports" / "harnesses.json"
START, END = "<!-- harness table: python -m tests.harness.table -->", "<!-- end of harness table -->"
COLUMNS = (
    "harness",
    "version",
    "dialect",
    "turns captured",
    "chain exact",
    "sub-agent told apart",
    "compacts",
    "survives 330 s of silence",
)


def seen(harness: str) -> dict[str, str]:
    """The cells of one harness but the last."""
    found = scenarios.two_turns(harness)
    ran = found.last
    turns = ran.turns
    links = scenarios.chained(turns)
    broken = [number for number, exact in enumerate(links, 2) if not exact]
    resumed = found.second is not None and broken == [len(turns)]
    chain = (
        "only one turn"
        if not links
        else "yes"
        if not broken
        else "until resumed"
        if resumed
        else f"breaks at turn {broken[0]}"
    )
    good = found.first.status == 0 and found.first.proof == scenarios.PROOF and ran.status == 0
    return {
        "harness": presets.get(harness).title,
        "version": str(ran.session.get("harness_version")),
        "dialect": ", ".join(sorted({call["dialect"] for call in turns})),
        "turns captured": str(len(turns)) if good else f"{len(turns)}, ended with status {ran.status}",
        "chain exact": chain if good else "no",
        "sub-agent told apart": _subagent(harness),
        "compacts": _compacts(harness),
    }


def _subagent(harness: str) -> str:
    if harness not in scenarios.WITH_SUBAGENTS:
        return "has none"
    ran = scenarios.subagent(harness)
    found = scenarios.agents(ran)
    subs = [turns for name, turns in found.items() if name.startswith("sub:")]
    good = ran.status == 0 and ran.proof == "sub\n" and len(subs) == 1
    return "yes" if good and all(map(scenarios.all_chained, found.values())) else "no"


def _compacts(harness: str) -> str:
    if harness == "aider":
        return "not run"
    ran = scenarios.overflow(harness)
    if ran.status == 0 and ran.proof == "first\n" and ran.calls[-1]["status"] == "ok":
        return "when refused"
    if harness == "codex":
        ran, last = scenarios.codex_near_its_window()
        return "in time, by its catalog" if ran.status == 0 and scenarios.SUMMARY in last else "no"
    return "no"


def silences(harnesses: list[str], rows: dict[str, dict[str, Any]]) -> list[threading.Thread]:
    """Start the waits of all harnesses; each writes its cell."""

    def wait(harness: str) -> None:
        ran = scenarios.silence(harness)
        good = scenarios.survived(harness, ran)
        lost = [call for call in ran.calls if call["kind"] == "turn" and call["status"] != "ok"]
        gave_up = lost[0]["finished_at"] - lost[0]["started_at"] if lost else 0
        cell = "yes" if good else f"no, asks again after {gave_up:.0f} s" if lost else "no"
        rows[harness]["survives 330 s of silence"] = cell

    threads = [threading.Thread(target=wait, args=(harness,)) for harness in harnesses]
    for thread in threads:
        thread.start()
        time.sleep(6)
    return threads


def render(rows: list[dict[str, str]]) -> str:
    cells = [list(COLUMNS), ["---"] * len(COLUMNS), *([row.get(c, "not run") for c in COLUMNS] for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in cells)


def put_into(readme: Path, table: str) -> None:
    text = readme.read_text(encoding="utf-8")
    if START not in text or END not in text:
        raise SystemExit(f"{readme} has no place for the table: put in the lines\n{START}\n{END}")
    before, _, rest = text.partition(START)
    readme.write_text(f"{before}{START}\n{table}\n{END}{rest.partition(END)[2]}", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.harness.table")
    parser.add_argument("--only", action="append", choices=scenarios.ALL, help="run this harness anew")
    parser.add_argument("--quick", action="store_true", help="leave out the silence")
    parser.add_argument("--no-run", action="store_true", help="write the table from the runs that are kept")
    options = parser.parse_args()
    rows: dict[str, dict[str, Any]] = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    wanted = [] if options.no_run else options.only or list(scenarios.ALL)
    for harness in wanted:
        rows.setdefault(harness, {})
    threads = [] if options.quick else silences(wanted, rows)
    for harness in wanted:
        rows[harness] |= seen(harness)
        print(rows[harness], flush=True)
        keep(rows)
    for thread in threads:
        thread.join()
    keep(rows)
    if not rows:
        raise SystemExit(f"no runs are kept in {KEPT}: leave out --no-run")
    put_into(ROOT / "README.md", render([rows[name] for name in scenarios.ALL if name in rows]))


def keep(rows: dict[str, dict[str, Any]]) -> None:
    KEPT.parent.mkdir(parents=True, exist_ok=True)
    KEPT.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
