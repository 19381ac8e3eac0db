"""Every format read back, the faults reported in the field for exports, and what an export leaves out."""

import hashlib
import json

import pytest

from polar_capture.export.registry import MODULES
from tests.unit.export.readers import READERS, SUFFIXES, read, records, trained
from tests.unit.trajectories.builders import END, opening, then

FORMATS = sorted(READERS)
pytestmark = pytest.mark.timeout(120)


def export(db, tmp_path, format, *more, status=0):
    out = tmp_path / f"out-{format}{SUFFIXES[format]}"
    result = db.run("export", "--format", format, "--out", out, *more, status=status)
    return out, result


def manifest(out):
    return json.loads(out.with_name(out.name + ".manifest.json").read_text())


def test_every_format_has_a_reader():
    assert set(MODULES) == {*READERS, "chat"}


@pytest.mark.parametrize("format", FORMATS)
def test_a_chain_of_two_turns_comes_back_token_by_token(db, tmp_path, format):
    db.two_turns("s", reward=1.0, group_id="g", task_id="t", sample_index=2)
    db.run("build")
    out, _ = export(db, tmp_path, format)
    (row,) = read(format, out)
    whole = [*opening(20), 50, 51, END, *then(60), 52, END]
    assert row[0] == whole
    assert row[1] == [0] * 8 + [1] * 3 + [0] * 9 + [1] * 2
    if row[2] is not None:
        assert [p for _, p in trained(row)] == [-0.125, -0.25, -0.375, -0.125, -0.25]
    about = manifest(out)
    assert (about["samples"], about["tokens"], about["trained_tokens"]) == (1, 22, 5)
    assert about["sha256"] == hashlib.sha256(out.read_bytes()).hexdigest()
    assert about["layout"]


@pytest.mark.parametrize("format", FORMATS)
def test_o_export_01_masks_and_logprobs_are_not_shifted(db, tmp_path, format):
    db.session("s")
    db.call("s", 0, [1, 2, 3], [21, 22, 901], logprobs=[-0.5, -0.25, -0.125])
    db.reward("s", 1.0)
    db.run("build")
    (row,) = read(format, export(db, tmp_path, format)[0])
    assert row[0] == [1, 2, 3, 21, 22, 901]
    assert [id for id, _ in trained(row)] == [21, 22, 901]
    if format != "trl-sft":
        assert [p for _, p in trained(row)] == [-0.5, -0.25, -0.125]


def test_o_export_01_a_shifted_format_says_so(db, tmp_path):
    db.two_turns("s", reward=1.0)
    db.run("build")
    out, _ = export(db, tmp_path, "openrlhf")
    assert any("SHIFTED by one" in note for note in manifest(out)["layout"].values())
    assert "unshifted" in manifest(export(db, tmp_path, "trl-sft")[0])["layout"]["labels"]


@pytest.mark.parametrize("format", FORMATS)
def test_o_export_02_no_row_without_loss_tokens(db, tmp_path, format):
    db.session("s")
    db.call("s", 0, [1, 2], [], logprobs=[])
    db.call("s", 1, [1, 2, 3], [21], logprobs=[-0.1])
    db.reward("s", 1.0)
    db.run("build")
    out, _ = export(db, tmp_path, format)
    (row,) = read(format, out)
    assert [id for id, _ in trained(row)] == [21]
    assert manifest(out)["calls_left_out"] == {"empty": 1}


@pytest.mark.parametrize("format", FORMATS)
def test_o_export_03_no_reward_is_never_zero(db, tmp_path, format):
    for session, value in (("a", 1.0), ("b", None), ("c", 0.0)):
        db.two_turns(session, reward=value, group_id="g")
    db.run("build")
    out, _ = export(db, tmp_path, format)
    about = manifest(out)
    assert about["sessions_without_reward"] == 1
    if format == "trl-sft":
        assert [r["reward"] for r in records(out)] == [1.0, None, 0.0]
    else:
        assert about["left_out"] == {"no_reward": 1}
        assert about["samples"] == 2


@pytest.mark.parametrize("format", ["jsonl", "parquet", "trl-grpo", "verl", "slime"])
def test_o_export_04_groups_are_named_and_a_missing_member_shifts_none(db, tmp_path, format):
    for group, size in (("g1", 4), ("g2", 3), ("g3", 4)):
        for i in range(size):
            db.two_turns(f"{group}-{i}", reward=float(i % 2), group_id=group, sample_index=i)
    db.run("build")
    out, _ = export(db, tmp_path, format)
    field = {"slime": "group_index", "verl": "uid"}.get(format, "group_id")
    sizes = {}
    for r in records(out):
        sizes[r[field]] = sizes.get(r[field], 0) + 1
    assert list(sizes.values()) == [4, 3, 4]
    assert manifest(out)["groups"] == {"g1": 4, "g2": 3, "g3": 4}
    out, _ = export(db, tmp_path, format, "--group-size", 4)
    assert manifest(out)["groups"] == {"g1": 4, "g3": 4}
    assert manifest(out)["left_out"] == {"uneven_group": 3}


