"""Connections that break in the middle of a call, and calls that take longer than a client waits."""

import threading
import time
from urllib.parse import urlsplit

import msgspec
import pytest

from polar_capture.harnesses import presets
from tests.harness import scripts
from tests.harness.relay import relay
from tests.harness.scenarios import ALL, TASK, all_chained, silence, survived
from tests.harness.stage import Stage, staged

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


@pytest.mark.parametrize("harness", ["claude-code", "codex", "pi"])
def test_a_dropped_connection_costs_no_turn_and_trains_none_twice(harness: str) -> None:
    again = scripts.one_call(harness)
    script = msgspec.structs.replace(again, steps=[*scripts.one_call(harness, delay=6.0).steps[:1], *again.steps])
    with staged(script) as (stage, engine), stage.serving() as proxy, relay(urlsplit(proxy).port or 0) as between:
        cutter = threading.Thread(target=_cut_when_asked, args=(between, engine))
        cutter.start()
        ran = stage.run(harness, TASK, proxy=f"http://127.0.0.1:{between.port}")
        cutter.join()
    assert ran.status == 0, ran.output
    assert ran.proof == "first\n", ran.output
    trained = [call for call in ran.turns if call["trainable"]]
    assert all_chained(trained)
    assert len({tuple(call["prompt_ids"]) for call in trained}) == len(trained)
    lost = [call for call in ran.calls if call not in trained]
    assert {call["reason"] for call in lost} <= {"aborted", "undelivered"}
    assert max(call["attempt"] for call in ran.calls) >= 1 or lost


def _cut_when_asked(between, engine) -> None:
    """Cut the connections while the first real call is being answered: it is logged only when that is over, so the
    engine's own count of running requests tells."""
    import urllib.request

    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline:
        with opener.open(engine.url + "/metrics", timeout=10) as answer:
            if b"} 1.0" in answer.read():
                time.sleep(1)
                between.cut()
                return
        time.sleep(0.2)
    raise TimeoutError("the harness never asked")


@pytest.mark.parametrize("harness", list(IMPATIENT))
def test_keep_alives_outlast_a_clients_lowered_patience(harness: str) -> None:
    environment, arguments = IMPATIENT[harness]
    with staged(scripts.one_call(harness, delay=32.0)) as (stage, engine):
        ran = stage.run(harness, TASK, *arguments, environment=environment)
        asked = [request for request in engine.chats() if request.body.get("tools")]
    assert ran.status == 0, ran.output
    assert ran.proof == "first\n"
    assert len(ran.calls) == len(asked) == 2, ran.output  # nobody gave up and asked again
    assert all_chained(ran.turns)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_every_streaming_harness_waits_beyond_its_own_limit() -> None:
    """330 s of silence, all at once: waiting costs nothing. mini-swe-agent and OpenHands do not stream (their clients
    wait 600 and 300 s); Qwen Code is asked on Messages too, where it does not see pings."""
    streaming = [name for name in ALL if presets.get(name).waits is None or name == "claude-code"]
    waiting = [*((name, None) for name in streaming), ("qwen-code", "anthropic")]
    failed: list[str] = []

    def wait(harness: str, dialect: str | None) -> None:
        ran = silence(harness, dialect)
        if not survived(harness, ran):
            failed.append(f"{harness} {dialect or ''}: {ran.status}, {len(ran.calls)} calls\n{ran.output[-800:]}")

    threads = [threading.Thread(target=wait, args=pair) for pair in waiting]
    for thread in threads:
        thread.start()
        time.sleep(8)  # each start costs CPU; the waits overlap all the same
    for thread in threads:
        thread.join()
    assert not failed, "\n".join(failed)


def test_a_stage_passes_nothing_of_this_shell_on(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "a-real-one")
    assert "a-real-one" not in Stage(tmp_path, "http://127.0.0.1:1")._environ().values()
