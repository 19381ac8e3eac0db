"""kill -9 of the whole proxy while harnesses talk to it: every answer that a client has whole is in the database,
once."""

import json
import random
import subprocess
import sys
import threading
import time

import pytest
import requests

from polar_capture import store
from polar_capture.store.upkeep import check
from tests.crash.test_store_crashes import ROUNDS
from tests.double import process as double
from tests.postgres import new_database

CLIENTS = 4


class Served:
    """`polar-capture serve` and clients that use it until it dies."""

    def __init__(self, upstream, db, home, number):
        command = [
            sys.executable,
            "-c",
            "from polar_capture.cli import main; main()",
            "serve",
            "--port",
            "0",
            "--upstream",
            upstream,
        ]
        command += ["--db", db, "--home", str(home), "--egress", "block"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        assert line.startswith("polar-capture ready "), line + self.process.stderr.read()
        ready = json.loads(line.removeprefix("polar-capture ready "))
        self.proxy, self.ca, self.number = ready["proxy"], ready["ca"], number
        self.seen: list[tuple[str, str]] = []
        self._clients = [threading.Thread(target=self._client, args=(client,)) for client in range(CLIENTS)]
        for client in self._clients:
            client.start()

    def _client(self, number):
        name = f"r{self.number}-c{number}"
        proxy = self.proxy.replace("http://", f"http://{name}:@")  # requests sends no name that stands without a colon
        messages, stream = [{"role": "user", "content": f"hello from {name}"}], number % 2 == 0
        with requests.Session() as session:
            session.proxies, session.verify, session.trust_env = {"https": proxy}, self.ca, False
            while True:
                body = {"model": "m", "max_tokens": 64, "messages": messages, "stream": stream}
                try:
                    answer = session.post("https://api.anthropic.com/v1/messages", json=body, timeout=30)
                    text = answer.text
                except requests.RequestException:
                    return  # killed
                if answer.status_code != 200:
                    time.sleep(0.05)
                    continue
                message = whole_message(text, stream)
                if message is None:
                    return  # the stream was cut: the client does not have this turn
                self.seen.append((name, message))
                messages = [
                    *messages,
                    {"role": "assistant", "content": "an answer"},
                    {"role": "user", "content": "go on"},
                ]

    def wait_for(self, count):
        deadline = time.monotonic() + 60
        while len(self.seen) < count:
            assert self.process.poll() is None, self.process.stderr.read()
            assert time.monotonic() < deadline, f"only {len(self.seen)} turns"
            time.sleep(0.01)

    def kill(self):
        self.process.kill()
        self.process.wait(10)
        for client in self._clients:
            client.join(40)
        self.process.stdout.close()
        self.process.stderr.close()


def whole_message(text, stream):
    """The id of an answer that came to its end, else None."""
    if not stream:
        return json.loads(text)["id"]
    events = [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: ")]
    if not events or events[-1]["type"] != "message_stop":
        return None
    return next(event["message"]["id"] for event in events if event["type"] == "message_start")


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_a_proxy_killed_at_any_moment_has_recorded_every_answer_a_client_has(kind, tmp_path):
    db = f"sqlite:///{tmp_path / 'polar.db'}" if kind == "sqlite" else new_database()
    rounds = max(2, ROUNDS // 2 if kind == "sqlite" else ROUNDS // 10)
    rng, seen = random.Random(5), []
    with double.running(canned=(400, 30)) as upstream:
        for number in range(rounds):
            served = Served(upstream.url, db, tmp_path / "home", number)
            served.wait_for(4)
            time.sleep(rng.uniform(0, 0.2))
            served.kill()
            seen += served.seen
    with store.open(db, create=False, spool=tmp_path / "home" / "spool") as captured:
        found = captured.find_minted([message for _, message in seen])
        sessions = {
            row["id"]: row["session_id"] for s in captured.sessions() for row in captured.calls(s["session_id"])
        }
        missing = [(name, message) for name, message in seen if sessions.get(found.get(message)) != name]
        totals = f"{rounds} rounds, {len(seen)} turns delivered, {len(seen) - len(missing)} found"
        print(f"\nkill -9 of the proxy, {kind}: {totals}")
        assert missing == []
        assert len(set(found.values())) == len(seen) > rounds
        assert [finding for finding in check(captured) if finding.level == "error"] == []
