"""Calls of any tree read back exactly: retries, branches, compaction, restarts, lost parents."""

import struct
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polar_capture.store import chains, codec
from polar_capture.store.chains import Bodies, BodyLink, TokenLink
from polar_capture.store.codec import CodecError
from polar_capture.store.contexts import Context, RecentContexts
from polar_capture.store.packing import Packer
from tests.unit.store.build import assert_equal, call, chain, write

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

HOW = st.sampled_from(["continue", "retry", "compaction", "edited", "new", "no ids", "no body", "restart"])
STEP = st.tuples(HOW, st.integers(0, 10**6), st.integers(0, 40), st.integers(0, 12))


@st.composite
def trees(draw):
    """Records of one session; `restart` means that the writer forgets everything before it."""
    records, restarts = [], set()
    for seq, (how, pick, grown, sampled) in enumerate(draw(st.lists(STEP, min_size=1, max_size=60))):
        rng = np.random.default_rng(pick)
        parent = records[pick % len(records)] if records and how != "new" else None
        if how == "restart":
            restarts.add(seq)
        context = [*(parent.prompt_ids or []), *(parent.completion_ids or [])] if parent else []
        if how == "compaction":
            context = context[: len(context) // 5]
        elif how == "edited" and context:
            context[pick % len(context)] ^= 1
        elif how == "retry" and parent:
            context = list(parent.prompt_ids or [])
        prompt = [*context, *rng.integers(0, 150_000, grown).tolist()]
        body = b'{"turns":%d,' % seq + (parent.request or b"" if parent else b"begin") + rng.bytes(grown) + b"}"
        records.append(
            call(
                seq=seq,
                parent=parent,
                prompt=None if how == "no ids" else prompt,
                completion=rng.integers(0, 150_000, sampled).tolist(),
                request=None if how == "no body" else body,
                chat_request=None if how == "no body" and pick % 2 else body[:-1] + b"..." + body[-20:],
                message=rng.bytes(sampled * 3),
            )
        )
    return records, restarts


class Rows:
    """Packed rows as a database would give them back."""

    def __init__(self):
        self.rows = {}

    def token_links(self, call_id):
        links = []
        while call_id in self.rows:
            links.append(TokenLink(*(self.rows[call_id][name] for name in TokenLink._fields)))
            call_id = links[-1].parent_call_id
        return links

    def body_link(self, call_id):
        row = self.rows.get(call_id)
        return BodyLink(*(row[name] for name in BodyLink._fields)) if row else None

    def context(self, call_id):
        links = self.token_links(call_id)
        if not links or links[0].prompt_ids is None:
            return Context() if links else None
        prompt = chains.join_prompt(links)
        tokens = chains.tokens(links[0], prompt)
        return Context(tokens=np.concatenate((prompt, tokens.completion_ids)), tokens_depth=len(links))


@settings(max_examples=60, deadline=None)
@given(trees(), st.sampled_from([200, 10**9]))
def test_every_call_of_any_tree_unpacks_to_what_was_captured(tree, memory):
    records, restarts = tree
    stored = Rows()
    packer = Packer(stored.context, RecentContexts(memory))
    for record in records:
        if record.seq in restarts:
            packer = Packer(stored.context, RecentContexts(memory))
        stored.rows[record.id] = packer.pack(record)
    bodies = Bodies(stored.body_link)
    links = [TokenLink(*(row[name] for name in TokenLink._fields)) for row in stored.rows.values()]
    for record, (_, prompt) in zip(records, chains.join_prompts(links, stored.context), strict=True):
        own_links = stored.token_links(record.id)
        tokens = chains.tokens(own_links[0], chains.join_prompt(own_links))
        assert tokens.prompt_ids.tolist() == (record.prompt_ids or [])
        assert tokens.completion_ids.tolist() == record.completion_ids
        assert prompt.tolist() == (record.prompt_ids or [])
        for column in chains.BODY_COLUMNS:
            assert bodies.body(record.id, column) == getattr(record, column)


@settings(max_examples=60, deadline=None)
@given(trees())
def test_prefix_len_is_the_exact_common_prefix_whatever_was_proved(tree):
    records, _ = tree
    packer = Packer(lambda _: None)
    by_id = {record.id: record for record in records}
    for record in records:
        row = packer.pack(record)
        parent = by_id.get(record.parent_call_id)
        if parent is None or record.prompt_ids is None or parent.prompt_ids is None:
            continue
        context = np.array([*parent.prompt_ids, *parent.completion_ids], np.int32)
        assert row["prefix_len"] == codec.common_prefix(context, np.array(record.prompt_ids, np.int32))


def test_a_proved_prefix_spares_the_conversion_and_a_wrong_one_is_noticed():
    first = call(prompt=range(5000), completion=[7, 8])
    right = call(seq=1, prompt=[*range(5000), 7, 8, 9], parent=first, prefix_len=5000)
    wrong = call(seq=2, prompt=[*range(1, 5001), 7, 8], parent=first, prefix_len=5000)
    packer = Packer(lambda _: None)
    packer.pack(first)
    assert packer.pack(right)["prefix_len"] == 5002
    assert packer.pack(wrong)["prefix_len"] == 0


def test_a_long_chain_reads_back_on_both_databases(captured):
    records = chain(75)
    write(captured, records)
    for record in (records[0], records[31], records[32], records[33], records[64], records[-1]):
        assert_equal(captured, record)
    prompts = [tokens.prompt_ids.tolist() for _, tokens in captured.session_tokens("s")]
    assert prompts == [record.prompt_ids for record in records]
    assert [row["prefix_len"] for row in captured.calls("s")][1:] == [
        len(record.prompt_ids) + 3 for record in records[:-1]
    ]


@pytest.mark.parametrize("length", [2, 15, 16, 17, 31, 32, 33, 39])
def test_a_child_of_a_forgotten_parent_is_packed_against_the_database(captured, length):
    records = chain(length + 2)
    write(captured, records[:length])
    captured.writer()._packer.contexts.clear()
    write(captured, records[length:])
    for record in records[length:]:
        assert_equal(captured, record)
    with captured.database.read.connect() as connection:
        query = f"SELECT prompt_ids, request FROM calls WHERE seq = {length}"
        packed = connection.exec_driver_sql(query).one()
    assert codec.tokens_header(bytes(packed[0])).depth == length
    kind = codec.AGAINST_PARENT if length % 16 else codec.AGAINST_KEY
    assert codec.body_header(bytes(packed[1]))[:3] == (2, kind, length)


def test_bodies_of_version_1_are_still_read():
    """As an earlier polar-capture wrote them: keys 32 parents up with nothing beside them, context of one size."""
    header, options = struct.Struct("<BBHIII"), {zstd.CompressionParameter.checksum_flag: 1}
    rng = np.random.default_rng(3)
    requests, chats, links, turns = [], [], {}, 40
    text = rng.bytes(60_000)
    for _ in range(turns):
        requests.append(text + rng.bytes(900) + b"tail")
        chats.append(requests[-1][:-4] + b"end")
        text = requests[-1][:-4]

    def packed(kind, depth, base, body, beside):
        head, tail, middle = codec.change(base, body)
        reference = base[max(0, head - 32768) : len(base) - tail] + beside
        prefix = zstd.ZstdDict(reference, is_raw=True).as_prefix
        frame = zstd.compress(middle, options=options, zstd_dict=prefix)
        return header.pack(1, kind, depth, len(body), head, tail) + frame, middle

    for turn in range(turns):
        if turn == 0:
            request = header.pack(1, codec.WHOLE, 0, len(requests[0]), 0, 0) + zstd.compress(requests[0])
            chat = packed(codec.AGAINST_REQUEST, 0, requests[0], chats[0], b"")[0]
        else:
            kind, hops = (codec.AGAINST_PARENT, 1) if turn % 32 else (codec.AGAINST_KEY, 32)
            beside = b"said" if hops == 1 else b""
            request, middle = packed(kind, turn, requests[turn - hops], requests[turn], beside)
            chat = packed(kind, turn, chats[turn - hops], chats[turn], middle)[0]
        parent = str(turn - 1) if turn else None
        links[str(turn)] = BodyLink(str(turn), parent, request, chat, codec.pack_body(b"said"))
    bodies = Bodies(links.get)
    for turn in range(turns):
        assert bodies.body(str(turn), "request") == requests[turn]
        assert bodies.body(str(turn), "chat_request") == chats[turn]


def test_a_parent_of_another_session_is_a_parent(captured):
    first = call("first", prompt=range(50), completion=[1, 2])
    second = call("second", prompt=[*range(50), 1, 2, 3], parent=first)
    write(captured, [first, second])
    assert_equal(captured, second)
    assert [t.prompt_ids.tolist() for _, t in captured.session_tokens("second")] == [second.prompt_ids]


def test_a_parent_that_is_nowhere_leaves_the_call_whole(captured):
    lost = call("lost")
    child = call(prompt=range(9), parent=lost, prefix_len=4)
    write(captured, [child])
    assert_equal(captured, child)
    assert captured.call(child.id)["prefix_len"] == 4


def test_absent_arrays_stay_absent(captured):
    nothing = call(prompt=None, completion=None, request=None, chat_request=None, message=None)
    empty = call(seq=1, prompt=[], completion=[])
    write(captured, [nothing, empty])
    assert captured.call(nothing.id)["prompt_ids"] is None
    assert captured.call(nothing.id)["logprobs"] is None
    assert captured.call(empty.id)["prompt_ids"] == []
    assert [len(array) for array in captured.tokens(nothing.id)] == [0, 0, 0]
    assert captured.body(nothing.id, "message") is None


def test_a_changed_prompt_does_not_verify(captured):
    write(captured, chain(2))
    with captured.database.write.begin() as connection:
        connection.exec_driver_sql("UPDATE calls SET completion_ids = logprobs WHERE seq = 0")
    child = captured.calls("s")[1]["id"]
    with pytest.raises(CodecError, match="kind 3"):
        captured.tokens(child)
    with captured.database.write.begin() as connection:
        packed = codec.pack_ids(codec.as_int32([1, 2, 3]))
        connection.exec_driver_sql(
            f"UPDATE calls SET completion_ids = {'%s' if not captured.database.is_sqlite else '?'} WHERE seq = 0",
            (packed,),
        )
    with pytest.raises(CodecError, match=f"call {child}: the unpacked prompt does not match its SHA-256"):
        captured.tokens(child)


def test_unknown_calls_are_named(captured):
    for read in (captured.tokens, captured.call):
        with pytest.raises(KeyError, match="call nowhere is not in"):
            read("nowhere")
    with pytest.raises(ValueError, match="'answer' is no body: request, chat_request, message"):
        captured.body("nowhere", "answer")


def test_a_parent_goes_first_so_that_many_sessions_keep_the_context_they_need():
    context = Context(tokens=np.zeros(1000, np.int32))
    recent = RecentContexts(max_bytes=3 * context.size())
    for name in ("a-0", "b-0", "a-1"):
        recent.put(name, context)
    recent.retire("a-0")
    recent.put("b-1", context)
    assert [recent.get(name) is not None for name in ("a-0", "b-0", "a-1", "b-1")] == [False, True, True, True]
    recent.retire("unknown")
