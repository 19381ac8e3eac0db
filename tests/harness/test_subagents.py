"""A sub-agent's calls are told apart, chain among themselves, and leave the main agent's chain whole."""

import pytest

from tests.harness.scenarios import WITH_SUBAGENTS, agents, all_chained, subagent


@pytest.mark.parametrize("harness", WITH_SUBAGENTS)
def test_a_subagent_is_a_lineage_of_its_own(harness: str) -> None:
    ran = subagent(harness)
    assert ran.status == 0, ran.output
    assert ran.proof == "sub\n", ran.output
    found = agents(ran)
    subs = {name: turns for name, turns in found.items() if name.startswith("sub:")}
    assert set(found) == {"main", *subs}
    assert len(subs) == 1, found.keys()
    (sub,) = subs.values()
    assert len(sub) == 2
    assert len(found["main"]) >= 2
    assert all_chained(sub)
    assert all_chained(found["main"])
    assert all(turn["trainable"] for turn in ran.turns)
