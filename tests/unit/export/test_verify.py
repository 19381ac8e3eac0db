"""`verify`, with the negative controls that show that it can fail."""

import http.server
import json
import threading

import pytest

from tests.unit.trajectories.builders import END, opening, then


@pytest.fixture
def built(db):
    db.two_turns("s", reward=1.0, group_id="g")
    db.call("s", 2, [*opening(20), 50, 51, END, *then(99)], [56, END])
    db.run("build")
    db.run("build", "--strategy", "per_request")
    return db


def change(db, column, edit, where="branch = 0 AND strategy = 'prefix_merging'"):
    """Edits one column of one sample in place."""
    ((id, value),) = [tuple(row.values()) for row in db.samples(f"id, {column}", where)]
    value = edit(json.loads(value) if isinstance(value, str) and value[:1] in "[{" else value)
    value = json.dumps(value) if isinstance(value, list) else value
    with db.store.database.write.begin() as connection:
        connection.exec_driver_sql(f"UPDATE samples SET {column} = ? WHERE id = ?", (value, id))


def at(place, new):
    def edit(values):
        values[place] = new(values[place]) if callable(new) else new
        return values

    return edit


def test_what_was_built_holds(built):
    report = built.json("verify")
    assert report["holds"]
    assert (report["samples"], report["mismatches"]) == (5, {})
    assert "verify" not in built.run("verify").stderr


def shifted(mask):
    return [0, *mask[:-1]]


def swapped(logprobs):
    logprobs[8], logprobs[9] = logprobs[9], logprobs[8]
    return logprobs


CORRUPTIONS = {
    "one changed id that was sampled": ("input_ids", at(9, 7777), "completion", 9),
    "one changed id of the context": ("input_ids", at(2, 7777), "context", 2),
    "a shifted mask": ("loss_mask", shifted, "mask", 8),
    "one mask that is not 0 or 1": ("loss_mask", at(8, 2), "mask", 8),
    "two swapped logprobs": ("logprobs", swapped, "logprobs", 8),
    "one changed logprob": ("logprobs", at(10, lambda x: x - 1e-6), "logprobs", 10),
    "a logprob that is gone": ("logprobs", at(8, None), "logprobs", 8),
    "a logprob where nothing was sampled": ("logprobs", at(0, -0.5), "logprobs", 0),
    "one id too few": ("input_ids", lambda ids: ids[:-1], "lengths", None),
    "a wrong length": ("length", lambda n: n + 1, "lengths", None),
    "a wrong prompt length": ("prompt_len", lambda n: n + 1, "prompt_len", 9),
    "a span of another call": ("turn_spans", at(0, lambda s: s | {"call_id": "s-2"}), "completion", 8),
    "a span of no call": ("turn_spans", at(0, lambda s: s | {"call_id": "gone"}), "call_missing", 8),
    "a span that reaches too far": ("turn_spans", at(1, lambda s: s | {"end": 99}), "span_bounds", 20),
    "a verdict that says too little": ("verdict", lambda _: "not_trainable", "verdict", None),
}


@pytest.mark.parametrize("name", CORRUPTIONS)
def test_one_fault_is_found_named_and_status_1(built, name):
    column, edit, kind, place = CORRUPTIONS[name]
    change(built, column, edit)
    report = built.json("verify", status=1)
    assert kind in report["mismatches"]
    assert not report["holds"]
    told = next(line for line in report["findings"] if f": {kind}" in line)
    assert place is None or f"at token {place}" in told


def test_a_token_that_trains_twice_is_found(built):
    where = "branch = 1 AND strategy = 'prefix_merging'"
    change(built, "turn_spans", at(0, lambda s: s | {"trained": True}), where)
    change(built, "loss_mask", lambda mask: [0] * 8 + [1] * 3 + mask[11:], where)
    change(built, "logprobs", lambda x: [*x[:8], -0.125, -0.25, -0.375, *x[11:]], where)
    report = built.json("verify", status=1)
    assert report["mismatches"] == {"trained_twice": 1}


