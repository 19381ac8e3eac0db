"""The README's table of harnesses:  python -m tests.harness.table [--only NAME]… [--no-run]

Every cell is what a run has shown. `make test-harness` keeps what its runs showed; this command runs what the commit
that is checked out has not yet run, and writes the table. Runs of several commits do not go into one table.
"""

import argparse
import os
import sys
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
os.environ.setdefault("POLAR_CACHE", str(ROOT / ".cache"))  # as make has it

from polar_capture.harnesses import presets  # noqa: E402
from tests.harness import cases, kept, matrix  # noqa: E402
from tests.harness.checks import check  # noqa: E402
from tests.harness.kept import Kept  # noqa: E402
from tests.harness.matrix import Case, Row  # noqa: E402

START, END = "<!-- harness table: python -m tests.harness.table -->", "<!-- end of harness table -->"
NEEDED = tuple(case for case in Case if case is not Case.RESUME)


def run(row: Row, case: Case) -> None:
    """Run a case and keep what it showed."""
    for trial in cases.run(row, case):
        try:
            check(row, trial)
            good = True
        except AssertionError as fault:
            print(f"{row.harness} {trial.case}: {fault}", file=sys.stderr)
            good = False
        kept.keep(row, trial, good)
        print(f"{row.harness} {trial.case}: {trial.ran.words}, {'good' if good else 'NOT AS EXPECTED'}", flush=True)


def run_missing(rows: list[Row]) -> None:
    missing = [
        (row, case)
        for row in rows
        for case in NEEDED
        if row.has(case) and (case not in (done := kept.read(row.harness)) or done[case].commit != kept.commit())
    ]
    silences = [threading.Thread(target=run, args=pair) for pair in missing if pair[1] is Case.SILENCE]
    for thread in silences:
        thread.start()
        time.sleep(8)
    for pair in missing:
        if pair[1] is not Case.SILENCE:
            run(*pair)
    for thread in silences:
        thread.join()


COLUMNS = {
    "harness": lambda row, seen: presets.get(row.harness).title,
    "version": lambda row, seen: seen[Case.TASK].version,
    "dialect": lambda row, seen: ", ".join(seen[Case.TASK].dialects),
    "turns captured": lambda row, seen: str(_whole(seen).turns),
    "chain exact": lambda row, seen: _chain(row, seen),
    "sub-agent told apart": lambda row, seen: _subagent(row, seen),
    "compacts": lambda row, seen: _compacts(seen[Case.COMPACTION]),
    "connection dropped": lambda row, seen: _goes_on(seen[Case.DROPPED]),
    "429": lambda row, seen: _goes_on(seen[Case.BUSY]),
    "endless overflow": lambda row, seen: f"status {seen[Case.OVERFLOW].status}, {_refusals(seen[Case.OVERFLOW])}",
    "survives 330 s of silence": lambda row, seen: _waits(seen[Case.SILENCE]),
}


def _whole(seen: dict[Case, Kept]) -> Kept:
    return seen.get(Case.RESUME, seen[Case.TASK])


def _chain(row: Row, seen: dict[Case, Kept]) -> str:
    whole, task = _whole(seen), seen[Case.TASK]
    if whole.turns < 2:
        return "one turn only"
    if whole.exact == whole.turns - 1:
        return "yes"
    return f"until resumed ({', '.join(whole.breaks)})" if task.exact == task.turns - 1 else ", ".join(whole.breaks)


def _subagent(row: Row, seen: dict[Case, Kept]) -> str:
    if not row.has(Case.SUBAGENT):
        return "has none"
    found = seen[Case.SUBAGENT]
    apart = len(found.agents) == 2 and found.exact == found.turns - 2
    return "yes" if found.status == 0 and apart else "no"


def _compacts(found: Kept) -> str:
    if not found.summed_up:
        return f"no, ends with status {found.status}" if found.status else "no"
    return "when refused" if "!400" in found.words else "in time"


def _goes_on(found: Kept) -> str:
    ended_well = found.status == 0 and found.words.endswith("main")
    return "goes on" if ended_well else f"ends with status {found.status}"


def _waits(found: Kept) -> str:
    if found.status == 0 and "!" not in found.words:
        return "yes"
    return f"no, {found.words.count('!')} calls lost, status {found.status}"


def _refusals(found: Kept) -> str:
    count = found.words.count("!400")
    return "1 refusal" if count == 1 else f"{count} refusals"


def render(rows: list[tuple[Row, dict[Case, Kept]]]) -> str:
    lines = [list(COLUMNS), ["---"] * len(COLUMNS)]
    lines += [[cell(row, seen) for cell in COLUMNS.values()] for row, seen in rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def put_into(readme: Path, table: str) -> None:
    text = readme.read_text(encoding="utf-8")
    if START not in text or END not in text:
        raise SystemExit(f"{readme} has no place for the table: put in the lines\n{START}\n{END}")
    before, _, rest = text.partition(START)
    readme.write_text(f"{before}{START}\n{table}\n{END}{rest.partition(END)[2]}", encoding="utf-8")


def complete(rows: list[Row]) -> list[tuple[Row, dict[Case, Kept]]]:
    """The rows with what is kept of them. SystemExit where something was not run, or at different commits."""
    found = [(row, kept.read(row.harness)) for row in rows]
    for row, seen in found:
        for case in NEEDED:
            if row.has(case) and case not in seen:
                raise SystemExit(f"{row.harness} {case} was not run: leave out --no-run")
    commits = {one.commit for _, seen in found for one in seen.values()}
    if len(commits) > 1:
        raise SystemExit(f"these runs are of several commits ({', '.join(sorted(commits))}): leave out --no-run")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.harness.table")
    parser.add_argument("--only", action="append", choices=matrix.ALL, help="run what is missing of this harness alone")
    parser.add_argument("--no-run", action="store_true", help="write the table from the runs that are kept")
    options = parser.parse_args()
    if not options.no_run:
        run_missing([row for row in matrix.ROWS if not options.only or row.harness in options.only])
    found = complete(list(matrix.ROWS))
    put_into(ROOT / "README.md", f"{render(found)}\n\nRun at commit {found[0][1][Case.TASK].commit}.")


if __name__ == "__main__":
    main()
