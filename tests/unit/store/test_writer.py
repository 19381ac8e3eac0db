"""The writer: durable before the future resolves, in order, each row once, whatever else is wrong with a row."""

import subprocess
import sys
import threading
import time

import pytest

from polar_capture import store
from polar_capture.store.records import SessionRecord, StoreUnavailable
from polar_capture.store.upkeep import check
from tests.unit.store.build import assert_equal, call, chain, write


def test_what_is_acknowledged_is_committed(captured, url, tmp_path):
    record = call()
    captured.writer().call([record]).result(10)
    with store.open(url, create=False, spool=tmp_path / "other") as reader:
        assert_equal(reader, record)


def test_a_group_of_submissions_shares_a_commit_and_keeps_its_order(captured):
    records = chain(200)
    futures = [captured.writer().call([record]) for record in records]
    done = [future.result(30) for future in futures]
    assert len(done) == 200
    assert [row["id"] for row in captured.calls("s")] == [record.id for record in records]
    stats = captured.writer().stats()
    assert stats["rows"] == 200
    assert stats["commits"] < 100


def test_all_choices_of_an_answer_and_their_ids_are_one_transaction(captured):
    choices = [
        call(choice_index=index, completion=[index], minted=[f"msg_{index}", f"x_{index}"]) for index in range(3)
    ]
    captured.writer().call(choices).result(10)
    assert [row["choice_index"] for row in captured.calls("s")] == [0, 1, 2]
    found = captured.find_minted(["msg_0", "x_2", "nobody's"])
    assert found == {"msg_0": choices[0].id, "x_2": choices[2].id}


def test_many_ids_are_found_at_once(captured):
    record = call(minted=[f"id_{number}" for number in range(1200)])
    write(captured, [record])
    assert set(captured.find_minted(record.minted).values()) == {record.id}


def test_a_forgotten_id_names_no_call_any_more_and_its_call_stays(captured):
    record = call(minted=["resp_1", "msg_1"])
    write(captured, [record])
    for _ in range(2):  # a replayed spool repeats it
        captured.writer().forget("resp_1").result(10)
    assert captured.find_minted(["resp_1", "msg_1"]) == {"msg_1": record.id}
    assert [row["id"] for row in captured.calls("s")] == [record.id]


def test_a_repeated_call_is_one_row(captured):
    record = call(minted=["msg_1"])
    write(captured, [record, record])
    assert len(captured.calls("s")) == 1


def test_an_amendment_changes_narrow_columns_only(captured):
    record = call(trainable=True)
    writer = captured.writer()
    writer.call([record])
    writer.amend(
        record.id, {"delivered": False, "trainable": False, "reason": "undelivered", "warnings": ["x"]}
    ).result(10)
    row = captured.call(record.id)
    assert (row["delivered"], row["trainable"], row["reason"], row["warnings"]) == (False, False, "undelivered", ["x"])
    with pytest.raises(ValueError, match=r"status of a recorded call can't be changed; .*delivered, reason"):
        writer.amend(record.id, {"status": "ok"})


def test_amendments_share_the_commit_of_the_next_call(captured):
    records = chain(30)
    writer = captured.writer()
    amended = []
    for record in records:
        writer.call([record]).result(10)
        amended.append(writer.amend(record.id, {"delivered": True}))
    for future in amended:
        future.result(10)
    assert all(row["delivered"] for row in captured.calls("s"))
    assert writer.stats()["commits"] < 2 * len(records)


def test_amendments_of_one_call_are_made_in_their_order(captured):
    record = call()
    writer = captured.writer()
    writer.call([record])
    for attempt in range(5):
        writer.amend(record.id, {"attempt": attempt})
        writer.amend(record.id, {"delivered": attempt % 2 == 0, "attempt": attempt + 10})
        writer.amend(record.id, {"delivered": attempt % 2 == 1})
    writer.amend(record.id, {}).result(10)
    row = captured.call(record.id)
    assert (row["attempt"], row["delivered"]) == (14, False)


def test_a_session_is_created_once_and_learns_what_becomes_known(captured):
    writer = captured.writer()
    writer.session(SessionRecord("s", 50.0, harness="claude-code", extra={"a": 1}))
    writer.session(SessionRecord("s", 40.0, group_id="g", extra={"b": [2]}))
    writer.session(SessionRecord("s", 60.0, status="completed", ended_at=70.0)).result(10)
    assert captured.session("s") == {
        "id": "s",
        "task_id": None,
        "group_id": "g",
        "sample_index": None,
        "harness": "claude-code",
        "harness_version": None,
        "status": "completed",
        "metadata": {"a": 1, "b": [2]},
        "started_at": 40.0,
        "ended_at": 70.0,
    }
    assert captured.session("nobody") is None


