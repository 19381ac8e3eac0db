"""Evaluators: every way to say a reward, and what is none."""

import sys

import pytest

from polar_capture.rollout import evaluation
from polar_capture.rollout.problems import EvaluatorFault
from polar_capture.rollout.tasks import Evaluator, checked
from polar_capture.rollout.workspaces import Folders

JUNIT = '<testsuites><testsuite tests="{}" failures="{}" errors="{}" skipped="{}"/></testsuites>'


def read(tmp_path, reads, stdout="", status=0, **files):
    for name, text in files.items():
        (tmp_path / name.replace("_", ".")).write_text(text)
    return evaluation.read(Evaluator(command="x", reads=reads), tmp_path, stdout, status)


@pytest.mark.parametrize(
    ("reads", "stdout", "status", "files", "value"),
    [
        ("status", "0.3", 0, {}, 1.0),
        ("status", "1", 3, {}, 0.0),
        ("number", "loud\n 0.25 \n\n", 1, {}, 0.25),
        ("json", '{"reward": 0.5}', 0, {}, 0.5),
        ("json", 'log\n{"reward": true, "comment": "c"}', 0, {}, 1.0),
        ("json", '{"format": 1, "tests": 0}', 0, {}, 0.5),
        ("file", "", 0, {"reward_txt": "0.75\n"}, 0.75),
        ("file", "", 0, {"reward_json": '{"reward": 2}'}, 2.0),
        ("auto", "0.1", 0, {"reward_txt": "0.75"}, 0.75),
        ("auto", "0.1", 0, {}, 0.1),
        ("auto", "words", 0, {}, 1.0),
        ("auto", "words", 1, {}, 0.0),
        ("pytest", "", 0, {"report_xml": JUNIT.format(9, 0, 0, 2)}, 1.0),
        ("pytest", "", 1, {"report_xml": JUNIT.format(9, 1, 0, 2)}, 0.0),
        ("pytest", "", 5, {"report_xml": JUNIT.format(0, 0, 0, 0)}, 0.0),
        ("pytest", "", 0, {"report_xml": JUNIT.format(2, 0, 0, 2)}, 0.0),
        ("pytest-fraction", "", 1, {"report_xml": JUNIT.format(10, 1, 1, 2)}, 0.75),
    ],
)
def test_every_way_to_say_a_reward(tmp_path, reads, stdout, status, files, value):
    assert read(tmp_path, reads, stdout, status, **files).value == value


@pytest.mark.parametrize(
    ("reads", "stdout", "status", "files", "said"),
    [
        ("status", "", 127, {}, "could not run"),
        ("status", "", 137, {}, "could not run"),
        ("number", "", 0, {}, "no number"),
        ("number", "good", 0, {}, "no number in its last line: 'good'"),
        ("number", "nan", 0, {}, "finite"),
        ("json", "{", 0, {}, "no JSON"),
        ("json", '{"reward": "high"}', 0, {}, "finite"),
        ("json", '{"reward": NaN}', 0, {}, "finite"),
        ("json", "[]", 0, {}, "finite"),
        ("file", "1", 0, {}, "neither"),
        ("file", "", 0, {"reward_txt": "yes"}, "no number in reward.txt"),
        ("pytest", "", 0, {}, "no readable pytest report"),
        ("pytest", "", 0, {"report_xml": "<testsuites>"}, "no readable pytest report"),
        ("auto", "inf", 0, {}, "finite"),
    ],
)
def test_garbage_is_no_reward(tmp_path, reads, stdout, status, files, said):
    with pytest.raises(EvaluatorFault, match=said):
        read(tmp_path, reads, stdout, status, **files)


async def judge(tmp_path, evaluator, seconds=20.0, **task):
    folders = Folders(tmp_path / "sample")
    folders.make()
    (task,) = checked([{"id": "t", "prompt": "p", "evaluator": evaluator, **task}])
    return await evaluation.judge(task, folders, "session", {"PATH": "/usr/bin:/bin"}, seconds)


async def test_several_evaluators_give_rewards_by_name(tmp_path):
    found = await judge(tmp_path, ["echo 0.5", {"command": "false", "name": "format"}])
    assert {name: one.value for name, one in found.items()} == {"outcome": 0.5, "format": 0.0}


async def test_a_hanging_evaluator_is_ended_with_all_that_it_started(tmp_path):
    with pytest.raises(EvaluatorFault, match="took longer than"):
        await judge(tmp_path, "setsid sleep 977 & sleep 978", seconds=0.5)
    assert processes("sleep 97[78]") == []


def processes(pattern):
    import subprocess

    return subprocess.run(["pgrep", "-f", f"^{pattern}$"], capture_output=True, text=True).stdout.split()


async def test_a_report_that_the_agent_left_is_not_believed(tmp_path):
    forged = 'mkdir -p "$POLAR_REWARD_DIR"; test ! -e "$POLAR_REWARD_DIR/reward.txt"'
    folders = Folders(tmp_path / "sample")
    folders.make()
    folders.reward.mkdir()
    (folders.reward / "reward.txt").write_text("1")
    (task,) = checked([{"id": "t", "prompt": "p", "evaluator": {"command": forged, "reads": "file"}}])
    with pytest.raises(EvaluatorFault, match="neither"):
        await evaluation.judge(task, folders, "session", {"PATH": "/usr/bin:/bin"}, 20)


async def test_pytest_itself_is_read(tmp_path):
    test = "def test_a(): pass\ndef test_b(): assert 0\n"
    command = f"printf '{test.encode('unicode_escape').decode()}' > test_x.py; {sys.executable} -m pytest -q"
    found = await judge(tmp_path, {"command": command, "reads": "pytest-fraction"}, seconds=60)
    assert (found["outcome"].value, found["outcome"].comment) == (0.5, "1 of 2 tests passed")


@pytest.mark.parametrize(
    ("body", "value"),
    [
        ("def f(task): print('noise'); return len(task['prompt'])", 1.0),
        ("def f(workspace, session): return {'reward': session == 'session'}", 1.0),
        ("def f(**given): return 0.5 if sorted(given) == ['session', 'task', 'workspace'] else 0", 0.5),
    ],
)
async def test_a_python_function_judges(tmp_path, body, value):
    (tmp_path / "judge.py").write_text(body)
    assert (await judge(tmp_path, {"python": f"{tmp_path}/judge.py:f"}))["outcome"].value == value


@pytest.mark.parametrize(
    ("body", "said"),
    [("def f(): raise ValueError('sad')", "sad"), ("def f(): return 'good'", "finite"), ("x = 1", "no attribute 'f'")],
)
async def test_a_python_function_that_cannot_judge_is_told(tmp_path, body, said):
    (tmp_path / "judge.py").write_text(body)
    with pytest.raises(EvaluatorFault, match=said):
        await judge(tmp_path, {"python": f"{tmp_path}/judge.py:f"})
