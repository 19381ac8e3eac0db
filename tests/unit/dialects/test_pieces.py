"""Cutting answers into deltas."""

from hypothesis import given
from hypothesis import strategies as st

from polar_capture.dialects.pieces import MOST, SHORTEST, pieces


@given(st.text(max_size=5000))
def test_pieces_are_the_text_again(text: str) -> None:
    cut = pieces(text)
    assert "".join(cut) == text
    assert len(cut) <= MOST
    assert all(cut)
    assert all(len(piece) >= SHORTEST for piece in cut[:-1])


def test_a_megabyte_has_no_more_deltas() -> None:
    assert len(pieces("x" * 1_000_000)) == MOST
