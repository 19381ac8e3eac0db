"""The token tree against the plain definition of prefixes, in both ways of adding a call."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polar_capture.trajectories.tree import BLOCK, TokenTree, common_prefix
from tests.unit.trajectories.builders import call

tokens = st.lists(st.integers(0, 2), max_size=12)


@st.composite
def sessions(draw):
    """Calls whose prompts often begin with parts of earlier calls; some are given as 'so many tokens of that call'."""
    rows, wholes = [], []
    for i in range(draw(st.integers(1, 8))):
        completion = draw(tokens)
        base = draw(st.integers(0, i - 1)) if i and draw(st.booleans()) else None
        own = draw(tokens)
        kept = draw(st.integers(0, len(wholes[base][0]) + len(wholes[base][1]))) if base is not None else 0
        prompt = ((wholes[base][0] + wholes[base][1])[:kept] if base is not None else []) + own
        row = call(f"c{i}", prompt, completion)
        if base is not None and draw(st.booleans()):
            row.base_call_id, row.base_len, row.prompt_ids = f"c{base}", kept, np.array(own, np.int32)
        rows.append(row)
        wholes.append([prompt, completion])
    return rows, wholes


@given(sessions())
def test_parents_prefixes_and_tokens_are_those_of_the_definition(session):
    rows, wholes = session
    tree = TokenTree()
    for i, row in enumerate(rows):
        place = tree.add(row)
        prompt, completion = wholes[i]
        earlier = [p + c for p, c in wholes[:i]]
        assert tree.tokens(place).tolist() == prompt + completion
        assert place.prompt_len == len(prompt)
        shared = max((common_prefix(np.array(prompt), np.array(e)) for e in earlier), default=0)
        assert place.shared == shared
        begins = [
            (len(e), j)
            for j, e in enumerate(earlier)
            if wholes[j][1] and len(e) <= len(prompt) and e == prompt[: len(e)]
        ]
        longest = max((length for length, _ in begins), default=None)
        assert {p.row.id for p in tree.continued_by(place)} == {f"c{j}" for length, j in begins if length == longest}
        for j, e in enumerate(earlier):
            other = tree.places[f"c{j}"]
            assert tree.agreement(place, other) == common_prefix(np.array(prompt), np.array(e))
    for i, row in enumerate(rows):  # later splits change no earlier call
        assert tree.tokens(tree.places[row.id]).tolist() == wholes[i][0] + wholes[i][1]


def test_long_prompts_are_found_again_by_their_blocks():
    random = np.random.default_rng(1)
    first = random.integers(0, 1000, 5 * BLOCK + 17).tolist()
    tree = TokenTree()
    tree.add(call("c0", first, [1, 2, 3]))
    assert tree.add(call("c1", first + [1, 2, 3] + [4] * BLOCK, [5])).shared == len(first) + 3
    edited = [*first[: 3 * BLOCK + 5], 5000, *first[3 * BLOCK + 6 :]]
    assert tree.add(call("c2", edited, [6])).shared == 3 * BLOCK + 5
    assert tree.add(call("c3", edited, [6])).shared == len(edited)
    for name, whole in (("c0", [*first, 1, 2, 3]), ("c2", [*edited, 6]), ("c3", [*edited, 6])):
        assert tree.tokens(tree.places[name]).tolist() == whole


def test_a_call_that_starts_from_an_unknown_one_is_refused_by_name():
    row = call("c1", [1], [2])
    row.base_call_id = "c0"
    with pytest.raises(ValueError, match="c1 starts from call c0"):
        TokenTree().add(row)
    tree = TokenTree()
    tree.add(call("c0", [1], [2]))
    row.base_len = 3
    with pytest.raises(ValueError, match="shares 3 tokens"):
        tree.add(row)


def test_a_call_without_ids_has_no_place():
    with pytest.raises(ValueError, match="c0 has no ids"):
        TokenTree().add(call("c0", None, [1]))
