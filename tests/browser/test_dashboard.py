"""The Grafana dashboard: read by Grafana's own types, its queries answered by a real Prometheus."""

import json
import math
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard

from tests.browser.prometheus import Prometheus, scraping
from tests.double.process import running
from tests.double.script import Rule, Script, Step, When
from tests.unit.process.serving import BODY, serve

FILE = Path(__file__).resolve().parents[2] / "deploy" / "grafana" / "polar-capture.json"
BOARD: dict[str, Any] = json.loads(FILE.read_text())
TARGETS = [
    pytest.param(target, id=f"{panel['title']}-{target['refId']}")
    for panel in BOARD["panels"]
    for target in panel["targets"]
]
JOB, TOKEN = "polar-capture", "control-token-of-the-tests"
OF_PROMETHEUS = {"titleFormat"}
"""Fields of an annotation that its data source reads, and Grafana's types leave to it."""


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """One that has scraped a proxy before, between and after: two good calls, one without ids, one that failed, and a
    new policy."""
    folder = tmp_path_factory.mktemp("scraped")
    rules = [
        Rule(When(last_contains="without ids"), Step(missing=["token_ids"])),
        Rule(When(last_contains="refuse"), Step(status=400, error="no")),
    ]
    with running(Script(rules=rules)) as engine, serve(engine.url, folder, POLAR_CONTROL_TOKEN=TOKEN) as proxy:
        assert proxy.facts is not None
        with scraping(folder, proxy.facts.control, TOKEN, JOB) as scraped:
            for asked, status in (("hi", 200), ("hello", 200), ("without ids", 200), ("refuse", 400)):
                body = {**BODY, "messages": [{"role": "user", "content": asked}]}
                assert proxy.post(body=body).status_code == status
            policy = requests.post(
                f"{proxy.facts.control}/policy",
                json={"version": 1},
                headers={"authorization": f"Bearer {TOKEN}"},
                timeout=20,
            )
            assert policy.ok, policy.text
            end = time.monotonic() + 30
            while not scraped.series('rate(polar_calls_total{status="error"}[10s]) > 0'):
                assert time.monotonic() < end
                time.sleep(0.2)
            yield scraped


def filled(query: str, job: str = JOB) -> str:
    return query.replace("$__rate_interval", "1m").replace("$job", job)


@pytest.mark.parametrize("target", TARGETS)
def test_each_query_is_answered_with_numbers_under_its_own_legend(prometheus: Prometheus, target: dict[str, str]):
    for job in (JOB, ".*"):
        found = prometheus.series(filled(target["expr"], job))
        assert found, target["expr"]
        for series in found:
            assert math.isfinite(float(series["value"][1])), series
            assert set(re.findall(r"{{(\w+)}}", target["legendFormat"])) == set(series["metric"])
    assert prometheus.series(filled(target["expr"], "another")) == []


@pytest.mark.parametrize(
    ("title", "wanted"),
    [
        ("Calls a second", {"ok", "error", "aborted"}),
        ("Not trainable, by reason", {"ids_missing", "upstream_error"}),
        ("How turns continue", {"exact", "fork", "root"}),
        ("Answers delivered", {"true", "false"}),
    ],
)
def test_a_panel_tells_its_kinds_apart(prometheus: Prometheus, title: str, wanted: set[str]):
    (panel,) = [panel for panel in BOARD["panels"] if panel["title"] == title]
    found = prometheus.series(filled(panel["targets"][0]["expr"]))
    assert {value for series in found for value in series["metric"].values()} == wanted


def test_the_share_that_is_not_trainable_is_of_all_calls(prometheus: Prometheus):
    (panel,) = [panel for panel in BOARD["panels"] if panel["title"] == "Not trainable, of all calls"]
    (share,) = prometheus.series(filled(panel["targets"][0]["expr"]))
    assert float(share["value"][1]) == pytest.approx(0.5, abs=0.01)


def test_the_list_of_jobs_is_found(prometheus: Prometheus):
    (asked,) = [v["query"]["query"] for v in BOARD["templating"]["list"] if v["type"] == "query"]
    metric, label = re.fullmatch(r"label_values\((\w+), (\w+)\)", asked).groups()  # type: ignore[union-attr]
    assert prometheus.ask(f"label/{label}/values", **{"match[]": metric}) == [JOB]


def test_a_new_policy_is_marked(prometheus: Prometheus):
    (note,) = BOARD["annotations"]["list"]
    assert len(prometheus.series(filled(note["expr"]))) == 1


def test_grafanas_own_types_read_all_of_it():
    register_default_plugins()
    read = json.loads(json.dumps(Dashboard.from_json(BOARD), cls=JSONEncoder))
    assert list(lost(BOARD, read)) == []


def lost(given: Any, read: Any, at: str = "") -> Iterator[str]:
    """Places of `given` that came out otherwise, or not at all."""
    if isinstance(given, dict):
        for name in given.keys() - OF_PROMETHEUS:
            if name in read:
                yield from lost(given[name], read[name], f"{at}.{name}")
            else:
                yield f"{at}.{name}"
    elif isinstance(given, list) and len(given) == len(read):
        for place, (a, b) in enumerate(zip(given, read, strict=True)):
            yield from lost(a, b, f"{at}[{place}]")
    elif given != read:
        yield at
