"""The packed formats: whatever goes in comes out, and what is damaged says so."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polar_capture.store import codec
from polar_capture.store.codec import CodecError
from polar_capture.store.escaping import escape, unescape

ids = st.lists(st.integers(0, 2**31 - 1), max_size=200)


@given(ids, st.data())
def test_ids_come_back_whole_or_as_the_tail_behind_what_is_shared(values, data):
    array = codec.as_int32(values)
    shared = data.draw(st.integers(0, len(values)))
    header, own = codec.unpack_own_ids(codec.pack_ids(array, shared, parent_depth=3))
    assert header.size == len(values)
    assert own.dtype == np.int32
    assert own.tolist() == values[shared:]
    assert header.depth == (4 if shared else 0)


@given(st.lists(st.floats(width=32), max_size=100))
def test_logprobs_come_back_bit_by_bit(values):
    packed = codec.pack_logprobs(values)
    assert codec.unpack_logprobs(packed).tobytes() == np.asarray(values, np.float32).tobytes()


def changed(base, body, column="request", kind=codec.AGAINST_PARENT, beside=b""):
    return codec.pack_change(kind, 1, column, base, codec.change(base, body), beside)


@given(
    st.binary(max_size=400),
    st.binary(max_size=400),
    st.binary(max_size=50),
    st.sampled_from(["request", "chat_request"]),
    st.sampled_from([codec.AGAINST_PARENT, codec.AGAINST_KEY, codec.AGAINST_REQUEST]),
)
def test_a_body_comes_back_from_any_base(base, body, beside, column, kind):
    packed = changed(base, body, column, kind, beside)
    assert codec.unpack_body(packed, column, base, beside) == (body, codec.change(base, body).middle)
    assert codec.unpack_body(codec.pack_body(body), column) == (body, body)


@given(st.binary(max_size=60), st.binary(max_size=60), st.binary(max_size=60), st.binary(max_size=60))
def test_a_change_is_the_longest_head_then_the_longest_tail(before, old, new, after):
    old, new = before + old + after, before + new + after
    head, tail, middle = codec.change(old, new)
    assert old[:head] + middle + old[len(old) - tail :] == new
    shorter = min(len(old), len(new))
    assert head == next((i for i in range(shorter) if old[i] != new[i]), shorter)
    assert tail == next((i for i in range(shorter - head) if old[-1 - i] != new[-1 - i]), shorter - head)


@given(ids, ids, st.data())
def test_a_hash_goes_on_from_the_beginning_of_its_prompt(first, more, data):
    beginning, prompt = codec.as_int32(first), codec.as_int32([*first, *more])
    whole = codec.PromptHash(prompt, codec.PromptHash(beginning))
    assert whole.digest() == codec.prompt_hash(prompt)
    again = codec.as_int32([*prompt.tolist(), data.draw(st.integers(0, 9))])
    assert codec.PromptHash(again, whole).digest() == codec.prompt_hash(again)


@pytest.mark.parametrize(
    "values",
    [[-1], [2**31], [1, 2**40], ["7"], [None], [1.5, "x"]],
    ids=["negative", "2**31", "2**40", "text", "none", "mixed"],
)
def test_what_is_no_token_id_is_refused(values):
    with pytest.raises(ValueError, match=r"token ids must be whole numbers from 0 to 2\*\*31 - 1"):
        codec.as_int32(values)


def test_a_chain_of_tokens_is_cut_before_it_grows_too_long():
    packed = codec.pack_ids(codec.as_int32([1, 2, 3]), 2, parent_depth=codec.WHOLE_TOKENS_EVERY - 1)
    assert codec.tokens_header(packed) == (codec.WHOLE, 0, 3)


@pytest.mark.parametrize("place", [8, -5, -1])
def test_damaged_tokens_are_refused(place):
    packed = bytearray(codec.pack_ids(codec.as_int32(range(1000))))
    packed[place] ^= 0xFF
    with pytest.raises(CodecError):
        codec.unpack_own_ids(bytes(packed))


def test_a_wrong_base_is_refused():
    base, body = b"the old text " * 50, b"the old text " * 50 + b"and a new one" * 20
    packed = changed(base, body)
    with pytest.raises(CodecError, match=r"bytes of it are used|the base has"):
        codec.unpack_body(packed, "request", base[:10])


@pytest.mark.parametrize(
    ("packed", "said"),
    [
        (b"", "at least 8 bytes"),
        (b"\x07" + bytes(20), "version 7; this polar-capture reads 1: use a newer one"),
        (b"\x01\x63" + bytes(20), "kind 99 is no token array"),
        (codec.pack_logprobs([-1.0]), "1 ids are packed where the header says kind 3"),
    ],
)
def test_what_is_no_token_array_is_named(packed, said):
    with pytest.raises(CodecError, match=said):
        codec.unpack_own_ids(packed)


@pytest.mark.parametrize(
    ("packed", "said"),
    [
        (b"\x01", "at least 16 bytes"),
        (b"\x01\x63" + bytes(20), "kind 99"),
        (b"\x03\x01" + bytes(20), "version 3; this polar-capture reads 2: use a newer one"),
    ],
)
def test_what_is_no_body_is_named(packed, said):
    with pytest.raises(CodecError, match=said):
        codec.unpack_body(packed, "request")


def test_repeated_text_costs_next_to_nothing():
    base = bytes(np.random.default_rng(1).integers(32, 127, 300_000, np.uint8))
    assert len(changed(base, base[:200_000] + b"twelve bytes" + base[200_000:])) < 60
    assert len(changed(base, base)) < 35


@given(st.text(st.characters() | st.sampled_from("\x00\ue000\ud800\udfff0s")))
def test_an_escaped_text_is_storable_and_reversible(text):
    stored = escape(text)
    assert "\x00" not in stored
    stored.encode()
    assert unescape(stored) == text


def test_ordinary_text_is_stored_as_it_is():
    assert escape("C:\\x \u00e4 \U0001f600") == "C:\\x \u00e4 \U0001f600"
    assert escape(None) is None
    assert unescape(None) is None
