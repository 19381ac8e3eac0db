"""The spool: what the database can't take is kept in order, and brought in exactly once."""

import os
import sqlite3
import stat
import time

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polar_capture import store
from polar_capture.store import operations as ops
from polar_capture.store.packing import Packer
from polar_capture.store.records import SessionRecord, StoreUnavailable
from polar_capture.store.spool import MAGIC, SpoolError, SpoolFile, SpoolFolder
from polar_capture.store.upkeep import check
from tests.postgres import PostgresServer, new_database, shared_server
from tests.unit.store.build import assert_equal, call, chain, write

# Each entry ends in a byte that no torn end has, so that garbage never happens to complete what was cut.
ENTRY = st.binary(max_size=50).map(lambda payload: payload + b".")


@given(st.lists(st.lists(ENTRY, max_size=4), max_size=6), st.data())
def test_whatever_is_torn_off_the_end_what_stands_before_it_is_kept(tmp_path_factory, groups, data):
    folder = SpoolFolder(tmp_path_factory.mktemp("spool"), "polar.db")
    file = folder.create()
    for group in groups:
        file.append(group)
    file.close(remove_empty=False)
    entries = [entry for group in groups for entry in group]
    whole = file.path.read_bytes()
    kept = data.draw(st.integers(0, len(whole)))
    torn = data.draw(st.sampled_from([b"", b"\x00" * 5, b"\x00" * 64, b"\xff" * 40])) if kept >= len(MAGIC) else b""
    file.path.write_bytes(whole[:kept] + torn)
    (again,) = folder.orphans()
    found, _ = again.peek(1000)
    assert found == entries[: len(found)]
    ends, end = [], len(MAGIC)
    for entry in entries:
        end += 8 + len(entry)
        ends.append(end)
    assert len(found) == sum(end <= kept for end in ends)
    again.append([b"more"])
    assert again.peek(1000)[0] == [*found, b"more"]


def test_a_changed_byte_ends_the_file_there(tmp_path):
    folder = SpoolFolder(tmp_path, "x")
    file = folder.create()
    file.append([b"first", b"second", b"third"])
    file.close()
    data = bytearray(file.path.read_bytes())
    data[data.index(b"second")] ^= 1
    file.path.write_bytes(bytes(data))
    (again,) = folder.orphans()
    assert again.peek(10)[0] == [b"first"]


def test_a_file_with_an_owner_is_left_alone_and_an_empty_one_vanishes(tmp_path):
    folder = SpoolFolder(tmp_path, "x")
    owned = folder.create()
    assert stat.S_IMODE(owned.path.stat().st_mode) == 0o600
    assert list(folder.orphans()) == []
    owned.close()
    assert folder.paths() == []


def test_replayed_entries_are_not_replayed_again(tmp_path):
    file = SpoolFolder(tmp_path, "x").create()
    file.append([b"a", b"b", b"c"])
    payloads, offset = file.peek(2)
    file.done(len(payloads), offset)
    assert (file.peek(5)[0], file.entries_left) == ([b"c"], 1)
    file.append([b"d"])
    payloads, offset = file.peek(5)
    file.done(len(payloads), offset)
    assert (payloads, file.entries_left, file.path.read_bytes()) == ([b"c", b"d"], 0, MAGIC)


def test_what_is_no_spool_is_not_touched(tmp_path, caplog):
    (tmp_path / "x.1.spool").write_bytes(b"something else entirely")
    assert list(SpoolFolder(tmp_path, "x").orphans()) == []
    assert "is no spool of this version: move it away" in caplog.text
    assert (tmp_path / "x.1.spool").read_bytes() == b"something else entirely"


def test_a_folder_that_takes_no_spool_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(SpoolError, match="name another folder with --spool"):
        SpoolFolder(tmp_path / "file", "x").create()


class Locked:
    """Another process's lock on a SQLite file, held for as long as the block lasts."""

    def __init__(self, path):
        self._connection = sqlite3.connect(path, isolation_level=None)

    def __enter__(self):
        self._connection.execute("BEGIN EXCLUSIVE")

    def __exit__(self, *_):
        self._connection.execute("ROLLBACK")
        self._connection.close()


