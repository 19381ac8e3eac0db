"""Crashes under load: every turn that a client saw is in the database once, in order, and verifies.

POLAR_CRASH_ROUNDS sets the rounds: 100, in CI 20. Totals are printed: `pytest -s`.
"""

import os
import random
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from polar_capture import store
from polar_capture.store.upkeep import check
from tests.postgres import PostgresServer, new_database
from tests.unit.store.test_spool import Locked

ROUNDS = int(os.environ.get("POLAR_CRASH_ROUNDS") or (20 if os.environ.get("CI") else 100))
THREADS = 6


class Load:
    """The process under load, and what its clients saw."""

    def __init__(self, url, spool, name, threads=THREADS):
        command = [sys.executable, "-m", "tests.crash.load", str(url), str(spool), name, str(threads)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.seen: list[tuple[str, int, str]] = []
        self.refused = 0
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        for line in self.process.stdout:
            if not line.endswith("\n"):
                return  # cut by the kill
            if line == "refused\n":
                self.refused += 1
                continue
            session, seq, call_id = line.split()
            self.seen.append((session, int(seq), call_id))

    def wait_for(self, count, seconds=120):
        deadline = time.monotonic() + seconds
        while len(self.seen) < count:
            assert self.process.poll() is None, self.process.stderr.read()
            if time.monotonic() > deadline:
                self.process.kill()
                pytest.fail(f"only {len(self.seen)} turns in {seconds} s, {self.refused} were refused")
            time.sleep(0.01)

    def kill(self):
        self.process.kill()
        self.process.wait(10)
        self._reader.join(10)
        self.process.stdout.close()
        self.process.stderr.close()


class Totals:
    """What all rounds saw and what the database has."""

    def __init__(self, kind):
        self.kind, self.rounds, self.seen = kind, 0, []

    def add(self, load):
        self.rounds += 1
        self.seen += load.seen

    def verify(self, captured):
        found = {}
        for row in captured.sessions():
            calls = captured.calls(row["session_id"])
            numbers = [call["seq"] for call in calls]
            assert numbers == sorted(set(numbers))
            found |= {call["id"]: (row["session_id"], call["seq"]) for call in calls}
        missing = [turn for turn in self.seen if found.get(turn[2]) != turn[:2]]
        count = len(self.seen)
        print(f"\n{self.kind}: {self.rounds} rounds, {count} turns delivered, {count - len(missing)} found")
        assert missing == []
        assert len(self.seen) > self.rounds
        assert [finding for finding in check(captured) if finding.level == "error"] == []


def test_a_proxy_killed_at_any_moment_loses_no_turn_on_sqlite(tmp_path):
    path, totals, rng = tmp_path / "polar.db", Totals("kill -9 of the writer, SQLite"), random.Random(1)
    for number in range(ROUNDS):
        load = Load(path, "", f"r{number}")
        load.wait_for(5)
        time.sleep(rng.uniform(0, 0.3))
        load.kill()
        totals.add(load)
    with store.open(path) as captured:
        totals.verify(captured)


def test_a_proxy_killed_at_any_moment_loses_no_turn_on_postgres(tmp_path):
    url, totals, rng = new_database(), Totals("kill -9 of the writer, PostgreSQL"), random.Random(2)
    for number in range(ROUNDS):
        load = Load(url, tmp_path / "spool", f"r{number}")
        load.wait_for(5)
        time.sleep(rng.uniform(0, 0.3))
        load.kill()
        totals.add(load)
    with store.open(url, spool=tmp_path / "spool") as captured:
        totals.verify(captured)


def test_a_proxy_killed_while_the_database_is_locked_loses_no_turn(tmp_path):
    path, totals = tmp_path / "polar.db", Totals("kill -9 while spooling, SQLite")
    store.open(path).close()
    for number in range(max(3, ROUNDS // 5)):
        load = Load(path, "", f"r{number}")
        load.wait_for(20)
        with Locked(path):
            before = len(load.seen)
            load.wait_for(before + 60)
            load.kill()
        totals.add(load)
    with store.open(path) as captured:
        totals.verify(captured)
    assert [file.name for file in tmp_path.iterdir()] == ["polar.db"]


def test_a_postgres_killed_under_load_loses_no_turn(tmp_path):
    server, totals, rng = PostgresServer(), Totals("kill -9 of PostgreSQL"), random.Random(3)
    try:
        url = new_database(server)
        load = Load(url, tmp_path / "spool", "one")
        for _ in range(max(3, ROUNDS // 4)):
            load.wait_for(len(load.seen) + 30)
            server.kill()
            load.wait_for(len(load.seen) + 30)
            server.start()
            load.wait_for(len(load.seen) + 30)
            time.sleep(rng.uniform(0, 0.3))
            totals.rounds += 1
        load.kill()
        totals.seen = load.seen
        with store.open(url, spool=tmp_path / "spool") as captured:
            totals.verify(captured)
    finally:
        server.remove()


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 96 MB: room for the turns themselves, so that only the filler makes it full."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=96m", "tmpfs", str(folder)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("no right to mount here; tests/unit/store/test_spool.py injects the faults of a full disk")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(folder: Path):
    with (folder / "filler").open("wb") as filler:
        try:
            while True:
                filler.write(bytes(4096))
                filler.flush()
        except OSError:
            return


def test_on_a_disk_that_stays_full_every_call_has_its_answer_until_there_is_room(small_disk):
    """Not even the turns fit: each is refused at once, none waits for ever, and none that was acknowledged is lost."""
    subprocess.run(["mount", "-o", "remount,size=2m", str(small_disk)], check=True)
    path, totals = small_disk / "polar.db", Totals("a disk that stays full")
    for number in range(max(2, ROUNDS // 20)):
        load = Load(path, "", f"r{number}", threads=2)
        if number == 0:
            load.wait_for(10)
        for _ in range(3):
            before, deadline = load.refused, time.monotonic() + 60
            while load.refused < before + 20:
                assert load.process.poll() is None, load.process.stderr.read()
                assert time.monotonic() < deadline, f"{load.refused} refused, {len(load.seen)} taken: it stands still"
                time.sleep(0.01)
        subprocess.run(["mount", "-o", f"remount,size={3 + number}m", str(small_disk)], check=True)
        load.wait_for(len(load.seen) + 20)
        load.kill()
        totals.add(load)
    subprocess.run(["mount", "-o", "remount,size=200m", str(small_disk)], check=True)
    with store.open(path) as captured:
        totals.verify(captured)


@pytest.mark.parametrize("spool_elsewhere", [False, True], ids=["spool beside", "spool on another disk"])
def test_a_full_disk_loses_no_turn_and_heals(small_disk, tmp_path, spool_elsewhere):
    path, spool = small_disk / "polar.db", tmp_path / "spool" if spool_elsewhere else ""
    totals = Totals(f"full disk, spool {'on another disk' if spool_elsewhere else 'beside'}")
    for number in range(max(2, ROUNDS // 10)):
        load = Load(path, spool, f"r{number}", threads=2)
        load.wait_for(10)
        fill(small_disk)
        time.sleep(0.3)
        if spool_elsewhere:
            load.wait_for(len(load.seen) + 50)
        (small_disk / "filler").unlink()
        load.wait_for(len(load.seen) + 20)
        load.kill()
        totals.add(load)
    # By now the turns themselves may have filled the disk: the rest waits in the spool for a larger one.
    subprocess.run(["mount", "-o", "remount,size=200m", str(small_disk)], check=True)
    with store.open(path, spool=spool or None) as captured:
        totals.verify(captured)
        assert captured.spool.waiting() == []
