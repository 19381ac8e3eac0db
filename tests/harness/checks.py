"""What is asserted of every run, whatever the harness: it came to its ending, and what was captured is sound."""

import itertools
import re

from polar_capture.harnesses import presets, versions
from tests.harness.cases import RETRY_AFTER, Trial
from tests.harness.matrix import Case, Row
from tests.harness.stage import Ran, extends


def check(row: Row, trial: Trial) -> None:
    """Exit status, what the tool did, number and kind of calls, lineage, chains."""
    ran, ending = trial.ran, row.ending(trial.case)
    seen = f"{row.harness}, {trial.case}: {ran.words}\n{ran.output[-2000:]}"
    assert ran.status == ending.status, seen
    assert ran.proof == ending.proof, seen
    assert re.fullmatch(ending.calls, ran.words), seen
    assert ending.says.lower() in " ".join(ran.output.split()).lower(), seen  # some wrap their lines
    assert {call["agent"] for call in ran.sides} <= row.sides, seen
    assert re.fullmatch(ending.breaks, " ".join(ran.breaks)), f"{ran.breaks} {seen}"
    check_rows(row, ran)
    check_chains(ran)
    if trial.case is Case.BUSY:
        check_wait(row, trial)


def check_rows(row: Row, ran: Ran) -> None:
    preset = presets.get(row.harness)
    assert ran.session["harness"] == row.harness
    assert ran.session["harness_version"] == versions.chosen(preset)
    assert ran.session["status"] == ("completed" if ran.status in (0, 3) else "failed")  # 3: `run`'s own
    for call in ran.calls:
        assert call["trainable"] == (call["reason"] is None)
        assert call["user_turn"]
    for turn in ran.turns:
        assert len(turn["completion_ids"]) == len(turn["logprobs"]) == turn["completion_tokens"] > 0
        assert len(turn["prompt_ids"]) == turn["prompt_tokens"] > 0
    assert not any(call["trainable"] for call in ran.sides)
    # Nothing else tells of a run's last answer: it must be seen to arrive on every transport.
    assert all(call["delivered"] for call in ran.turns), [call["delivered"] for call in ran.calls]


def check_chains(ran: Ran) -> None:
    """Each agent's trainable turns go on from one another token by token, but for as many as have a recorded break; and
    none was generated twice for the same prompt."""
    for name in ran.agents:
        turns = [turn for turn in ran.turns if turn["agent"] == name and turn["trainable"]]
        apart = [b["seq"] for a, b in itertools.pairwise(turns) if not extends(b, a)]
        assert len(apart) <= len(ran.breaks), f"{name}: {apart} {ran.breaks}"
        assert turns[0]["agent"] == "main" or name.startswith("sub:")
    trained = [tuple(turn["prompt_ids"]) for turn in ran.turns if turn["trainable"]]
    # Who sums up the same again and again is told as such: `build` trains one of them.
    assert len(trained) - len(set(trained)) <= ran.breaks.count("retry")
    assert len([name for name in ran.agents if name.startswith("sub:")]) <= 1


def check_wait(row: Row, trial: Trial) -> None:
    """A harness that obeys retry-after waits for as long as it is told; another one by a schedule of its own."""
    at = next(number for number, request in enumerate(trial.asked) if request.status == 429)
    waited = trial.asked[at + 1].at - trial.asked[at].at
    assert waited > (RETRY_AFTER - 0.1 if row.obeys_retry_after else 1.0), waited
