"""`top` and the metrics, over a real proxy; the dashboard asks only for metrics that there are."""

import asyncio
import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from polar_capture.cli import main
from polar_capture.commands.top import Reading, headline, parse, totals
from tests.double.script import Script, Step
from tests.double.server import Double
from tests.proxying import TOKEN, Proxy, proxy
from tests.unit.proxy.dialect_calls import CALLS

DASHBOARD = Path(__file__).resolve().parents[3] / "deploy" / "grafana" / "polar-capture.json"
MISSING = Script(steps=[Step(), Step(missing=["token_ids"])])


async def top(running: Proxy, *arguments: str, token: str = TOKEN) -> Result:
    command = ["top", "--proxy", running.url, "--interval", "0.05", "--home", str(running.folder / "home"), *arguments]
    environment = {"POLAR_CONTROL_TOKEN": token}
    return await asyncio.to_thread(lambda: CliRunner().invoke(main, command, env=environment))


async def test_top_counts_sessions_tokens_and_what_is_not_trainable():
    async with Double(MISSING) as vllm, proxy(vllm.url) as running:
        url, call = CALLS["openai_chat"].asking("hi")
        for _ in range(2):
            await running.answer("POST", url, json=call)
        found = json.loads((await top(running, "--json")).stdout)
        table = (await top(running, "--once")).stdout
    (session,) = found["sessions"]
    assert (session["session"], session["calls"], session["not_trainable"], session["errors"]) == ("s1", 2, 1, 0)
    assert session["completion_tokens"] > 0
    assert session["engine"] >= 0
    assert found["not_trainable"] == {"ids_missing": 1}
    assert (found["calls_running"], found["live_sessions"]) == (0, 1)
    assert "1 sessions · 0 calls running" in table
    assert "not trainable: ids_missing 1" in table
    assert "s1" in table


async def test_into_a_pipe_top_prints_one_table_and_ends():
    async with Double() as vllm, proxy(vllm.url) as running:
        found = await top(running)
    assert found.exit_code == 0
    assert "0 sessions · 0 calls running" in found.stdout
    assert "\x1b" not in found.stdout


def test_a_proxy_that_started_anew_counts_from_zero():
    before = Reading(0.0, parse("polar_completion_tokens_total 500\n"), [])
    now = Reading(2.0, parse("polar_completion_tokens_total 30\n"), [])
    assert totals(before, now)["sampled_per_second"] == 15.0


async def test_top_with_another_token_says_which_one_is_wanted():
    async with Double() as vllm, proxy(vllm.url) as running:
        refused = await top(running, "--once", token="another")
    assert refused.exit_code == 1
    assert "refuses the control token: set POLAR_CONTROL_TOKEN" in refused.output


def test_no_proxy_is_said_plainly(tmp_path: Path):
    refused = CliRunner().invoke(main, ["top", "--once", "--proxy", "http://127.0.0.1:9", "--home", str(tmp_path)])
    assert refused.exit_code == 1
    assert "no proxy answers at http://127.0.0.1:9" in refused.output


@pytest.mark.parametrize("interval", ["0", "-1", "nan"])
def test_an_interval_is_above_zero(interval: str):
    refused = CliRunner().invoke(main, ["top", "--interval", interval])
    assert refused.exit_code == 2
    assert "give seconds above 0" in refused.output


def test_rates_are_of_the_time_between_two_looks():
    text = 'polar_calls_total{{status="ok"}} {0}\npolar_completion_tokens_total {1}\npolar_call_seconds_total {2}\n'
    text += "# TYPE x counter\npolar_engine_seconds_total {3}\n"
    before = Reading(10.0, parse(text.format(1, 100, 1.0, 0.5)), [])
    now = Reading(14.0, parse(text.format(3, 500, 7.0, 4.5)), [])
    found = totals(before, now)
    assert (found["calls_per_second"], found["sampled_per_second"]) == (0.5, 100.0)
    assert (found["call_seconds"], found["waiting_seconds"]) == (3.0, 1.0)
    assert "100.0 sampled" in headline(found)
    assert totals(before, before)["call_seconds"] is None


async def test_the_dashboard_asks_for_metrics_that_are_there():
    async with Double() as vllm, proxy(vllm.url) as running:
        there = running.runtime.metrics()
    dashboard = json.loads(DASHBOARD.read_text())
    queries = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    queries += [note["expr"] for note in dashboard["annotations"]["list"]]
    asked = set(re.findall(r"\bpolar_\w+", " ".join(queries)))
    assert len(asked) >= 12
    assert {name for name in asked if not re.search(rf"^{name}\b", there, re.MULTILINE)} == set()
