"""Volatile prompt lines are taken out where they stand first in a system text, and nowhere else."""

from typing import Any

import pytest

from polar_capture.dialects.volatile import RULES, without_volatile

LINE = "x-anthropic-billing-header: cc_version=2.1.332.8fd; cch=1a2b3;"


@pytest.mark.parametrize(
    ("text", "left", "taken"),
    [
        (LINE, "", LINE),
        (f"{LINE}\nYou are a coder.\n", "You are a coder.\n", f"{LINE}\n"),
        (f"{LINE}\r\n\r\nYou", "You", f"{LINE}\r\n\r\n"),
        (f"You quote: {LINE}", f"You quote: {LINE}", None),
        (f"You\n{LINE}", f"You\n{LINE}", None),
        ("", "", None),
    ],
)
def test_the_billing_header(text: str, left: str, taken: str | None):
    dropped: list[dict[str, Any]] = []
    assert without_volatile(text, "$.system", dropped) == left
    expected = [{"rule": "claude-code-billing-header", "path": "$.system", "text": taken}]
    assert dropped == (expected if taken else [])


def test_rules_have_names_of_their_own():
    assert len({rule.name for rule in RULES}) == len(RULES)
