"""`show` in the terminal: the token tree in brief, sampled tokens in the colours of their probabilities."""

import math
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from rich.console import Console

from polar_capture.cli import main
from polar_capture.commands.token_strip import least_likely, strip
from tests.browser import sessions
from tests.unit.pages.test_hub_tokenizers import WORDS, whole

PIECES = {1: b"a\n", 2: "é".encode()[:1], 3: "é".encode()[1:], 4: b"\x1b[31m", 5: b"\xff"}


def show(folder: Path, *arguments: str) -> Result:
    sessions.write(folder / "polar.db", {"s-all": sessions.eventful(hostile=sessions.HOSTILE)})
    return CliRunner().invoke(
        main, ["show", *arguments, "--db", str(folder / "polar.db"), "--home", str(folder / "home")]
    )


def styles(logprobs: list[float]) -> list[str]:
    drawn = strip([1] * len(logprobs), logprobs, {1: b"x"})
    return [str(drawn.get_style_at_offset(Console(), len(drawn) - len(logprobs) + n)) for n in range(len(logprobs))]


def test_a_session_tells_waiting_logprobs_breaks_and_reasons(tmp_path: Path):
    done = show(tmp_path, "s-all")
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    first = next(line for line in lines if line.lstrip("│├└─ ").startswith("0  9 prompt"))
    assert "9 prompt (0 kept) + 7 sampled, mean logprob -1.220  stop  1.5 s" in first
    assert "after" not in first
    assert sum("1.5 s after 1.5 s" in line for line in lines) == 5
    assert "not trainable: upstream_error" in done.stdout
    assert "retry at token 19" in done.stdout


def test_a_call_tells_its_unlikeliest_tokens(tmp_path: Path):
    whole(tmp_path / "made", WORDS)
    done = show(tmp_path, "s-all-2", "--tokenizer", str(tmp_path / "made"))
    assert done.exit_code == 0, done.output
    assert "sampled, by probability: ≥ 0.9" in done.stdout
    assert "word20 word21" in done.stdout
    assert "' word21'   -0.4200        0.6570" in done.stdout
    assert "0.9802" not in done.stdout, "a likely one"
    assert "\x1b" not in done.stdout


def test_without_a_tokenizer_ids_and_probabilities_are_told(tmp_path: Path):
    done = show(tmp_path, "s-all-2")
    assert done.exit_code == 0, done.output
    assert "0.6570" in done.stdout
    assert "sampled, by probability" not in done.stdout


def test_a_tokenizer_that_is_not_there_is_said(tmp_path: Path):
    done = show(tmp_path, "s-all-2", "--tokenizer", str(tmp_path / "none"))
    assert done.exit_code == 1
    assert "there is no tokenizer at" in done.stderr


def test_each_bin_has_a_style_of_its_own():
    found = styles([math.log(p) for p in (0.95, 0.7, 0.4, 0.2, 0.05)])
    assert len(set(found)) == 5
    assert styles([0.5, math.nan])[0] == found[0], "a little above 0 is certain"


@pytest.mark.parametrize(
    ("ids", "shown"),
    [
        ([1, 1], "a↵\na↵\n"),
        ([2, 3], "é"),
        ([2, 1], "\ufffda↵\n"),
        ([5], "\ufffd"),
        ([4], "⟨ESC⟩[31m"),
        ([77], "⟨77⟩"),
    ],
)
def test_text_is_joined_over_tokens_and_made_inert(ids: list[int], shown: str):
    assert strip(ids, [-0.1] * len(ids), PIECES).plain.partition("\n")[2] == shown


def test_the_unlikeliest_come_in_their_order():
    found = least_likely([7, 8, 9, 1], [-3.0, -0.01, -1.0, -2.0], None, most=2)
    assert [(row[0], row[1]) for row in found] == [(0, 7), (3, 1)]
    assert least_likely([7], None, None) == []
    assert least_likely([7], [0.0], None) == []
