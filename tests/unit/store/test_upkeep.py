"""Upkeep: pruning breaks no chain, sessions travel whole, the check finds what is wrong and nothing else."""

import time

import pytest
import sqlalchemy as sa

from polar_capture import store
from polar_capture.store import codec
from polar_capture.store.models import Call, Sample
from polar_capture.store.records import SessionRecord
from polar_capture.store.store import DatabaseError
from polar_capture.store.upkeep import check, export_session, import_sessions, prune, stats, vacuum
from tests.unit.store.build import assert_equal, call, chain, write
from tests.unit.store.test_sql import sample


def grown(parent, session, seq, count):
    """`count` calls of a session that go on where `parent` stopped."""
    records = []
    for number in range(count):
        prompt = [*parent.prompt_ids, *parent.completion_ids, number]
        body = parent.request + b" and turn %d" % (seq + number)
        records.append(call(session, seq + number, prompt, [7, number], parent, request=body, chat_request=body + b"!"))
        records[-1].started_at = parent.started_at + 1
        parent = records[-1]
    return records


def three_sessions(captured):
    """`old` of 40 calls, `heir` that goes on from its 36th, `far` that goes on from heir's 3rd; a day apart each."""
    now = time.time()
    old = chain(40, "old")
    heir = grown(old[35], "heir", 0, 45)
    far = grown(heir[2], "far", 0, 40)
    for days, session in ((3, "old"), (2, "heir"), (1, "far")):
        captured.writer().session(SessionRecord(session, now - days * 86400)).result(10)
    write(captured, [*old, *heir, *far])
    return old, heir, far


@pytest.mark.parametrize("how", [{"keep_sessions": 2}, {"keep_days": 2.5}, {"keep_days": 2.5, "keep_sessions": 1}])
def test_pruning_never_breaks_a_parent_chain(captured, how):
    old, heir, far = three_sessions(captured)
    captured.add_reward("old", 1.0, call_id=old[0].id)
    assert prune(captured, **how, dry_run=True).calls == 40
    assert len(captured.calls("old")) == 40
    done = prune(captured, **how)
    assert (done.sessions, done.calls, done.detached) == (1, 40, 1)
    assert captured.session("old") is None
    heir[0].parent_call_id = None
    for record in [*heir, *far]:
        assert_equal(captured, record)
    assert list(check(captured)) == []
    later = grown(far[-1], "far", 40, 3)
    write(captured, later)
    assert_equal(captured, later[-1])


def test_pruning_of_the_middle_keeps_both_ends(captured):
    old, _, far = three_sessions(captured)
    with captured.database.write.begin() as connection:
        connection.exec_driver_sql("UPDATE sessions SET started_at = 0 WHERE id = 'heir'")
    assert prune(captured, keep_sessions=2).sessions == 1
    far[0].parent_call_id = None
    for record in [*old, *far]:
        assert_equal(captured, record)
    assert list(check(captured)) == []


def test_what_both_rules_give_up_goes(captured):
    three_sessions(captured)
    assert prune(captured, keep_days=0.5, keep_sessions=1).sessions == 2
    assert prune(captured, keep_days=10).sessions == 0
    assert prune(captured, keep_sessions=0).sessions == 1
    assert stats(captured)["rows"] == {"sessions": 0, "calls": 0, "minted_ids": 0, "rewards": 0, "samples": 0}
    with pytest.raises(ValueError, match="say what to keep"):
        prune(captured)


def test_a_session_travels_as_one_file(captured, tmp_path):
    _, heir, _ = three_sessions(captured)
    more = call("heir", 45, [1], [2], minted=["msg_a", "toolu_b\x00"], error="\x00")
    captured.writer().session(SessionRecord("heir", 1.0, harness="pi", extra={"k": [1]}))
    write(captured, [more])
    captured.add_reward("heir", 0.5, call_id=more.id)
    with captured.database.write.begin() as connection:
        connection.execute(sa.insert(Sample), [sample("heir", turn_spans=[])])
    path = tmp_path / "heir.polar"
    assert vars(export_session(captured, "heir", path)) == {"sessions": 1, "calls": 46, "rewards": 1, "samples": 1}
    assert [file.name for file in tmp_path.glob("heir.polar*")] == ["heir.polar"]
    heir[0].parent_call_id = None
    with store.open(path, create=False) as alone:
        for record in [*heir, more]:
            assert_equal(alone, record)
        assert list(check(alone)) == []
        assert alone.find_minted(["msg_a", "toolu_b\x00"]) == {"msg_a": more.id, "toolu_b\x00": more.id}
        assert alone.session("heir") == captured.session("heir")
        assert alone.sql("SELECT COUNT(*) FROM samples")[1] == [(1,)]


