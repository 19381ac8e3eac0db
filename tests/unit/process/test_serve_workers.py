"""`serve --workers 2`: what the trainer says to one worker's control host holds for both."""

import threading

import pytest
import requests

from polar_capture.launch import worker_for
from tests.double import Script, Step, running
from tests.unit.process.serving import BODY, rows, serve
from tests.unit.process.test_serve import until

TOKEN = "trainer"
SESSIONS = tuple(f"s{number}" for number in range(64))


def session_of(worker: str, workers: list[str]) -> str:
    return next(session for session in SESSIONS if worker_for(session, workers) == worker)


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    folder = tmp_path_factory.mktemp("workers")
    script = Script(default=Step(content="Here.", delay=0.2))
    with running(script) as vllm, serve(vllm.url, folder, "--workers", "2", POLAR_CONTROL_TOKEN=TOKEN) as proxy:
        assert proxy.facts is not None
        assert len(proxy.facts.workers) == 2
        yield folder, proxy


def tell(worker: str, method: str, path: str, body=None) -> requests.Response:
    """To the control host of this worker, as `http://polar.capture` inside it."""
    return requests.request(
        method,
        f"http://polar.capture{path}",
        json=body,
        headers={"authorization": f"Bearer {TOKEN}"},
        proxies={"http": worker},
        timeout=60,
    )


def health(worker: str):
    return requests.get("http://polar.capture/health", proxies={"http": worker}, timeout=10).json()


def call(proxy, worker: str, session: str) -> requests.Response:
    return proxy.post(session=session, proxy=worker, body=BODY)


@pytest.mark.parametrize("told", [0, 1])
def test_a_new_policy_version_is_in_force_in_every_worker(two, told):
    folder, proxy = two
    version = 10 * (told + 1)
    answer = tell(proxy.facts.workers[told], "POST", "/policy", {"version": version, "label": f"step-{version}"})
    assert answer.json() == {"version": version, "label": f"step-{version}"}
    for worker in proxy.facts.workers:
        session = session_of(worker, proxy.facts.workers)
        assert call(proxy, worker, session).status_code == 200
        last = rows(folder, session)[-1]
        assert (last["policy_version"], last["policy_label"]) == (version, f"step-{version}")
    for worker in proxy.facts.workers:
        assert tell(worker, "POST", "/policy", {"version": version - 1}).status_code == 409


def test_a_pause_holds_the_calls_of_every_worker_and_counts_those_that_run(two):
    _, proxy = two
    first, second = proxy.facts.workers
    answers = []
    held = [
        threading.Thread(target=lambda w=worker: answers.append(call(proxy, w, session_of(w, [first, second]))))
        for worker in (first, second)
    ]
    assert requests.post(
        f"{proxy.facts.control}/pause", headers={"authorization": f"Bearer {TOKEN}"}, timeout=60
    ).json() == {"paused": True, "running": 0}
    try:
        for thread in held:
            thread.start()
        until(lambda: tell(second, "POST", "/pause").json()["running"] == 2)
        assert [health(worker)["paused"] for worker in (first, second)] == [True, True]
        assert not answers
    finally:
        assert tell(second, "POST", "/resume").json() == {"paused": False}
    for thread in held:
        thread.join(60)
    assert [answer.status_code for answer in answers] == [200, 200]
    assert [health(worker)["paused"] for worker in (first, second)] == [False, False]


def test_the_end_of_a_session_told_to_any_worker_makes_its_later_calls_late(two):
    folder, proxy = two
    first, second = proxy.facts.workers
    session = session_of(second, [first, second])
    assert call(proxy, second, session).status_code == 200
    assert tell(first, "PATCH", f"/sessions/{session}", {"status": "completed"}).json()["status"] == "completed"
    assert call(proxy, second, session).status_code == 200
    assert [row["reason"] for row in rows(folder, session)][-2:] == [None, "late_call"]


@pytest.mark.parametrize(
    ("body", "status"),
    [({"controls": ["http://192.0.2.1:80"]}, 400), ({"controls": ["https://127.0.0.1:1"]}, 400), ({}, 400)],
)
def test_only_control_ports_of_this_machine_can_be_siblings(two, body, status):
    _, proxy = two
    answer = tell(proxy.facts.proxy, "POST", "/siblings", body)
    assert answer.status_code == status
    assert answer.json()["error"].startswith("body: ")


def test_an_agent_can_name_no_siblings(two):
    _, proxy = two
    answer = requests.post(
        "http://polar.capture/siblings", json={"controls": []}, proxies={"http": proxy.facts.proxy}, timeout=10
    )
    assert answer.status_code == 401


def test_a_worker_that_does_not_answer_is_named(two):
    """The last one: afterwards this worker knows a sibling that is not there."""
    _, proxy = two
    assert tell(proxy.facts.proxy, "POST", "/siblings", {"controls": ["http://127.0.0.1:9"]}).json() == {"siblings": 1}
    answer = tell(proxy.facts.proxy, "POST", "/resume")
    assert answer.status_code == 502
    assert "worker http://127.0.0.1:9 did not take POST /resume" in answer.json()["error"]