def test_a_call_of_an_unknown_session_makes_it(captured):
    write(captured, [call("new")])
    assert captured.session("new")["status"] == "open"


def test_rewards_are_appended_and_the_latest_outcome_counts(captured):
    write(captured, [call()])
    captured.writer().reward({"session_id": "s", "value": 0.5, "created_at": 1.0}).result(10)
    captured.add_reward("s", 1.0, comment="it passed")
    captured.add_reward("s", 7.0, name="style")
    assert [(row["name"], row["value"]) for row in captured.rewards("s")] == [
        ("outcome", 0.5),
        ("outcome", 1.0),
        ("style", 7.0),
    ]
    assert captured.sessions()[0]["reward"] == 1.0
    with pytest.raises(KeyError, match="session nobody is not in"):
        captured.add_reward("nobody", 1.0)
    with pytest.raises(KeyError, match="call x is none of session s"):
        captured.add_reward("s", 1.0, call_id="x")


def test_two_calls_with_one_number_are_both_kept(captured):
    first, second = call(seq=4), call(seq=4, prompt=[7])
    write(captured, [first, second])
    assert [(row["id"], row["seq"]) for row in captured.calls("s")] == [(first.id, 4), (second.id, 5)]
    assert captured.max_seq("s") == 5
    assert captured.max_seq("nobody") == -1
    assert_equal(captured, first)


def test_a_wrong_row_hurts_no_other_of_its_group(captured):
    good = [call(seq=index, prompt=[index]) for index in range(5)]
    futures = [captured.writer().call([record]) for record in good[:3]]
    bad = captured.writer().call([call(seq=9, prompt=[-5])])
    orphan = captured.writer().reward({"session_id": "nobody", "value": 1.0})
    futures += [captured.writer().call([record]) for record in good[3:]]
    for future in futures:
        future.result(10)
    with pytest.raises(ValueError, match="token ids must be whole numbers"):
        bad.result(10)
    with pytest.raises(StoreUnavailable, match="the database refused the row"):
        orphan.result(10)
    assert [row["seq"] for row in captured.calls("s")] == [0, 1, 2, 3, 4]
    assert captured.writer().stats()["failures"] == 2


def test_a_child_of_a_refused_call_stands_for_itself(captured):
    bad = call(prompt=range(40), completion=[1], http_status=2**70)
    child = call(seq=1, prompt=[*range(40), 1, 2], parent=bad)
    refused = captured.writer().call([bad])
    captured.writer().call([child]).result(10)
    with pytest.raises(StoreUnavailable):
        refused.result(10)
    assert captured.tokens(child.id).prompt_ids.tolist() == child.prompt_ids


