"""What a sample is worth: run its evaluators, and read what each of them says."""

import json
import shutil
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from polar_capture import reward_command
from polar_capture.exits import Failure
from polar_capture.reward_command import CANNOT_JUDGE, Judgement
from polar_capture.rollout import processes
from polar_capture.rollout.problems import EvaluatorFault
from polar_capture.rollout.tasks import Evaluator, Task
from polar_capture.rollout.workspaces import Folders, tail

CALLER = Path(__file__).with_name("call_function.py")

REPORT = "report.xml"
"""pytest's report in the reward folder, out of the agent's reach; PYTEST_ADDOPTS names it."""

_KEPT = 1 << 20
"""Bytes of an evaluator's stdout that are read, from its end."""


async def judge(
    task: Task, folders: Folders, session: str, environment: Mapping[str, str], seconds: float
) -> dict[str, Judgement]:
    """The judgement of each evaluator, by its name. EvaluatorFault where one gives none; `seconds` are for all."""
    judgements = {}
    for evaluator in task.evaluators:
        judgements[evaluator.name] = await _judge(evaluator, task, folders, session, environment, seconds)
    return judgements


async def _judge(
    evaluator: Evaluator, task: Task, folders: Folders, session: str, environment: Mapping[str, str], seconds: float
) -> Judgement:
    shutil.rmtree(folders.reward, ignore_errors=True)
    folders.reward.mkdir(mode=0o700)
    own = {"POLAR_WORKSPACE": str(folders.work), "POLAR_REWARD_DIR": str(folders.reward), "POLAR_TASK": task.id}
    if evaluator.reads.startswith("pytest"):
        own["PYTEST_ADDOPTS"] = f"{environment.get('PYTEST_ADDOPTS', '')} --junitxml={folders.reward / REPORT}".strip()
    output, errors = folders.reward / "stdout", folders.log("evaluate")
    ended = await processes.run(
        ["sh", "-c", evaluator.command] if evaluator.command else [sys.executable, str(CALLER), str(evaluator.python)],
        folder=folders.work,
        environment={**environment, **task.env, **own},
        seconds=seconds,
        output=output,
        errors=errors,
        stdin=None if evaluator.command else _told(task, folders, session),
    )
    what = f"evaluator {evaluator.name} ({evaluator.command or evaluator.python})"
    if ended.timed_out:
        raise EvaluatorFault(f"{what} took longer than {seconds:g} s")
    try:
        return read(evaluator, folders.reward, _end_of(output), ended.status)
    except EvaluatorFault as fault:
        raise EvaluatorFault(f"{what} {fault}{tail(errors)}") from None


def _told(task: Task, folders: Folders, session: str) -> bytes:
    return msgspec.json.encode({"task": task, "workspace": str(folders.work), "session": session})


def _end_of(file: Path) -> str:
    with file.open("rb") as stream:
        stream.seek(max(0, file.stat().st_size - _KEPT))
        return stream.read().decode(errors="replace")


def read(evaluator: Evaluator, folder: Path, stdout: str, status: int) -> Judgement:
    """One judgement from what an evaluator left in `folder`, printed and ended with. EvaluatorFault where there is
    none of the kind that it `reads`."""
    if evaluator.python and status:
        raise EvaluatorFault(f"raised an error (status {status})")
    if status >= CANNOT_JUDGE:
        raise EvaluatorFault(f"could not run (status {status})")
    match evaluator.reads:
        case "status":
            return Judgement(1.0 if status == 0 else 0.0)
        case "pytest" | "pytest-fraction":
            return _pytest(folder / REPORT, fraction=evaluator.reads == "pytest-fraction")
        case "file":
            found = _file(folder)
            if found is None:
                raise EvaluatorFault("wrote neither reward.txt nor reward.json into $POLAR_REWARD_DIR")
            return found
        case "number":
            return _number((stdout.strip().splitlines() or [""])[-1].strip(), "its last line")
        case "json":
            return _json(stdout, "its output")
    found = _file(folder)
    if found is not None:
        return found
    try:
        return reward_command.read(stdout, status)
    except Failure as failure:
        raise EvaluatorFault(str(failure)) from failure


def _file(folder: Path) -> Judgement | None:
    """Harbor's files: `reward.json` with `reward`, or numbers by name of which the mean counts; `reward.txt`."""
    if (folder / "reward.json").exists():
        return _json((folder / "reward.json").read_text(errors="replace"), "reward.json")
    if (folder / "reward.txt").exists():
        return _number((folder / "reward.txt").read_text(errors="replace").strip(), "reward.txt")
    return None


def _number(text: str, where: str) -> Judgement:
    try:
        return judgement_of(float(text))
    except ValueError:
        raise EvaluatorFault(f"left no number in {where}: {text[:80]!r}") from None


def _json(text: str, where: str) -> Judgement:
    lines = text.strip().splitlines() or [""]
    for candidate in (text, lines[-1]):
        try:
            return judgement_of(json.loads(candidate))
        except ValueError:
            continue
    raise EvaluatorFault(f"left no JSON in {where}: {lines[-1][:80]!r}")


def judgement_of(value: Any) -> Judgement:
    """A number, a boolean, or an object with `reward` and perhaps `comment`. EvaluatorFault for anything else."""
    comment = None
    if isinstance(value, dict):
        comment = value.get("comment")
        numbers = [one for one in value.values() if isinstance(one, int | float)]
        if "reward" in value:
            value = value["reward"]
        elif numbers and len(numbers) == len(value):
            value = sum(numbers) / len(numbers)
    if not isinstance(value, int | float) or value != value or abs(value) == float("inf"):
        raise EvaluatorFault(f"said {str(value)[:80]!r}: a reward is a finite number")
    return Judgement(float(value), None if comment is None else str(comment))


def _pytest(report: Path, *, fraction: bool) -> Judgement:
    """From a JUnit report as pytest writes it. Skipped tests count for nothing."""
    try:
        suites = list(ElementTree.parse(report).getroot().iter("testsuite"))
    except (OSError, ElementTree.ParseError) as error:
        raise EvaluatorFault(f"left no readable pytest report ({error})") from error
    counts = {
        name: sum(int(suite.get(name, 0)) for suite in suites) for name in ("tests", "failures", "errors", "skipped")
    }
    ran = counts["tests"] - counts["skipped"]
    passed = ran - counts["failures"] - counts["errors"]
    comment = f"{passed} of {ran} tests passed"
    if fraction:
        return Judgement(passed / ran if ran else 0.0, comment)
    return Judgement(1.0 if ran and passed == ran else 0.0, comment)
