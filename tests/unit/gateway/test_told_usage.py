"""Usage in proportion to the window that a harness believes in."""

import pytest

from polar_capture.chat import Choice, Completion, Message, Usage
from polar_capture.dialects.base import ModelCard
from polar_capture.told_usage import ToldUsage


@pytest.mark.parametrize(
    ("assumed", "windows", "told"),
    [
        (None, [32_000], 1000),
        (200_000, [32_000], 6250),
        (200_000, [64_000, 32_000, None], 6250),  # the smallest window is full first
        (200_000, [None], 1000),
        (200_000, [], 1000),
        (16_000, [32_000], 1000),  # a window smaller than ours needs no help
    ],
)
def test_tokens_are_told_in_proportion(assumed: int | None, windows: list[int | None], told: int) -> None:
    assert ToldUsage(assumed).tokens(1000, [ModelCard("m", window) for window in windows]) == told


def test_a_full_window_is_told_as_a_full_window() -> None:
    answer = Completion([Choice(0, Message("assistant"), "stop")], Usage(31_000, 1_000), prompt_token_ids=[1])
    told = ToldUsage(200_000).completion(answer, [ModelCard("m", 32_000)])
    assert told.usage.prompt_tokens + told.usage.completion_tokens == 200_000
    assert answer.usage == Usage(31_000, 1_000)
    assert told.prompt_token_ids == [1]
