"""Codex's two kinds of tools and its two transports."""

import pytest

from tests.double.script import Script, Step
from tests.harness import scripts
from tests.harness.cases import TASK
from tests.harness.stage import all_chained, staged

CODE = 'const r = await tools.exec_command({ cmd: "echo first >> proof.txt" });\ntext(r.output);\n'


@pytest.mark.parametrize("harness", ["codex"])
def test_code_mode_runs_javascript(harness: str) -> None:
    call = {"name": "functions__exec", "arguments": {"input": CODE}}
    steps = [Step(content=None, reasoning=scripts.THOUGHT, tool_calls=[call])]
    with staged(Script(steps=steps, rules=[scripts.HELPER], default=Step(content=scripts.LAST))) as (stage, engine):
        ran = stage.run(harness, TASK, options=("--codex-tools", "native"))
        tools = [t["function"]["name"] for t in engine.chats()[-1].body["tools"]]
    assert ran.status == 0, ran.output
    assert ran.proof == "first\n", ran.output
    assert "functions__exec" in tools
    assert "exec_command" not in tools
    assert len(ran.turns) == 2
    assert all_chained(ran.turns)


@pytest.mark.parametrize("harness", ["codex"])
def test_without_websockets_it_goes_on_over_http(harness: str) -> None:
    with staged(scripts.two_calls(harness)) as (stage, _):
        ran = stage.run(harness, TASK, options=("--no-websockets",))
    assert ran.status == 0, ran.output
    assert ran.proof == "first\nsecond\n"
    assert [call["delivered"] for call in ran.turns] == [True] * 3  # over HTTP the end of each answer is seen
    assert all_chained(ran.turns)
