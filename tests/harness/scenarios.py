"""What every harness is put through; shared by the tests, which assert, and by the table of the README."""

import msgspec

from polar_capture.harnesses import presets
from tests.harness import scripts
from tests.harness.stage import Ran, chained, staged

REFERENCE = ("claude-code", "codex", "qwen-code", "pi")
"""The four that CI runs; the others are one `make test-harness` away."""

ALL = tuple(presets.names())
WITH_SUBAGENTS = tuple(scripts.SPAWN)
TASK = "Please do it."
PROOF = "first\nsecond\n"


class TwoTurns(msgspec.Struct):
    """A task with two tool calls, and a second user turn in the same HOME (None: it cannot resume)."""

    first: Ran
    second: Ran | None = None

    @property
    def last(self) -> Ran:
        return self.second or self.first


def two_turns(harness: str, dialect: str | None = None, *, resume: bool = True) -> TwoTurns:
    options = ("--dialect", dialect) if dialect else ()
    with staged(scripts.two_calls(harness)) as (stage, _):
        found = TwoTurns(stage.run(harness, TASK, options=options))
        if resume and presets.get(harness).again:
            found.second = stage.run(harness, "And now?", options=(*options, "--resume"))
    return found


def subagent(harness: str) -> Ran:
    with staged(scripts.with_subagent(harness)) as (stage, _):
        return stage.run(harness, TASK)


def agents(ran: Ran) -> dict[str, list[dict]]:
    """The answered turns of each agent, in order."""
    found: dict[str, list[dict]] = {}
    for turn in ran.turns:
        found.setdefault(turn["agent"], []).append(turn)
    return found


def all_chained(turns: list[dict]) -> bool:
    return all(chained(turns))
