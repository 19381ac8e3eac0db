"""Every official SDK, in every way it can ask, is told exactly what the engine said."""

import itertools
import json
from typing import Any

import pytest

from tests.sdk.clients import WAYS, Way
from tests.sdk.javascript import Node
from tests.sdk.scenarios import SCENARIOS, STOPS, USAGE, Scenario, Told
from tests.sdk.stage import Stage

RAW = ("chat", "responses")
"""The APIs that give arguments as the string that was sampled; the others give the value."""
_numbers = itertools.count()


def session_of(way: Way, name: str) -> str:
    return f"{way}-{name}-{next(_numbers)}"


def expected_calls(api: str, scenario: Scenario) -> list[tuple[str, Any]]:
    if api in RAW:
        return list(scenario.raw_calls)
    return [(name, json.loads(arguments)) for name, arguments in scenario.raw_calls]


def expected_usage(api: str) -> tuple[int, int, int, int]:
    cached = USAGE["prompt_tokens_details"]["cached_tokens"]  # type: ignore[index]
    thought = USAGE["completion_tokens_details"]["reasoning_tokens"]  # type: ignore[index]
    return (1200, 34, cached, thought)


@pytest.mark.parametrize("name", SCENARIOS)
@pytest.mark.parametrize("way", WAYS, ids=str)
def test_the_client_is_told_what_was_sampled(stage: Stage, node: Node, way: Way, name: str) -> None:
    scenario, session = SCENARIOS[name], session_of(way, name)
    told = way.ask(stage, node, session, scenario.asked)
    assert told.text == (scenario.step.content or "")
    assert told.thinking == (scenario.step.reasoning or "")
    assert told.calls == expected_calls(way.api, scenario)
    sequence = "sequence" if scenario.step.stop_reason else scenario.finish
    assert told.stop == STOPS[way.api][sequence]
    assert told.usage == expected_usage(way.api)
    if way.api == "messages":
        assert told.stop_sequence == scenario.step.stop_reason
    (row,) = stage.calls(session)
    check_row(row, told, scenario, way)


def check_row(row: dict[str, Any], told: Told, scenario: Scenario, way: Way) -> None:
    """The record holds the same turn, by the ids that the client got, with its tokens."""
    assert (row["status"], row["delivered"], row["streamed"]) == ("ok", True, way.streams)
    assert row["trainable"], row["reason"]
    assert len(row["completion_ids"]) == len(row["logprobs"]) > 0
    message = json.loads(row["message"])
    assert (message.get("content") or "") == (scenario.step.content or "")
    stem = row["id"].replace("-", "")
    assert all(stem in identifier for identifier in told.ids)
    assert len(set(told.ids)) == len(told.ids)
    assert len(told.call_ids) == len(scenario.step.tool_calls)
