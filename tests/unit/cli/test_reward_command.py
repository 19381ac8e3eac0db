"""How a reward is read from an evaluator."""

import pytest

from polar_capture.exits import Failure
from polar_capture.reward_command import judge, read


@pytest.mark.parametrize(
    ("stdout", "status", "value"),
    [
        ("", 0, 1.0),
        ("", 1, 0.0),
        ("3 failed\n", 1, 0.0),
        ("ok\n0.25\n", 0, 0.25),
        ("-1\n\n", 0, -1.0),
        (".5", 0, 0.5),
        ("1e-3", 0, 0.001),
        ("0.75\n", 1, 0.75),
        ('{"reward": 0.5, "comment": "half"}', 0, 0.5),
        ('{\n "reward": 2\n}\n', 0, 2.0),
        ('log line\n{"reward": true}\n', 0, 1.0),
        ('{"score": 1}', 0, 1.0),
        ("[1, 2]", 1, 0.0),
        ("infinite loop found", 1, 0.0),
    ],
)
def test_first_match_wins(stdout: str, status: int, value: float) -> None:
    assert read(stdout, status).value == value


def test_json_may_bring_a_comment() -> None:
    assert read('{"reward": 0.5, "comment": "half"}', 0).comment == "half"


@pytest.mark.parametrize("stdout", ["nan", "-inf\n", "Infinity", '{"reward": null}', '{"reward": "high"}', "1e999"])
def test_what_is_no_finite_number_is_no_reward(stdout: str) -> None:
    with pytest.raises(Failure, match="finite number"):
        read(stdout, 0)


@pytest.mark.parametrize("status", [126, 127, 137])
def test_an_evaluator_that_could_not_run_gives_no_reward(status: int) -> None:
    with pytest.raises(Failure, match=f"status {status}"):
        read("", status)


def test_the_command_runs_in_the_shell_with_its_environment() -> None:
    assert judge("echo start; echo $SCORE", {"SCORE": "0.125", "PATH": "/bin:/usr/bin"}).value == 0.125
    with pytest.raises(Failure, match="status 127"):
        judge("no-such-evaluator-here 2>/dev/null", {"PATH": "/bin"})
