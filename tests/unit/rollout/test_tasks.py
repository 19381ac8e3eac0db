"""Tasks files: what they may hold, and how precisely a broken line is told."""

import json
import pickle

import pytest

from polar_capture.rollout.problems import TasksError
from polar_capture.rollout.tasks import Evaluator, Workspace, checked, read

GOOD = {"id": "t", "prompt": "do it"}


def problems(tmp_path, *lines):
    file = tmp_path / "tasks.jsonl"
    file.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines))
    with pytest.raises(TasksError) as error:
        read(file)
    assert error.value.status == 2
    return [problem.removeprefix(f"{file}:") for problem in error.value.problems]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "2: expected a JSON object"),
        ("[1]", "2: expected a JSON object, got `array`"),
        ({"prompt": "x"}, "2: field id: it is required"),
        ({"id": "x"}, "2: field prompt: it is required"),
        (GOOD | {"id": 3}, "2: field id: expected `str`, got `int`"),
        (GOOD | {"id": "a b"}, "2: field id: expected 1 to 64 of"),
        (GOOD | {"id": "x" * 65}, "2: field id: expected 1 to 64 of"),
        (GOOD | {"id": "first"}, "2: field id: 'first' is on line 1 already"),
        (GOOD | {"prompt": " "}, "2: field prompt: expected text, got nothing"),
        (GOOD | {"promt": "x"}, "2: field promt: there is no such field"),
        (GOOD | {"workspace": {"git": "u"}}, "2: field workspace.commit: expected the commit"),
        (GOOD | {"workspace": {"commit": "c"}}, "2: field workspace.commit: it needs workspace.git"),
        (GOOD | {"workspace": {"branch": "c"}}, "2: field workspace.branch: there is no such field"),
        (GOOD | {"workspace": "nowhere"}, "2: field workspace.folder: there is no folder"),
        (GOOD | {"workspace": "no.tar.gz"}, "2: field workspace.tarball: there is no file"),
        (GOOD | {"workspace": {"git": "u", "commit": "c", "folder": "f"}}, "2: field workspace: folder and git"),
        (GOOD | {"evaluator": {"command": "x", "python": "m:f"}}, "2: field evaluator: expected either command or"),
        (GOOD | {"evaluator": {"python": "m"}}, "2: field evaluator.python: expected module:function"),
        (GOOD | {"evaluator": {"command": "x", "reads": "xml"}}, "2: field evaluator.reads: invalid enum value"),
        (GOOD | {"evaluator": ["x", "y"]}, "2: field evaluator: two are named 'outcome'"),
        (GOOD | {"evaluator": ["x", 3]}, "2: field evaluator[1]: expected `str | object`, got `int`"),
        (GOOD | {"timeouts": {"run": 0}}, "2: field timeouts.run: expected seconds above 0, got 0"),
        (GOOD | {"timeouts": {"walk": 1}}, "2: field timeouts.walk: there is no such field"),
        (GOOD | {"limits": {"turns": -1}}, "2: field limits.turns: expected a number above 0, got -1"),
        (GOOD | {"limits": {"turns": "3"}}, "2: field limits.turns: expected `int | null`, got `str`"),
        (GOOD | {"env": {"A=B": "x"}}, "2: field env: 'A=B' is no name of a variable"),
        (GOOD | {"env": {"A": 1}}, "2: field env[...]: expected `str`, got `int`"),
    ],
)
def test_a_broken_line_is_told_with_its_number_field_and_what_was_expected(tmp_path, line, said):
    (found,) = problems(tmp_path, GOOD | {"id": "first"}, line)
    assert found.startswith(said)


def test_every_broken_line_is_told_at_once(tmp_path):
    assert [problem[0] for problem in problems(tmp_path, "{", GOOD, {"id": "x"}, "", "no")] == ["1", "3", "5"]


def test_bytes_that_are_no_text_are_told(tmp_path):
    (tmp_path / "t.jsonl").write_bytes(b'{"id": "a", "prompt": "\xff"}\n')
    with pytest.raises(TasksError, match=r"t\.jsonl:1: "):
        read(tmp_path / "t.jsonl")


@pytest.mark.parametrize("text", ["", "\n\n"])
def test_a_file_without_a_task_is_an_error(tmp_path, text):
    (tmp_path / "t.jsonl").write_text(text)
    with pytest.raises(TasksError, match="there is no task in it"):
        read(tmp_path / "t.jsonl")


def test_a_file_that_is_not_there_is_told(tmp_path):
    with pytest.raises(TasksError, match="No such file"):
        read(tmp_path / "t.jsonl")


def test_short_and_long_forms_mean_the_same(tmp_path):
    (tmp_path / "repo").mkdir()
    (tmp_path / "files.tar.gz").touch()
    lines = [
        GOOD | {"id": "a", "workspace": "repo", "setup": "make", "evaluator": "true", "timeouts": 5},
        GOOD
        | {"id": "b", "workspace": {"folder": "repo"}, "setup": ["make"], "timeouts": {"run": 5}}
        | {"evaluator": [{"command": "true"}]},
        GOOD | {"id": "c", "workspace": "files.tar.gz"},
    ]
    (tmp_path / "t.jsonl").write_text("\n".join(map(json.dumps, lines)))
    a, b, c = read(tmp_path / "t.jsonl")
    assert a.start == b.start == Workspace(folder=str(tmp_path / "repo"))
    assert c.start == Workspace(tarball=str(tmp_path / "files.tar.gz"))
    assert a.setup_commands == b.setup_commands == ["make"]
    assert a.evaluators == b.evaluators == [Evaluator(command="true")]
    assert a.stages == b.stages
    assert a.stages.run == 5


def test_a_changed_task_has_another_fingerprint():
    one, same, other = (checked([GOOD | {"setup": setup}])[0] for setup in ("a", "a", "b"))
    assert one.fingerprint == same.fingerprint != other.fingerprint
    assert pickle.loads(pickle.dumps(one)).fingerprint == one.fingerprint, "on another node it is the same task"


def test_values_from_python_are_checked_the_same_way():
    with pytest.raises(TasksError) as error:
        checked([GOOD, {"id": "x"}, GOOD])
    assert error.value.problems == ["task 1: field prompt: it is required", "task 2: field id: 't' is there twice"]
