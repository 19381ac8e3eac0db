"""What every harness is put through; shared by the tests, which assert, and by the table of the README."""

import msgspec

from polar_capture.harnesses import presets
from tests.double.script import Rule, Step, When
from tests.harness import scripts
from tests.harness.stage import Ran, chained, staged

REFERENCE = ("claude-code", "codex", "qwen-code", "pi")
"""The four that CI runs; the others are one `make test-harness` away."""

ALL = tuple(presets.names())
WITH_SUBAGENTS = tuple(scripts.SPAWN)
OVERFLOW = (
    "This model's maximum context length is 65536 tokens. However, you requested 4096 output tokens and your prompt "
    "contains 70000 input tokens, for a total of 74096 tokens. Please reduce the length of the input prompt."
)
TOO_BIG = Step(status=400, error=OVERFLOW)
SUMMARY = "SUMMARY: the line is written."
SILENCE = 330.0
"""Seconds, beyond the limit of every streaming client (facts §7)."""
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


def overflow(harness: str) -> Ran:
    """The prompt does not fit any more behind the first turn."""
    with staged(scripts.one_call(harness, TOO_BIG)) as (stage, _):
        return stage.run(harness, TASK)


def codex_near_its_window() -> tuple[Ran, str]:
    """Codex at the end of the window that its catalog tells; and the last messages that the engine saw."""
    script = scripts.one_call("codex", Step(content=SUMMARY))
    script.steps[0] = scripts.shell("codex", "echo first >> proof.txt; seq -s ' ' 1 1400")
    with staged(script, window=30000) as (stage, engine):
        ran = stage.run("codex", TASK)
        return ran, str(engine.chats()[-1].body["messages"])


def silence(harness: str, dialect: str | None = None, *, seconds: float = SILENCE) -> Ran:
    """The first answer takes longer than the client would wait without a sign of life."""
    options = ("--dialect", dialect) if dialect else ()
    script = scripts.two_calls("aider") if harness == "aider" else scripts.one_call(harness, delay=seconds)
    if harness == "aider":
        script.rules = [Rule(When(contains="SEARCH/REPLACE"), Step(content=scripts.EDIT, delay=seconds))]
    with staged(script) as (stage, _):
        return stage.run(harness, TASK, options=options, patience=seconds * 2 + 120)


def survived(harness: str, ran: Ran) -> bool:
    """Whether a silence cost nothing: the run ended well, and no answered turn was lost."""
    turns = 1 if harness == "aider" else 3 if harness == "mini-swe-agent" else 2
    return (
        ran.status == 0 and ran.proof.startswith("first\n") and len(ran.turns) >= turns - (harness == "mini-swe-agent")
    )


def agents(ran: Ran) -> dict[str, list[dict]]:
    """The answered turns of each agent, in order."""
    found: dict[str, list[dict]] = {}
    for turn in ran.turns:
        found.setdefault(turn["agent"], []).append(turn)
    return found


def all_chained(turns: list[dict]) -> bool:
    return all(chained(turns))