def test_machines_are_merged_and_merging_again_changes_nothing(captured, tmp_path):
    here = chain(5, "here")
    write(captured, here)
    paths = [tmp_path / "one.db", tmp_path / "two.db"]
    everything = list(here)
    for number, path in enumerate(paths):
        with store.open(path) as machine:
            records = [*chain(35, f"only-{number}"), *chain(3, "shared")]
            write(machine, records)
            machine.add_reward(f"only-{number}", float(number))
            everything += records
    new = [vars(import_sessions(captured, path)) for path in paths]
    assert new[0] == {"sessions": 2, "calls": 38, "rewards": 1, "samples": 0}
    assert new[1] == {"sessions": 1, "calls": 38, "rewards": 1, "samples": 0}
    assert [row["seq"] for row in captured.calls("shared")] == [0, 1, 2, 3, 4, 5]
    for record in everything:
        if record.session_id != "shared":
            assert_equal(captured, record)
        assert captured.tokens(record.id).prompt_ids.tolist() == record.prompt_ids
    assert list(check(captured)) == []
    assert vars(import_sessions(captured, paths[1])) == {"sessions": 0, "calls": 0, "rewards": 0, "samples": 0}
    assert len(captured.calls("shared")) == 6


def test_what_can_not_travel_is_named(captured, tmp_path):
    write(captured, [call()])
    with pytest.raises(KeyError, match="session nobody is not in"):
        export_session(captured, "nobody", tmp_path / "x")
    (tmp_path / "there").write_text("")
    with pytest.raises(DatabaseError, match="there exists: name a new file"):
        export_session(captured, "s", tmp_path / "there")
    with pytest.raises(DatabaseError, match="does not exist"):
        import_sessions(captured, tmp_path / "missing")


def flip(column):
    def damage(values):
        packed = bytearray(values[column])
        packed[-6] ^= 0xFF
        return {column: bytes(packed)}

    return damage


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (flip("prompt_ids"), "the compressed data is damaged"),
        (flip("completion_ids"), "the compressed data is damaged"),
        (flip("logprobs"), "the compressed data is damaged"),
        (flip("request"), "request: the compressed data is damaged"),
        (flip("message"), "message: the compressed data is damaged"),
        (lambda _: {"prompt_sha256": bytes(32)}, "does not match its SHA-256"),
        (lambda _: {"prompt_sha256": None}, "its prompt has no hash"),
        (lambda _: {"prefix_len": 3}, "prefix_len is 3, it shares 23 tokens with its parent"),
        (lambda _: {"completion_tokens": 9}, "it is trainable with 3 ids, 3 logprobs, completion_tokens 9"),
        (lambda _: {"prompt_tokens": 9}, "it is trainable with 30 prompt ids and prompt_tokens 9"),
        (lambda _: {"logprobs": codec.pack_logprobs([0.0])}, "it is trainable with 3 ids, 1 logprobs"),
        (lambda _: {"completion_ids": None}, "it is trainable with 30 prompt ids and 0 completion ids"),
        (lambda _: {"parent_call_id": "gone"}, "its parent gone is not in the database"),
    ],
)
def test_the_check_finds_each_damage_where_it_is(captured, damage, said):
    records = chain(2)
    write(captured, [*records, *chain(2, "sound")])
    assert list(check(captured)) == []
    last = records[1].id
    with captured.database.write.begin() as connection:
        row = connection.execute(sa.select(Call.__table__).where(Call.id == last)).mappings().one()
        connection.execute(sa.update(Call).where(Call.id == last).values(damage(row)))
    findings = [finding for finding in check(captured) if finding.level == "error"]
    assert {(finding.session_id, finding.call_id) for finding in findings} == {("s", last)}
    assert any(said in finding.text for finding in findings), findings
    assert list(check(captured, "sound")) == []


def test_the_check_looks_at_samples(captured):
    write(captured, [call()])
    with captured.database.write.begin() as connection:
        connection.execute(sa.insert(Sample), [sample(length=4)])
    texts = [finding.text for finding in check(captured)]
    assert texts == ["sample s-0: its arrays have lengths [4, 5]", "sample s-0 is made of calls that are gone: ['c']"]


def test_stats_count_rows_bytes_and_tokens(captured):
    write(captured, chain(5))
    found = stats(captured)
    assert found["rows"] == {"sessions": 1, "calls": 5, "minted_ids": 0, "rewards": 0, "samples": 0}
    assert found["completion_tokens"] == 15
    assert found["bytes_on_disk"] > 10_000
    assert all(size > 0 for size in found["packed_bytes"].values())
    assert (found["first_call_at"], found["last_call_at"], found["spool_files"]) == (1000.0, 1004.0, [])


def test_vacuum_gives_space_back(captured):
    write(captured, [call(seq=seq, prompt=range(seq, 3000), request=bytes(range(256)) * 40) for seq in range(200)])
    prune(captured, keep_sessions=0)
    before, after = vacuum(captured)
    assert after < before
    write(captured, [call("after")])
