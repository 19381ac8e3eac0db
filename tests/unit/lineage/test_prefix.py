"""The prefix index against its specification: plain list comparison."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polar_capture.lineage.prefix import BLOCK, Fingerprint, PrefixIndex


def ids(*values: int) -> np.ndarray:
    return np.asarray(values, dtype="<i4")


def ramp(length: int, start: int = 0) -> np.ndarray:
    return np.arange(start, start + length, dtype="<i4")


def index(**sequences: np.ndarray) -> PrefixIndex:
    built = PrefixIndex()
    for call_id, sequence in sequences.items():
        built.add(call_id, Fingerprint(sequence))
    return built


def test_a_prompt_that_continues_a_call_is_found_exactly():
    match = index(a=ids(1, 2, 3)).find(Fingerprint(ids(1, 2, 3, 4)))
    assert match is not None
    assert (match.call_id, match.length, match.exact) == ("a", 3, True)


def test_the_longest_continued_call_wins():
    match = index(a=ids(1, 2), b=ids(1, 2, 3), c=ids(1, 2, 9)).find(Fingerprint(ids(1, 2, 3, 4)))
    assert match is not None
    assert match.call_id == "b"


@pytest.mark.parametrize("prompt", [ids(1, 2), ids(1, 9, 3, 4), ids()])
def test_short_prompts_that_continue_nothing_have_no_parent(prompt):
    assert index(a=ids(1, 2, 3)).find(Fingerprint(prompt)) is None


def test_a_shared_beginning_counts_in_whole_blocks():
    first = ramp(3 * BLOCK)
    other = np.concatenate([ramp(2 * BLOCK + 7), ids(-1, -2)])
    match = index(a=first).find(Fingerprint(other))
    assert match is not None
    assert (match.call_id, match.length, match.exact) == ("a", 2 * BLOCK, False)


def test_along_a_given_call():
    built = index(a=ramp(2 * BLOCK), b=np.concatenate([ramp(BLOCK), ramp(BLOCK, 10**6)]))
    along = built.common("b", Fingerprint(ramp(2 * BLOCK + 1)))
    assert along is not None
    assert (along.length, along.exact) == (BLOCK, False)
    exact = built.common("a", Fingerprint(ramp(2 * BLOCK + 1)))
    assert exact is not None
    assert (exact.length, exact.exact) == (2 * BLOCK, True)
    assert built.common("unknown", Fingerprint(ids(1))) is None


def test_of_equal_sequences_the_named_one_is_its_own_parent():
    built = index(first=ids(1, 2), retry=ids(1, 2))
    found = built.find(Fingerprint(ids(1, 2, 3)))
    named = built.common("first", Fingerprint(ids(1, 2, 3)))
    assert found is not None
    assert found.call_id == "retry"
    assert named is not None
    assert (named.call_id, named.exact) == ("first", True)


def test_calls_of_one_length_are_told_apart_by_their_last_tokens():
    built = index(left=ids(1, 2, 7), right=ids(1, 2, 8))
    left, right = (built.common(name, Fingerprint(ids(1, 2, 8, 3))) for name in ("left", "right"))
    assert left is not None
    assert right is not None
    assert (left.exact, right.exact) == (False, True)


@given(st.lists(st.integers(0, 2**31 - 1), max_size=3 * BLOCK), st.lists(st.integers(0, 9), max_size=2 * BLOCK))
def test_extending_equals_hashing_anew(head, tail):
    whole = ids(*head, *tail)
    extended = Fingerprint(ids(*head)).extended(ids(*tail))
    fresh = Fingerprint(whole)
    assert extended.blocks == fresh.blocks
    assert all(extended.at(n) == fresh.at(n) for n in {0, len(head), len(whole)})


@given(
    st.lists(st.lists(st.integers(0, 1), max_size=8), min_size=1, max_size=8), st.lists(st.integers(0, 1), max_size=10)
)
def test_exactness_is_plain_prefix_equality(sequences, prompt):
    built = index(**{str(i): ids(*sequence) for i, sequence in enumerate(sequences)})
    continued = [sequence for sequence in sequences if prompt[: len(sequence)] == sequence]
    match = built.find(Fingerprint(ids(*prompt)))
    if continued:
        assert match is not None
        assert match.exact
        assert match.length == max(map(len, continued))
    else:
        assert match is None
