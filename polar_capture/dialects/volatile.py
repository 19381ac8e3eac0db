"""Prompt lines that change on every request and say nothing to the model: named rules, each with its reason.

A harness that writes such a line first in its system text shares no prompt prefix between any two calls. Rules look
only at system text that the harness itself composed: a user who quotes the line keeps it.
"""

import re
from typing import Any

import msgspec


class Rule(msgspec.Struct, frozen=True):
    """One rule: what `pattern` matches at the start of a system text is taken out. `name` stands in `calls.dropped`."""

    name: str
    pattern: re.Pattern[str]


RULES = (
    # Claude Code since 2.1.36: a hash and the last response's ids, new on each request (facts/harnesses.md §4).
    Rule("claude-code-billing-header", re.compile(r"x-anthropic-billing-header:[^\r\n]*(?:\r?\n)*")),
)


def without_volatile(text: str, path: str, dropped: list[dict[str, Any]]) -> str:
    """A system text without its volatile first lines. What is taken out is appended to `dropped` as
    {"rule", "path", "text"}, with `path` as the JSON path of the text."""
    for rule in RULES:
        found = rule.pattern.match(text)
        if found:
            dropped.append({"rule": rule.name, "path": path, "text": found[0]})
            text = text[found.end() :]
    return text
