"""The same on a real vLLM with the tiny driver model: the model itself asks for the tool, sees its result, and ends."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.stage import Stage, all_chained
from tools.engine.serve import engine

TOOLS = {
    "claude-code": "Bash",
    "codex": "exec_command",
    "qwen-code": "run_shell_command",
    "pi": "bash",
    "opencode": "bash",
}
"""The tool that the driver model is told to use; it always appends the line `polar`."""


@pytest.fixture(scope="session")
def vllm() -> Iterator[str]:
    """The base URL of the engine that all stages share."""
    with engine() as running:
        yield running.url


@pytest.mark.parametrize("harness", TOOLS)
def test_a_real_model_drives_it(harness: str, vllm: str) -> None:
    with tempfile.TemporaryDirectory(prefix="harness-", ignore_cleanup_errors=True) as name:
        ran = Stage(Path(name), vllm).run(
            harness, f"Please write polar into proof.txt, use the tool {TOOLS[harness]}", patience=300
        )
    assert ran.status == 0, ran.output
    assert set(ran.proof.split()) == {"polar"}, ran.output
    turns = ran.turns
    assert len(turns) >= 2
    assert [turn["finish_reason"] for turn in turns[:2]] == ["tool_calls", "stop"] or len(turns) > 2
    for turn in turns:
        assert turn["trainable"], turn["reason"]
        assert len(turn["completion_ids"]) == len(turn["logprobs"]) == turn["completion_tokens"] > 0
        assert len(turn["prompt_ids"]) == turn["prompt_tokens"] > 0
        assert all(value <= 0 for value in turn["logprobs"])
    assert all_chained(turns)