def until(condition, seconds=20.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come to pass"
        time.sleep(0.05)


def test_o_capture_06_a_long_lock_turns_calls_into_the_spool_and_back_in_order(tmp_path):
    path = tmp_path / "polar.db"
    records = chain(12)
    with store.open(path) as captured:
        writer = captured.writer()
        write(captured, records[:4])
        with Locked(path):
            begun = time.monotonic()
            for record in records[4:8]:
                writer.call([record]).result(10)
            writer.amend(records[3].id, {"delivered": True}).result(10)
            writer.session(SessionRecord("s", 1.0, harness="pi")).result(10)
            writer.reward({"session_id": "s", "value": 1.0}).result(10)
            assert time.monotonic() - begun < 5
            stats = writer.stats()
            assert (stats["spooled"], stats["spool_left"]) == (7, 7)
            assert "locked: another process holds it" in stats["last_error"]
        write(captured, records[8:])
        until(lambda: writer.stats()["spool_left"] == 0)
        assert [row["id"] for row in captured.calls("s")] == [record.id for record in records]
        assert captured.call(records[3].id)["delivered"] is True
        assert captured.session("s")["harness"] == "pi"
        assert len(captured.rewards("s")) == 1
        records[3].delivered = True
        for record in records:
            assert_equal(captured, record)
        assert list(check(captured)) == []
    assert [file.name for file in tmp_path.iterdir()] == ["polar.db"]


def test_what_a_killed_process_left_in_the_spool_is_brought_in_at_the_next_open(url, tmp_path):
    folder = tmp_path / "spool"
    with store.open(url, spool=folder) as captured:
        spool = captured.spool
        write(captured, (records := chain(3)))
    packer = Packer(lambda _: None)
    more = chain(3, "later")
    left = spool.create()
    left.append(
        [
            msgspec.msgpack.encode(ops.InsertCalls([packer.pack(record)], {record.id: ["m" + record.id]}))
            for record in more
        ]
    )
    left.append([msgspec.msgpack.encode(ops.AmendCall(more[0].id, {"delivered": False}))])
    left.append(
        [msgspec.msgpack.encode(ops.InsertCalls([Packer(lambda _: None).pack(records[0])], {}))]
    )  # known already
    left.close()
    with store.open(url, spool=folder, create=False) as captured:
        assert [row["id"] for row in captured.calls("later")] == [record.id for record in more]
        assert captured.calls("later")[0]["delivered"] is False
        assert captured.find_minted(["m" + more[1].id]) == {"m" + more[1].id: more[1].id}
        assert len(captured.calls("s")) == 3
        assert list(check(captured)) == []
    assert list(folder.iterdir()) == []


def test_where_the_database_takes_none_only_the_first_of_many_files_is_tried(tmp_path, caplog):
    path = tmp_path / "polar.db"
    store.open(path).close()
    records = chain(6)
    folder, packer = SpoolFolder(tmp_path, path.name), Packer(lambda _: None)
    for record in records:
        file = folder.create()
        file.append([msgspec.msgpack.encode(ops.InsertCalls([packer.pack(record)], {}))])
        file.close()
    with Locked(path):
        begun = time.monotonic()
        with store.open(path, create=False) as captured:
            assert time.monotonic() - begun < 6  # each try waits for the lock for 2 s
            assert len(captured.spool.waiting()) == 6
    assert caplog.text.count("captured entries wait in") == 1
    with store.open(path, create=False) as captured:
        assert [row["id"] for row in captured.calls("s")] == [record.id for record in records]
        assert captured.spool.waiting() == []


def test_an_entry_that_is_refused_for_good_does_not_hold_up_the_rest(url, tmp_path):
    with store.open(url, spool=tmp_path / "spool") as captured:
        spool = captured.spool
    record = call()
    left = spool.create()
    reward = {"id": "r", "session_id": "nobody", "value": 1.0, "created_at": 1.0}
    left.append([msgspec.msgpack.encode(ops.InsertReward(reward))])
    left.append([msgspec.msgpack.encode(ops.InsertCalls([Packer(lambda _: None).pack(record)], {}))])
    left.close()
    with store.open(url, spool=tmp_path / "spool") as captured:
        assert_equal(captured, record)
        (finding,) = check(captured)
        assert finding.level == "error"
        assert "entries that the database refused" in finding.text
        assert stat.S_IMODE(spool.rejected.stat().st_mode) == 0o600


def test_an_entry_of_another_version_is_put_aside_and_holds_up_nothing(url, tmp_path, caplog):
    folder = SpoolFolder.of(store.open(url, spool=tmp_path / "spool").database, tmp_path / "spool")
    record = call()
    known = msgspec.msgpack.encode(ops.InsertCalls([Packer(lambda _: None).pack(record)], {}))
    file = folder.create()
    file.append([msgspec.msgpack.encode({"type": "from the future"}), known, b"\xc1"])
    file.close()
    with store.open(url, spool=tmp_path / "spool") as captured:
        assert_equal(captured, record)
        assert captured.spool.waiting() == []
        assert captured.spool.rejected.exists()
    assert caplog.text.count("no operation of this version, kept in") == 2


def test_a_row_that_the_spool_can_not_hold_fails_alone(tmp_path):
    path = tmp_path / "polar.db"
    with store.open(path) as captured:
        writer = captured.writer()
        write(captured, [call()])
        with Locked(path):
            good = writer.call([call(seq=1)])
            odd = writer.call([call(seq=2, sampling={"stop": ["\ud800"]})])
            last = writer.call([call(seq=3)])
            good.result(20)
            last.result(20)
            with pytest.raises(StoreUnavailable, match="the spool can't hold the row"):
                odd.result(20)
        until(lambda: writer.stats()["spool_left"] == 0)
        assert [row["seq"] for row in captured.calls("s")] == [0, 1, 3]


def test_when_the_spool_fails_too_the_call_fails_and_the_next_one_need_not(tmp_path, monkeypatch):
    path = tmp_path / "polar.db"
    records = chain(4)
    with store.open(path) as captured:
        writer = captured.writer()
        write(captured, records[:1])

        def full(*_):
            raise SpoolError("the spool can't be written: No space left on device")

        with Locked(path), monkeypatch.context() as patched:
            patched.setattr(SpoolFile, "append", full)
            with pytest.raises(
                StoreUnavailable, match=r"the database is away .*locked.* and the spool can't be written"
            ):
                writer.call([records[1]]).result(10)
            assert writer.stats()["failures"] == 1
        write(captured, records[2:])  # their parent is not there: they stand for themselves
        assert [row["seq"] for row in captured.calls("s")] == [0, 2, 3]
        for record in (records[0], records[2], records[3]):
            assert captured.tokens(record.id).prompt_ids.tolist() == record.prompt_ids
            assert captured.body(record.id, "request") == record.request
        findings = [finding for finding in check(captured) if finding.call_id is None]
        assert "call 1 of the session left no row: it was not delivered" in findings[0].text


def test_a_full_disk_leaves_a_whole_spool(tmp_path, monkeypatch):
    file = SpoolFolder(tmp_path, "x").create()
    file.append([b"kept"])
    real = os.pwrite

    def half(descriptor, data, offset):
        if offset > 30:
            raise OSError(28, "No space left on device")
        return real(descriptor, bytes(data)[:10], offset)

    with monkeypatch.context() as patched:
        patched.setattr(os, "pwrite", half)
        with pytest.raises(SpoolError, match="No space left on device"):
            file.append([b"x" * 100])
    file.append([b"after"])
    assert file.peek(5)[0] == [b"kept", b"after"]


def test_a_database_file_that_vanished_is_made_anew(tmp_path):
    path = tmp_path / "polar.db"
    records = chain(6)
    with store.open(path) as captured:
        write(captured, records[:3])
        for file in tmp_path.glob("polar.db*"):
            if not file.name.endswith(".spool"):
                file.unlink()
        write(captured, records[3:])
        until(lambda: path.exists() and captured.writer().stats()["spool_left"] == 0)
    with store.open(path, create=False) as again:
        assert [row["seq"] for row in again.calls("s")] == [3, 4, 5]
        for record in records[3:]:
            assert again.tokens(record.id).prompt_ids.tolist() == record.prompt_ids


def test_a_postgres_that_stops_under_the_writer_loses_nothing(tmp_path):
    server = PostgresServer()
    try:
        records = chain(9)
        with store.open(new_database(server), spool=tmp_path) as captured:
            write(captured, records[:3])
            server.stop()
            write(captured, records[3:6])
            assert captured.writer().stats()["spool_left"] == 3
            server.start()
            write(captured, records[6:])
            until(lambda: captured.writer().stats()["spool_left"] == 0)
            assert [row["id"] for row in captured.calls("s")] == [record.id for record in records]
            assert list(check(captured, "s")) == []
    finally:
        server.remove()


def test_a_postgres_without_free_connections_loses_nothing(tmp_path):
    import psycopg

    url = new_database()
    records = chain(4)
    with store.open(url, spool=tmp_path) as captured:
        write(captured, records[:1])
        name = captured.database.url.database
        with psycopg.connect(shared_server().url(), autocommit=True) as admin:
            admin.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
            admin.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", (name,))
            write(captured, records[1:3])
            assert captured.writer().stats()["spool_left"] == 2
            admin.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")
        write(captured, records[3:])
        until(lambda: captured.writer().stats()["spool_left"] == 0)
        assert [row["id"] for row in captured.calls("s")] == [record.id for record in records]
