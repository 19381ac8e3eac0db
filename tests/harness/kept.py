"""What runs have shown, kept for the table of the README: one file a harness and case, with the commit they ran at."""

import functools
import os
import subprocess
from pathlib import Path
from typing import Any

import msgspec

from polar_capture.harnesses.install import cache_folder
from tests.harness.cases import Trial
from tests.harness.matrix import Case, Row
from tests.harness.scripts import SUMMARY

ROOT = Path(__file__).resolve().parents[2]


class Kept(msgspec.Struct):
    """One run. `breaks` as `build` records them; `summed_up`: a later call went on from a summary in place of what it
    sums up."""

    harness: str
    case: Case
    commit: str
    version: str
    dialects: list[str]
    status: int
    good: bool
    """Whether all that `checks` asserts was true."""
    words: str
    breaks: list[str]
    exact: int
    """Turns that extend the one before, token by token."""
    turns: int
    agents: list[str]
    refused: list[str]
    seconds: float
    summed_up: bool


@functools.cache
def commit() -> str:
    """The commit that is checked out, as this process began; with a mark where files differ from it."""
    told = subprocess.run(
        ["git", "describe", "--always", "--dirty", "--exclude=*"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return told.stdout.strip()


def folder() -> Path:
    return cache_folder() / "reports" / "harness"


def keep(row: Row, trial: Trial, good: bool, name: str | None = None) -> Kept:
    """Write down a trial, under its case or another name."""
    ran = trial.ran
    kept = Kept(
        harness=row.harness,
        case=trial.case,
        commit=commit(),
        version=str(ran.session.get("harness_version")),
        dialects=sorted({call["dialect"] for call in ran.turns}),
        status=ran.status,
        good=good,
        words=ran.words,
        breaks=ran.breaks,
        exact=ran.exact,
        turns=len(ran.turns),
        agents=sorted(ran.agents),
        refused=sorted(set(ran.refused)),
        seconds=round(ran.seconds, 1),
        summed_up=summed_up(trial),
    )
    folder().mkdir(parents=True, exist_ok=True)
    file = folder() / f"{row.harness}.{name or trial.case}.json"
    draft = file.with_suffix(f".{os.getpid()}")
    draft.write_bytes(msgspec.json.format(msgspec.json.encode(kept), indent=1))
    draft.replace(file)
    return kept


def read(harness: str) -> dict[Case, Kept]:
    """What is kept of a harness."""
    found = (msgspec.json.decode(file.read_bytes(), type=Kept) for file in folder().glob(f"{harness}.*.json"))
    return {kept.case: kept for kept in found}


def summed_up(trial: Trial) -> bool:
    """Whether a later request of the agent (not of a helper without tools) is shorter than one before, and holds the
    words of a summary."""
    with_tools = [request for request in trial.asked if request.body.get("tools")]
    longest = 0
    for request in with_tools or trial.asked:
        said = request.body["messages"]
        size = len(msgspec.json.encode(said))
        if any(SUMMARY in _text(message) for message in said) and size < longest:
            return True
        longest = max(longest, size)
    return False


def _text(message: dict[str, Any]) -> str:
    return msgspec.json.encode(message.get("content")).decode()
