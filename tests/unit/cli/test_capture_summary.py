"""What `run` says of a session at its end."""

from typing import Any

import pytest

from polar_capture.capture_summary import count, lines

ANSWERED = {"kind": "turn", "trainable": True, "reason": None, "warnings": [], "error": None, "has_ids": True}
USAGE = {"prompt_tokens": 3, "completion_tokens": 2}
REFUSED = {**ANSWERED, "trainable": False, "reason": "upstream_error", "error": "prompt is too long", "has_ids": False}


@pytest.mark.parametrize(
    ("calls", "said"),
    [
        ([ANSWERED, REFUSED], "the last turn failed: prompt is too long"),
        ([ANSWERED, REFUSED, {**ANSWERED, "kind": "side"}], "the last turn failed: prompt is too long"),
        ([ANSWERED, REFUSED, ANSWERED], None),
        ([], None),
    ],
)
def test_a_turn_that_failed_last_is_told(calls: list[dict[str, Any]], said: str | None) -> None:
    """Pi, aider and OpenHands end well and in silence where the context overflows."""
    told = [line for line in lines("s", count(call | USAGE for call in calls), "db", named=False) if "failed" in line]
    assert told == ([said] if said else [])