def test_all_threads_have_one_writer(captured):
    together, found = threading.Barrier(16), []

    def ask():
        together.wait()
        found.append(captured.writer())

    threads = [threading.Thread(target=ask) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == 1
    assert len(captured.spool.paths()) == 1


def test_after_the_end_nothing_is_taken(captured):
    writer = captured.writer()
    pending = [writer.call([call(seq=index)]) for index in range(50)]
    assert writer.close(20)
    assert all(future.done() for future in pending)
    assert len(captured.calls("s")) == 50
    with pytest.raises(StoreUnavailable, match="the store is closed"):
        writer.call([call(seq=99)]).result(1)


def test_o_capture_04_nul_in_any_text_is_kept_on_both_databases(captured):
    body = b'{"content":"bin\x00ary","lone":"\\ud800"}'
    record = call(
        request=body,
        chat_request=body,
        message=b'{"content":"x\x00y"}',
        error="bad \x00 thing \ud800 and \ue000",
        stop_reason="\x00",
        model_requested="m\x00",
        minted=["msg_\x00"],
        dropped=[{"text": "a\x00b"}],
        sampling={"stop": ["\x00"], "odd": float("nan")},
    )
    captured.writer().session(SessionRecord("s", 1.0, harness="h\x00", extra={"k": "v\x00"}))
    write(captured, [record])
    row = captured.call(record.id)
    assert (row["request"], row["message"]) == (body, b'{"content":"x\x00y"}')
    assert (row["error"], row["stop_reason"], row["model_requested"]) == (
        "bad \x00 thing \ud800 and \ue000",
        "\x00",
        "m\x00",
    )
    assert row["dropped"] == [{"text": "a\x00b"}]
    assert row["sampling"] == {"stop": ["\x00"], "odd": "nan"}
    assert captured.session("s")["harness"] == "h\x00"
    assert captured.session("s")["metadata"] == {"k": "v\x00"}
    assert captured.find_minted(["msg_\x00"]) == {"msg_\x00": record.id}
    assert row["prompt_ids"] == [1, 2, 3]
    assert len(row["logprobs"]) == 2


@pytest.mark.parametrize(
    ("completion", "logprobs"), [([21, 22, 901], [-0.1, -0.2, -0.3]), ([21, 22], [-0.1, -0.2]), ([1] * 8, [0.0] * 8)]
)
def test_o_capture_01_and_09_ids_and_logprobs_are_stored_as_they_came(captured, completion, logprobs):
    record = call(completion=completion, logprobs=logprobs)
    write(captured, [record])
    tokens = captured.tokens(record.id)
    assert tokens.completion_ids.tolist() == completion
    assert tokens.logprobs.tolist() == pytest.approx(logprobs, abs=1e-6)
    assert tokens.prompt_ids.tolist() == [1, 2, 3]


def test_o_capture_03_absent_ids_are_null_and_not_empty(captured):
    no_prompt = call(prompt=None, reason="ids_missing", trainable=False)
    no_completion = call(seq=1, completion=None, reason="ids_missing", trainable=False)
    write(captured, [no_prompt, no_completion])
    assert captured.call(no_prompt.id)["prompt_ids"] is None
    assert captured.call(no_prompt.id)["completion_ids"] == [4, 5]
    row = captured.call(no_completion.id)
    assert (row["completion_ids"], row["logprobs"], row["prompt_ids"]) == (None, None, [1, 2, 3])


def test_o_capture_10_a_doubled_bos_stays(captured):
    record = call(prompt=[1, 1, 900, 10], warnings=["double_bos"])
    write(captured, [record])
    assert captured.call(record.id)["prompt_ids"] == [1, 1, 900, 10]
    assert captured.call(record.id)["warnings"] == ["double_bos"]


def test_o_capture_05_fifty_sessions_at_once_while_a_reader_exports(captured):
    """50 sessions x 20 calls, each answer about 200 kB of ids and logprobs as JSON; every call waits for its commit."""
    sessions = [f"s{number}" for number in range(50)]
    latencies, errors, reading = [], [], threading.Event()

    def run(session):
        try:
            prompt, parent = list(range(8000)), None
            for seq in range(20):
                record = call(session, seq, prompt, list(range(seq, seq + 150)), parent)
                begun = time.perf_counter()
                captured.writer().call([record]).result(60)
                latencies.append(time.perf_counter() - begun)
                prompt, parent = [*prompt, *record.completion_ids, 1, 2], record
                record.prompt_ids = None
        except Exception as error:
            errors.append(error)

    def read():
        while not reading.is_set():
            for row in captured.sessions(limit=3):
                list(captured.session_tokens(row["session_id"]))

    reader = threading.Thread(target=read)
    reader.start()
    threads = [threading.Thread(target=run, args=(session,)) for session in sessions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    reading.set()
    reader.join(60)
    assert errors == []
    assert {row["session_id"]: row["calls"] for row in captured.sessions()} == dict.fromkeys(sessions, 20)
    for session in sessions[::10]:
        assert [row["seq"] for row in captured.calls(session)] == list(range(20))
    assert captured.writer().stats()["spooled"] == 0
    assert [finding for finding in check(captured, "s7") if finding.level == "error"] == []
    assert len(latencies) == 1000


WRITE = """
import sys
from polar_capture import store
from tests.unit.store.build import chain, write
with store.open(sys.argv[1]) as captured:
    for number in range(5):
        write(captured, chain(20, f"{sys.argv[2]}-{number}"))
"""


def test_two_processes_on_one_database_both_write(url, tmp_path):
    import os

    store.open(url, spool=tmp_path).close()
    environment = {**os.environ, "POLAR_HOME": str(tmp_path), "PYTHONPATH": "."}
    writers = [subprocess.Popen([sys.executable, "-c", WRITE, url, name], env=environment) for name in ("a", "b", "c")]
    assert [writer.wait(90) for writer in writers] == [0, 0, 0]
    with store.open(url, create=False, spool=tmp_path) as captured:
        assert [row["calls"] for row in captured.sessions()] == [20] * 15
        assert list(check(captured)) == []
