"""What the demo concludes from captured calls."""

from typing import Any

import pytest

from tools import demo
from tools.demo import DemoError


def turn(prompt: list[int], completion: list[int], **changes: Any) -> dict[str, Any]:
    counted = {"prompt_tokens": len(prompt), "completion_tokens": len(completion), "logprobs": [-0.1] * len(completion)}
    named = {"seq": 1, "id": "id-1", "dialect": "anthropic", "finish_reason": "stop", "trainable": True, "reason": None}
    ids = {"prompt_ids": prompt, "completion_ids": completion}
    return {**ids, **counted, **named, "model_served": "driver", **changes}


@pytest.mark.parametrize(
    ("second", "expected"),
    [([1, 2, 3, 4, 5], (True, 4)), ([1, 2, 3, 4], (True, 4)), ([1, 2, 9, 4, 5], (False, 2)), ([1, 2, 3], (False, 3))],
)
def test_extension(second: list[int], expected: tuple[bool, int]) -> None:
    assert demo.extension(turn([1, 2], [3, 4]), turn(second, [7])) == expected


def test_turns_that_add_up_pass() -> None:
    demo.check_turns([turn([1], [2]), turn([1, 2, 3], [4])])


@pytest.mark.parametrize(
    "second",
    [
        turn([1, 2], [3], logprobs=[]),
        turn([1, 2], [3], completion_tokens=2),
        turn([1, 2], [3], prompt_tokens=3),
        turn([1, 2], []),
    ],
)
def test_turns_that_do_not_are_told(second: dict[str, Any]) -> None:
    with pytest.raises(DemoError, match="does not add up"):
        demo.check_turns([turn([1], [2]), second])


def test_one_turn_is_too_few() -> None:
    with pytest.raises(DemoError, match="two turns at least; 1 captured"):
        demo.check_turns([turn([1], [2])])


def test_the_report_tells_ids_logprobs_and_extension() -> None:
    text = demo.report("demo-1", [turn([1, 2], [3, 4]), turn([1, 2, 3, 4, 5], [6, 7], seq=2)])
    for part in ("session demo-1: 2 calls", "[1, 2] … [1, 2]", "mean -0.1000", "extends call 1 exactly", "yes"):
        assert part in text


def test_the_agents_environment_holds_no_keys(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "real")
    monkeypatch.setenv("NODE_EXTRA_CA_CERTS", "/somewhere")
    environment = demo.clean_environment(tmp_path)
    assert environment["ANTHROPIC_API_KEY"] == "dummy"
    assert environment["HOME"] == str(tmp_path)
    assert set(environment) <= {"PATH", "LANG", "TERM", "TMPDIR", "HOME", "ANTHROPIC_API_KEY"}
