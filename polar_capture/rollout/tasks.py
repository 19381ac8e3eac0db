"""The tasks of a rollout: one JSON object a line, checked whole before anything starts.

{"id": "fix-1", "prompt": "Make the tests pass", "workspace": {"git": "URL", "commit": "SHA"},
 "setup": ["pip install -e ."], "evaluator": {"command": "pytest -q", "reads": "pytest"},
 "timeouts": {"run": 900}, "limits": {"turns": 40}, "env": {"LANG": "C"}, "tags": ["easy"]}
"""

import hashlib
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec

from polar_capture.rollout.problems import TasksError
from polar_capture.session_limits import Limits

Reads = Literal["auto", "status", "number", "json", "pytest", "pytest-fraction", "file"]

TASK_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
"""Shorter than a session id, which has the rollout's name and the sample's number in it too."""

_TARBALL = re.compile(r"\.(tar|tgz|tbz2|txz|tar\.(gz|bz2|xz))$")


class Workspace(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What a sample's working folder starts with: a copy of `folder`, a clone of `git` at `commit`, or what `tarball`
    holds. Paths are relative to the tasks file."""

    folder: str | None = None
    git: str | None = None
    commit: str | None = None
    tarball: str | None = None


class Evaluator(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What judges a finished sample: a shell `command`, or `python` (`module:function` or `file.py:function`).

    `reads` says where the command's judgement is: `status` (0 is 1, else 0), `number` (last line), `json` (an object
    with `reward`), `pytest` (1 when all tests pass), `pytest-fraction` (passed of all), `file` (`reward.txt` or
    `reward.json` in $POLAR_REWARD_DIR), `auto` (such a file, else JSON, else a number, else the status).
    """

    command: str | None = None
    python: str | None = None
    reads: Reads = "auto"
    name: str = "outcome"


class Timeouts(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Time limits of the stages, in seconds."""

    prepare: float = 600.0
    run: float = 1800.0
    evaluate: float = 600.0


class Task(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One task of a rollout."""

    id: str
    prompt: str
    workspace: str | Workspace | None = None
    setup: str | list[str] = []
    evaluator: str | Evaluator | list[str | Evaluator] | None = None
    timeouts: float | Timeouts = Timeouts()
    limits: Limits = Limits()
    env: dict[str, str] = {}
    tags: list[str] = []

    @property
    def start(self) -> Workspace:
        """The workspace, whichever way it was written."""
        if isinstance(self.workspace, str):
            if _TARBALL.search(self.workspace):
                return Workspace(tarball=self.workspace)
            return Workspace(folder=self.workspace)
        return self.workspace or Workspace()

    @property
    def setup_commands(self) -> list[str]:
        return [self.setup] if isinstance(self.setup, str) else self.setup

    @property
    def evaluators(self) -> list[Evaluator]:
        given = self.evaluator if isinstance(self.evaluator, list) else [self.evaluator]
        return [Evaluator(command=one) if isinstance(one, str) else one for one in given if one is not None]

    @property
    def stages(self) -> Timeouts:
        return self.timeouts if isinstance(self.timeouts, Timeouts) else Timeouts(run=self.timeouts)

    @property
    def fingerprint(self) -> str:
        """Of all that decides what a sample is; a resumed rollout goes on only with the very same task."""
        return hashlib.sha256(msgspec.json.encode(_whole(self))).hexdigest()[:16]


def _whole(value: Any) -> Any:
    """With every default in it: `omit_defaults` compares by identity, and differs after a pickle."""
    if isinstance(value, msgspec.Struct):
        return {name: _whole(getattr(value, name)) for name in value.__struct_fields__}
    if isinstance(value, list):
        return [_whole(item) for item in value]
    return value


def read(path: Path) -> list[Task]:
    """The tasks of a file, in order; blank lines are passed over. Relative paths become absolute.

    TasksError with every broken line (its number, the field, what was expected), for a file that can't be read, and
    for one without a task.
    """
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise TasksError([f"{path}: {error.strerror or error}"]) from error
    problems: list[str] = []
    tasks: list[Task] = []
    seen: dict[str, int] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            task = _placed(msgspec.json.decode(line, type=Task), path.absolute().parent)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            problems.append(f"{path}:{number}: {_explained(error)}")
            continue
        found = problems_of(task)
        if task.id in seen:
            found.append(f"field id: {task.id!r} is on line {seen[task.id]} already")
        seen.setdefault(task.id, number)
        problems += [f"{path}:{number}: {problem}" for problem in found]
        tasks.append(task)
    if not tasks and not problems:
        problems.append(f"{path}: there is no task in it: one JSON object with id and prompt a line")
    if problems:
        raise TasksError(problems)
    return tasks


def checked(given: Iterable[Task | Mapping[str, Any]]) -> list[Task]:
    """Tasks from Python values. TasksError names the item by its place."""
    problems: list[str] = []
    tasks: list[Task] = []
    seen: set[str] = set()
    for place, item in enumerate(given):
        try:
            task = _placed(item if isinstance(item, Task) else msgspec.convert(item, Task), Path.cwd())
        except msgspec.ValidationError as error:
            problems.append(f"task {place}: {_explained(error)}")
            continue
        found = problems_of(task)
        found += [f"field id: {task.id!r} is there twice"] if task.id in seen else []
        seen.add(task.id)
        problems += [f"task {place}: {problem}" for problem in found]
        tasks.append(task)
    if not tasks and not problems:
        problems.append("there is no task")
    if problems:
        raise TasksError(problems)
    return tasks


def problems_of(task: Task) -> list[str]:
    """What is wrong with the values of a task that has the right types; paths are looked up."""
    problems = []
    if TASK_ID.fullmatch(task.id) is None:
        problems.append(f"field id: expected 1 to 64 of A-Z a-z 0-9 . _ -, got {task.id[:80]!r}")
    if not task.prompt.strip():
        problems.append("field prompt: expected text, got nothing")
    problems += _workspace_problems(task.start)
    problems += _evaluator_problems(task.evaluators)
    for name in Timeouts.__struct_fields__:
        value = getattr(task.stages, name)
        if not 0 < value < float("inf"):
            problems.append(f"field timeouts.{name}: expected seconds above 0, got {value:g}")
    problems += [f"field limits.{problem}" for problem in task.limits.problems()]
    for name in task.env:
        if not name or "=" in name or "\0" in name + task.env[name]:
            problems.append(f"field env: {name!r} is no name of a variable")
    return problems


def _workspace_problems(start: Workspace) -> list[str]:
    kinds = [name for name in ("folder", "git", "tarball") if getattr(start, name)]
    if len(kinds) > 1:
        return [f"field workspace: {' and '.join(kinds)} exclude each other"]
    if start.commit and not start.git:
        return ["field workspace.commit: it needs workspace.git"]
    if start.git and not start.commit:
        return ["field workspace.commit: expected the commit to check out, got nothing"]
    if start.folder and not Path(start.folder).is_dir():
        return [f"field workspace.folder: there is no folder {start.folder}"]
    if start.tarball and not Path(start.tarball).is_file():
        return [f"field workspace.tarball: there is no file {start.tarball}"]
    return []


def _evaluator_problems(evaluators: list[Evaluator]) -> list[str]:
    problems = []
    for place, one in enumerate(evaluators):
        where = "field evaluator" if len(evaluators) == 1 else f"field evaluator[{place}]"
        if bool(one.command) == bool(one.python):
            problems.append(f"{where}: expected either command or python")
        elif one.python and not all(one.python.rpartition(":")[::2]):
            problems.append(f"{where}.python: expected module:function or file.py:function, got {one.python!r}")
        elif one.python and one.reads != "auto":
            problems.append(f"{where}.reads: a Python function returns its judgement, so leave it out")
    names = [one.name for one in evaluators]
    problems += [
        f"field evaluator: two are named {name!r}; give each its name, and one of them outcome"
        for name in sorted({name for name in names if names.count(name) > 1})
    ]
    return problems


def _placed(task: Task, base: Path) -> Task:
    """The task with absolute paths."""
    start = task.start
    if not (start.folder or start.tarball):
        return task
    moved = {name: str(base / value) for name in ("folder", "tarball") if (value := getattr(start, name))}
    return msgspec.structs.replace(task, workspace=msgspec.structs.replace(start, **moved))


def _explained(error: Exception) -> str:
    """msgspec's words with the field first."""
    if isinstance(error, UnicodeDecodeError):
        return "expected UTF-8"
    text = str(error)
    what, _, at = text.partition(" - at `$")
    field = at.rstrip("`").lstrip(".")
    missing = re.search(r"missing required field `(.+?)`", what)
    if missing:
        return f"field {'.'.join(filter(None, [field, missing[1]]))}: it is required"
    unknown = re.search(r"unknown field `(.+?)`", what)
    if unknown:
        return f"field {'.'.join(filter(None, [field, unknown[1]]))}: there is no such field"
    what = what[:1].lower() + what[1:]
    if isinstance(error, msgspec.ValidationError):
        return f"field {field}: {what}" if field else what.replace("`object`", "a JSON object")
    return f"expected a JSON object: {text}"