@pytest.mark.parametrize("format", FORMATS)
def test_o_export_05_ids_keep_their_32_bits(db, tmp_path, format):
    db.session("s")
    db.call("s", 0, [0, 32768, 65535], [65536, 151645, 200018], logprobs=[-0.1, -0.2, -0.3])
    db.reward("s", 1.0)
    db.run("build")
    (row,) = read(format, export(db, tmp_path, format)[0])
    assert row[0] == [0, 32768, 65535, 65536, 151645, 200018]


@pytest.mark.parametrize("format", ["chat", "atif", "nemo-gym", "jsonl"])
def test_o_export_06_one_record_a_line_for_every_reader(db, tmp_path, format):
    db.two_turns("s", reward=1.0, task_id="a\u2028b\u2029c\u0085d")
    db.run("build")
    out, _ = export(db, tmp_path, format)
    raw = out.read_bytes()
    text = raw.decode("utf-8")
    assert not raw.startswith(b"\xef\xbb\xbf")
    lines = text.splitlines()
    assert len(lines) == len([line for line in text.split("\n") if line]) == 1
    (record,) = map(json.loads, lines)
    if format == "chat":
        assert record["messages"][-1]["content"] == "a\u2028b\u0085c \U0001f600 \u6f22"
    assert "a\u2028b\u2029c\u0085d" in json.dumps(record, ensure_ascii=False)


@pytest.mark.parametrize("format", FORMATS)
def test_o_export_07_over_all_rows_each_sampled_token_trains_once(db, tmp_path, format):
    turn, first = [50, 51, END], opening(20)
    second = first + turn + then(60)
    db.session("branch")
    db.call("branch", 0, first, turn)
    db.call("branch", 1, second, [52, END])
    db.call("branch", 2, first + turn + then(99) + [52, END] + then(22, role=10), [56, END])
    db.session("compaction")
    db.call("compaction", 0, first, turn)
    db.call("compaction", 1, second, [52, END])
    db.call("compaction", 2, opening(20, 29), [80, 81, END])
    db.call("compaction", 3, [900, 10, 80, 81, END, 198, 900, 11, 198], [55, END])
    for session in ("branch", "compaction"):
        db.reward(session, 1.0)
    db.run("build")
    out, _ = export(db, tmp_path, format)
    rows = read(format, out)
    assert len(rows) == 5
    assert sum(sum(mask) for _, mask, _ in rows) == manifest(out)["trained_tokens"] == 7 + 10
    assert manifest(out)["calls_left_out"] == {}


def test_o_merge_08_helpers_are_left_out_and_counted(db, tmp_path):
    db.session("s")
    db.call("s", 0, opening(90), [91, END], kind="side", trainable=False, reason="side")
    db.call("s", 1, opening(20), [50, END])
    db.call("s", 2, opening(92), [93, END], kind="side", trainable=False, reason="side")
    db.call("s", 3, [*opening(20), 50, END, *then(60)], [52, END])
    db.reward("s", 1.0)
    db.run("build")
    out, _ = export(db, tmp_path, "jsonl")
    (row,) = records(out)
    assert [span["call_id"] for span in row["turn_spans"]] == ["s-1", "s-3"]
    assert manifest(out)["calls_left_out"] == {"side": 2}


def test_o_capture_06_an_incomplete_session_is_named_and_not_exported_as_a_whole(db, tmp_path):
    first = opening(20)
    db.session("s")
    db.call("s", 0, first, [50, END])
    db.call("s", 2, [*first, 50, END, *then(60)], [52, END])
    db.reward("s", 1.0)
    db.run("build")
    out, result = export(db, tmp_path, "jsonl")
    assert manifest(out)["incomplete_sessions"] == {"s": [1]}
    assert "session s is incomplete: no row for call 1" in result.output
    assert [r["length"] for r in records(out)] == [len(first) + 2]
    assert manifest(out)["left_out"] == {"verdict_split": 1}


def test_o_capture_07_aborted_calls_are_counted(db, tmp_path):
    db.two_turns("s", reward=1.0)
    db.call("s", 2, [1, 2, 3], [21], trainable=False, reason="aborted", finish_reason="abort", status="aborted")
    db.call("s", 3, None, None, status="error", reason="upstream_error", http_status=502)
    db.run("build")
    out, _ = export(db, tmp_path, "jsonl")
    assert manifest(out)["calls_left_out"] == {"aborted": 1, "upstream_error": 1}
    assert manifest(out)["samples"] == 1


def test_o_capture_08_old_policies_are_left_out_when_asked(db, tmp_path):
    db.two_turns("s", reward=1.0)
    db.two_turns("t", reward=1.0)
    db.run("build")
    assert manifest(export(db, tmp_path, "jsonl", "--min-policy-version", 3)[0])["policy_versions"] == [3, 4]
    _, result = export(db, tmp_path, "jsonl", "--min-policy-version", 4, status=3)
    assert "2 old policy" in result.output


def test_o_capture_09_suspect_logprobs_are_counted_and_left_out_when_strict(db, tmp_path):
    db.session("s")
    db.call("s", 0, [1], list(range(21, 29)), logprobs=[0.0] * 8, warnings=["logprobs_all_zero"])
    db.reward("s", 1.0)
    db.run("build")
    assert manifest(export(db, tmp_path, "jsonl")[0])["suspect_samples"] == 1
    _, result = export(db, tmp_path, "jsonl", "--strict", status=3)
    assert "suspect logprobs" in result.output