def test_a_damaged_call_is_found(built):
    with built.store.database.write.begin() as connection:
        connection.exec_driver_sql("UPDATE calls SET prompt_sha256 = ? WHERE id = 's-1'", (b"0" * 32,))
    assert built.json("verify", status=1)["mismatches"]


def test_repaired_samples_hold_and_their_blocks_are_checked(db):
    db.session("s")
    history, glue = opening(20), [30, 198, 31, 198]
    for i in range(3):
        db.call("s", i, history + glue, [50 + i, END])
        history = [*history, 50 + i, END, *then(60 + i)]
    db.run("build", "--stitch")
    assert [row["verdict"] for row in db.samples("verdict")] == ["repaired"]
    assert db.json("verify")["holds"]
    change(db, "input_ids", at(9, 77))
    assert db.json("verify", status=1)["mismatches"] == {"context": 1}


def test_one_session_alone(built):
    built.two_turns("t")
    built.run("build", "--session", "t")
    assert built.json("verify", "--session", "t")["samples"] == 1
    assert "nobody" in built.run("verify", "--session", "nobody", status=2).output


class Scorer(http.server.BaseHTTPRequestHandler):
    """An engine whose logprob of token i of a prompt is what `server.logprob(ids, i)` says."""

    def do_GET(self):
        self.answer({"data": [{"id": "tiny", "max_model_len": self.server.max_model_len}]})

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if self.path == "/detokenize":
            return self.answer({"prompt": " ".join(map(str, body["tokens"]))})
        ids = body["prompt"]
        entries = [None] + [{str(ids[i]): {"logprob": self.server.logprob(ids, i)}} for i in range(1, len(ids))]
        return self.answer({"choices": [{"prompt_logprobs": entries}]})

    def answer(self, value):
        raw = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, *_):
        pass


@pytest.fixture
def engine():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Scorer)
    server.max_model_len = 4096
    server.url = f"http://127.0.0.1:{server.server_port}/v1"
    # The captured calls have -0.125, -0.25, … from the start of each completion, which follow a newline (198).
    server.logprob = lambda ids, i: -0.125 * (i - max(j for j in range(i) if ids[j] == 198)) if 198 in ids[:i] else -9.0
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()


def test_rescore_agrees_on_all_tokens(built, engine):
    report = built.json("verify", "--rescore", engine.url)
    assert (report["rescored"], report["rescored_tokens"]) == (5, 14)
    assert report["worst"]["difference"] == 0.0
    assert report["mean_difference"] == 0.0


def test_rescore_names_the_worst_token_with_its_context(built, engine):
    right = engine.logprob
    engine.logprob = lambda ids, i: right(ids, i) - (0.5 if ids[i] == 52 else 0.001)
    report = built.json("verify", "--rescore", engine.url, "--tolerance", "0.01", status=1)
    worst = report["worst"]
    assert (worst["call_id"], worst["token"], worst["stored"], worst["rescored"]) == ("s-1", 52, -0.125, -0.625)
    assert worst["before"][-1] == 198
    assert worst["after"] == [END]
    assert report["worst_text"][1] == "52"
    assert len(report["beyond_tolerance"]) == 2
    assert "worst 0.5" in built.run("verify", "--rescore", engine.url, status=1).output
    engine.logprob = lambda ids, i: right(ids, i) - 0.009
    built.json("verify", "--rescore", engine.url, "--tolerance", "0.01")


def test_rescore_leaves_out_what_the_window_does_not_take(built, engine):
    engine.max_model_len = 20
    report = built.json("verify", "--rescore", engine.url)
    assert (report["rescored"], len(report["too_long"])) == (1, 4)


def test_rescore_without_an_engine_says_so(built):
    assert "is the engine up" in built.run("verify", "--rescore", "http://127.0.0.1:9", status=1).output


def test_nothing_to_check_is_no_silent_pass(db):
    db.two_turns("s", reward=1.0)
    assert "polar-capture build" in db.run("verify").stderr
    assert db.json("verify")["samples"] == 0
