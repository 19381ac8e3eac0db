"""Builders of captured calls."""

import uuid_utils

from polar_capture.store.records import CallRecord


def call(session="s", seq=0, prompt=(1, 2, 3), completion=(4, 5), parent=None, **more):
    """One record with ids that fit each other; `parent` is a record that it continues."""
    completion_ids = None if completion is None else list(completion)
    values = {
        "id": str(uuid_utils.uuid7()),
        "session_id": session,
        "seq": seq,
        "dialect": "anthropic",
        "host": "api.anthropic.com",
        "path": "/v1/messages",
        "status": "ok",
        "trainable": completion is not None,
        "streamed": True,
        "started_at": 1000.0 + seq,
        "finished_at": 1000.5 + seq,
        "parent_call_id": parent.id if parent else None,
        "prompt_ids": None if prompt is None else list(prompt),
        "completion_ids": completion_ids,
        "logprobs": None if completion is None else [-0.25 * (i + 1) for i in range(len(completion))],
        "prompt_tokens": None if prompt is None else len(prompt),
        "completion_tokens": None if completion is None else len(completion),
        "request": f'{{"turn":{seq},"text":"{"some text " * (seq + 1)}"}}'.encode(),
        "chat_request": f'{{"messages":[{seq}],"text":"{"some text " * (seq + 1)}"}}'.encode(),
        "message": b'{"role":"assistant","content":"an answer"}',
    }
    return CallRecord(**{**values, **more})


def chain(length, session="s", *, grow=7, **more):
    """Calls that each continue the one before exactly, `grow` new prompt tokens a turn."""
    records = []
    prompt = list(range(100, 120))
    for seq in range(length):
        parent = records[-1] if records else None
        records.append(call(session, seq, prompt, [900 + seq, 901, 902], parent, **more))
        prompt = [*prompt, *records[-1].completion_ids, *range(seq, seq + grow)]
    return records


def write(captured, records):
    """Writes the records, each as an answer of its own, and waits until they are durable."""
    futures = [captured.writer().call([record]) for record in records]
    for future in futures:
        future.result(20)


def assert_equal(captured, record):
    """The call reads back as it was captured."""
    row = captured.call(record.id)
    for name in record.__struct_fields__:
        if name not in ("minted", "prefix_len", "logprobs"):
            assert row[name] == getattr(record, name), name
    assert (row["logprobs"] is None) == (record.logprobs is None)
    tokens = captured.tokens(record.id)
    assert tokens.logprobs.tolist() == row["logprobs"] if record.logprobs else True
    for stored, given in zip(row["logprobs"] or [], record.logprobs or [], strict=True):
        assert abs(stored - given) < 1e-6