def test_nothing_to_export_is_status_3_and_leaves_no_file(db, tmp_path):
    _, result = export(db, tmp_path, "jsonl", status=3)
    assert "polar-capture build" in result.output
    db.two_turns("s")
    db.run("build")
    __, result = export(db, tmp_path, "jsonl", status=3)
    assert "1 no reward" in result.output
    assert not list(tmp_path.glob("out-*"))


def test_rewards_that_came_after_the_build_are_told(db, tmp_path):
    db.two_turns("a")
    db.run("build")
    db.reward("a", 1.0)
    _, result = export(db, tmp_path, "jsonl", status=3)
    assert "rewards came after the build" in result.output
    db.run("build")
    out, _ = export(db, tmp_path, "jsonl")
    assert manifest(out)["stale_rewards"] == 0
    db.reward("a", 0.5)
    db.reward("a", 9.0, call_id="a-0")
    out, result = export(db, tmp_path, "jsonl")
    assert manifest(out)["stale_rewards"] == 1
    assert "1 sessions have another outcome now" in result.output


def test_sql_chooses_rows_whatever_their_reward(db, tmp_path):
    for session, value in (("a", 1.0), ("b", None)):
        db.two_turns(session, reward=value)
    db.run("build")
    out, _ = export(db, tmp_path, "jsonl", "--sql", "SELECT id FROM samples WHERE reward IS NULL")
    assert [(r["session_id"], r["reward"]) for r in records(out)] == [("b", None)]
    assert manifest(out)["options"]["sql"].startswith("SELECT id")
    assert manifest(out)["left_out"] == {"not_selected": 1}


@pytest.mark.parametrize(
    ("sql", "status", "said"),
    [
        ("SELECT session_id FROM samples", 2, "sample ids"),
        ("SELECT nonsense FROM samples", 5, "nonsense"),
        ("DELETE FROM samples", 5, ""),
        ("SELECT id FROM samples WHERE 1 = 0", 3, "not selected"),
    ],
)
def test_bad_sql_is_refused(db, tmp_path, sql, status, said):
    db.two_turns("a", reward=1.0)
    db.run("build")
    assert said in export(db, tmp_path, "jsonl", "--sql", sql, status=status)[1].output
    assert len(db.samples()) == 1


def test_two_strategies_are_never_mixed(db, tmp_path):
    db.two_turns("a", reward=1.0)
    db.run("build", "--strategy", "per_request")
    assert manifest(export(db, tmp_path, "jsonl")[0])["samples"] == 2
    db.run("build")
    assert manifest(export(db, tmp_path, "jsonl")[0])["samples"] == 1
    assert manifest(export(db, tmp_path, "jsonl", "--strategy", "per_request")[0])["samples"] == 2
    _, result = export(db, tmp_path, "jsonl", "--sql", "SELECT id FROM samples", status=2)
    assert "train twice" in result.output
    _, result = export(db, tmp_path, "jsonl", "--sql", "SELECT id FROM samples WHERE 1 = 0", status=3)
    assert "not selected" in result.output, "none is not two"


def test_split_samples_are_taken_by_sql_alone(db, tmp_path):
    db.session("s")
    db.call("s", 0, opening(20), [71, 72, END])
    db.call("s", 1, [*opening(20), 73, 74, END, *then(60)], [52, END])
    db.reward("s", 1.0)
    db.run("build")
    out, _ = export(db, tmp_path, "jsonl")
    assert manifest(out)["left_out"] == {"verdict_split": 1}
    assert manifest(out)["calls_left_out"] == {"in_no_exported_sample": 1}
    out, _ = export(db, tmp_path, "jsonl", "--sql", "SELECT id FROM samples")
    assert manifest(out)["verdicts"] == {"exact": 1, "split": 1}


def test_a_failing_export_leaves_the_old_file(db, tmp_path, monkeypatch):
    db.two_turns("a", reward=1.0)
    db.run("build")
    out, _ = export(db, tmp_path, "jsonl")
    before = out.read_bytes()
    monkeypatch.setattr("polar_capture.export.files._sha256", lambda path: 1 / 0)
    export(db, tmp_path, "jsonl", status=1)
    assert out.read_bytes() == before
    assert not list(tmp_path.glob("*.part"))


def test_a_folder_that_is_not_there_is_named(db, tmp_path):
    db.two_turns("a", reward=1.0)
    db.run("build")
    result = db.run("export", "--format", "jsonl", "--out", tmp_path / "no" / "x.jsonl", status=2)
    assert "does not exist" in result.output


def test_text_formats_leave_out_calls_whose_bodies_are_gone(db, tmp_path):
    db.two_turns("a", reward=1.0)
    db.run("build")
    with db.store.database.write.begin() as connection:
        connection.exec_driver_sql("UPDATE calls SET chat_request = NULL")
    _, result = export(db, tmp_path, "chat", status=3)
    assert "1 no text" in result.output
