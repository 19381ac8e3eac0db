"""Silence beyond a client's own patience, lowered so that CI can wait for it."""

import pytest

from tests.harness import scripts
from tests.harness.cases import TASK
from tests.harness.stage import Stage, all_chained, staged

IMPATIENT = {
    "claude-code": (
        {"CLAUDE_BYTE_STREAM_IDLE_TIMEOUT_MS": "15000", "CLAUDE_STREAM_IDLE_TIMEOUT_MS": "15000"},
        (),
    ),
    "codex": (
        {},
        (
            *("-c", "model_provider=here"),
            *("-c", 'model_providers.here.name="here"'),
            *("-c", 'model_providers.here.base_url="https://api.openai.com/v1"'),
            *("-c", 'model_providers.here.env_key="CODEX_API_KEY"'),
            *("-c", 'model_providers.here.wire_api="responses"'),
            *("-c", "model_providers.here.stream_idle_timeout_ms=15000"),
        ),
    ),
}
"""How a harness is told to give up after 15 s of silence, instead of 180 and 300."""


@pytest.mark.parametrize("harness", list(IMPATIENT))
def test_keep_alives_outlast_a_clients_lowered_patience(harness: str) -> None:
    environment, arguments = IMPATIENT[harness]
    with staged(scripts.once(harness, delay=32.0)) as (stage, engine):
        ran = stage.run(harness, TASK, *arguments, environment=environment)
        asked = [request for request in engine.chats() if request.body.get("tools")]
    assert ran.status == 0, ran.output
    assert ran.proof == "first\n"
    assert len(ran.calls) == len(asked) == 2, ran.output  # nobody gave up and asked again
    assert all_chained(ran.turns)


def test_a_stage_passes_nothing_of_this_shell_on(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "a-real-one")
    assert "a-real-one" not in Stage(tmp_path, "http://127.0.0.1:1")._environ().values()
