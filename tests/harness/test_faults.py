"""What goes wrong on the way, and how each harness comes out of it: busy engines, overflow, endless overflow."""

import pytest

from tests.double.script import Script, Step
from tests.harness import scripts
from tests.harness.scenarios import (
    ALL,
    REFERENCE,
    SUMMARY,
    TASK,
    TOO_BIG,
    all_chained,
    codex_near_its_window,
    overflow,
)
from tests.harness.stage import extends, staged

WAITS_AS_TOLD = ("claude-code", "codex", "qwen-code", "opencode", "copilot")
"""They obey retry-after; the others have a schedule of their own (facts §8)."""


@pytest.mark.parametrize("harness", [name for name in ALL if name != "aider"])
def test_a_busy_engine_is_asked_again(harness: str) -> None:
    busy = Step(status=429, error="The engine is currently busy.", headers={"retry-after": "4"})
    with staged(scripts.one_call(harness, busy)) as (stage, engine):
        ran = stage.run(harness, TASK)
        asked = [request for request in engine.chats() if request.body.get("tools")]
    assert ran.status == 0, ran.output
    assert ran.proof == "first\n"
    refused = [call for call in ran.calls if call["status"] == "error"]
    assert [call["http_status"] for call in refused] == [429]
    assert not any(call["trainable"] for call in refused)
    assert all_chained(ran.turns)
    at = next(i for i, request in enumerate(asked) if request.status == 429)
    waited = asked[at + 1].at - asked[at].at
    assert waited > (3.9 if harness in WAITS_AS_TOLD else 1)


@pytest.mark.parametrize("harness", ["claude-code", "qwen-code", "copilot"])
def test_an_overflow_makes_it_sum_up_and_go_on(harness: str) -> None:
    ran = overflow(harness)
    assert ran.status == 0, ran.output
    assert ran.proof == "first\n"
    assert {call["http_status"] for call in ran.calls if call["status"] == "error"} == {400}
    assert len(ran.calls) >= 3
    assert {call["agent"] for call in ran.turns} <= {"main", "aux:helper"}


@pytest.mark.parametrize("harness", ["codex", "pi", "gemini-cli", "mini-swe-agent"])
def test_an_overflow_ends_those_that_do_not_sum_up(harness: str) -> None:
    with staged(Script(rules=[scripts.HELPER], default=TOO_BIG)) as (stage, _):
        ran = stage.run(harness, TASK)
    assert ran.status != 0 or not ran.turns
    assert 1 <= len([call for call in ran.calls if call["status"] == "error"]) <= 3
    assert "maximum context" in ran.output or "context" in ran.output.lower(), ran.output


@pytest.mark.parametrize("harness", ["claude-code", "opencode", "openhands"])
def test_an_endless_overflow_is_stopped(harness: str) -> None:
    """OpenCode and OpenHands would ask hundreds of times a minute; summing up is answered here, and does not help."""
    script = scripts.one_call(harness)
    script.default = TOO_BIG
    with staged(script) as (stage, engine):
        ran = stage.run(harness, TASK, options=("--overflow-limit", "4"))
        asked = [request for request in engine.chats() if request.status == 400]
    assert ran.status != 124, ran.output
    assert 1 <= len(asked) <= 8
    errors = [call for call in ran.calls if call["status"] == "error"]
    assert len(errors) <= 12, [call["error"] for call in errors]


@pytest.mark.parametrize(
    "harness", ["claude-code", "codex", *(name for name in ALL if name not in (*REFERENCE, "aider"))]
)
def test_an_engine_that_fails_once(harness: str) -> None:
    with staged(scripts.one_call(harness, Step(status=500, error="it broke"))) as (stage, _):
        ran = stage.run(harness, TASK)
    assert ran.status == 0, ran.output
    assert ran.proof == "first\n"
    assert [call["status"] for call in ran.calls].count("error") == 1
    assert all_chained(ran.turns)


def test_codex_sums_up_where_its_catalog_says_that_the_window_ends() -> None:
    """Codex has no answer to an overflow: the catalog tells it our window, so that it sums up before."""
    ran, last = codex_near_its_window()
    assert ran.status == 0, ran.output
    assert [call["status"] for call in ran.calls] == ["ok"] * 3
    assert SUMMARY in last
    assert "seq -s" not in last
    assert {call["agent"] for call in ran.turns} == {"main"}
    first, summary, after = ran.turns
    assert extends(summary, first)
    assert not extends(after, summary)
    assert after["trainable"]
