"""What a page holds, before any browser reads it."""

import base64
import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from polar_capture import store
from polar_capture.cli import main
from polar_capture.outcomes import Break, Reason
from polar_capture.pages.document import document, inert_json
from polar_capture.pages.echoes import differences
from polar_capture.pages.group import Turn, divergence, sampled_divergence
from polar_capture.pages.messages import MessageTable
from polar_capture.pages.packing import vocabulary
from polar_capture.pages.session import session_data
from polar_capture.pages.words import BREAKS, REASONS
from tests.browser import sessions
from tests.unit.cli.small_database import Stage


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    db = tmp_path_factory.mktemp("pages") / "polar.db"
    sessions.write(db, {"s-all": sessions.eventful(hostile=sessions.HOSTILE)}, group="g-1")
    return db


def array(text: str, kind: str) -> list[float]:
    return np.frombuffer(base64.b64decode(text), kind).tolist()


def test_every_call_can_be_put_together_again(database: Path):
    with store.open(database, create=False) as captured:
        data = session_data(captured, "s-all", sessions.PIECES)
        whole: list[list[int]] = []
        for call in data["calls"]:
            packed = call["tokens"]
            if packed is None:
                whole.append([])
                continue
            shared = whole[packed["base"]][: packed["keep"]] if packed["base"] >= 0 else []
            assert len(shared) == packed["keep"]
            prompt = [*shared, *array(packed["prompt"], "<i4")]
            whole.append([*prompt, *array(packed["sampled"], "<i4")])
            found = captured.tokens(call["id"])
            assert (prompt, array(packed["sampled"], "<i4")) == (
                found.prompt_ids.tolist(),
                found.completion_ids.tolist(),
            )
            assert array(packed["logprobs"], "<f4") == found.logprobs.tolist()


def test_places_breaks_and_reasons_are_told(database: Path):
    with store.open(database, create=False) as captured:
        calls = session_data(captured, "s-all", None)["calls"]
    assert [call["parent"] for call in calls] == [None, 0, None, None, 0, None]
    assert calls[2]["break"] == {"kind": "retokenised", "at": 12, "lost": 10, "predecessor": 1}
    assert [call.get("why") for call in calls] == [None, None, None, None, "superseded_retry", "upstream_error"]
    assert [call["trained"] for call in calls] == [True, True, True, True, False, False]
    (echo,) = calls[1]["echoes"]
    assert (echo["of"], [field["same"] for field in echo["fields"]]) == (0, [False, False, False])


def test_every_reason_and_break_has_its_sentence():
    assert set(REASONS) == set(Reason)
    assert set(BREAKS) == set(Break)


@given(st.text(st.characters(), max_size=60))
def test_data_cannot_end_its_element(text: str):
    written = inert_json({"text": text, "</script>": ["<!--", "]]>", "\u2028"]})
    assert written.isascii()
    assert not set("<>&") & set(written)
    assert json.loads(written)["text"] == text


def test_a_page_allows_only_its_own_script_and_style():
    page = document("a <b> & 'c'", {"x": "</script><script>alert(1)</script>"}, ["reading.js"])
    assert "default-src 'none'" in page
    assert page.count("<script") == 2
    assert "unsafe" not in page
    assert "<title>a &lt;b&gt; &amp; &#x27;c&#x27;</title>" in page
    assert "http://" not in page.replace("http://www.w3.org/2000/svg", "")


@given(st.lists(st.sampled_from(["a", " ", "b", "\n", "é", "\ud83d", "."])).map("".join),
       st.lists(st.sampled_from(["a", " ", "b", "\n", "é", "\ud83d", "."])).map("".join))  # fmt: skip
def test_a_difference_holds_both_texts(a: str, b: str):
    segments = differences(a, b)
    assert "".join(text for kind, text in segments if kind != "+") == a
    assert "".join(text for kind, text in segments if kind != "-") == b


def test_a_very_long_difference_is_not_matched_word_by_word():
    a, b = "x " * 5000 + "end", "y " * 5000 + "end"
    assert [kind for kind, _ in differences(a, b)] == ["-", "+", "="]


def test_messages_are_kept_once_and_told_from_the_parent_on():
    table = MessageTable()
    first = [{"role": "user", "content": "go"}]
    more = [*first, {"role": "assistant", "content": "\ud83d"}, {"role": "user", "content": "go"}]
    assert table.add(sessions.body(first, tools=[{"a": 1}]), None) == {"base": -1, "keep": 0, "rest": [0], "tools": 0}
    assert table.add(sessions.body(more, tools=[{"a": 1}]), 0) == {"base": 0, "keep": 1, "rest": [1, 0], "tools": 0}
    assert table.add(b"no json", 1) is None
    assert table.add(None, 1) is None
    assert table.add(sessions.body(first), 2) == {"base": 2, "keep": 0, "rest": [0], "tools": None}
    assert len(table.messages) == 2


def test_pictures_are_not_copied():
    table = MessageTable()
    url = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 9000}}
    table.add(sessions.body([{"role": "user", "content": [url]}]), None)
    assert len(json.dumps(table.messages)) < 500
    assert "(9,022 characters)" in table.messages[0]["content"][0]["image_url"]["url"]


def test_pieces_are_text_or_bytes():
    assert vocabulary({1: b"ok", 2: b"\xc3", 3: "é".encode()}) == {"1": "ok", "2": [0xC3], "3": "é"}


def turn(prompt: list[int], sampled: list[int]) -> Turn:
    return Turn(0, np.array(prompt, np.int32), np.array(sampled, np.int32), None, None, "stop")


@pytest.mark.parametrize(
    ("other", "found"),
    [
        ([turn([1, 2], [3, 4]), turn([1, 2, 3, 4], [5])], None),
        ([turn([1, 9], [3, 4])], {"turn": 0, "part": "prompt", "at": 1}),
        ([turn([1, 2], [3, 9])], {"turn": 0, "part": "sampled", "at": 1}),
        ([turn([1, 2], [3])], {"turn": 0, "part": "sampled", "at": 1}),
        ([turn([1, 2], [3, 4]), turn([1, 2, 3, 4, 8], [5])], {"turn": 1, "part": "prompt", "at": 4}),
        ([turn([1, 2], [3, 4])], {"turn": 1, "part": "end", "at": 0}),
        ([], {"turn": 0, "part": "end", "at": 0}),
    ],
)
def test_the_first_divergence_is_found(other: list[Turn], found: dict | None):
    assert divergence([turn([1, 2], [3, 4]), turn([1, 2, 3, 4], [5])], other) == found


def test_what_was_sampled_is_compared_whatever_the_prompts_were():
    first = [turn([1, 2], [3, 4]), turn([1, 2, 3, 4], [5])]
    assert sampled_divergence(first, [turn([9], [3, 4]), turn([8], [5, 6])]) == {"turn": 1, "at": 1}
    assert sampled_divergence(first, [turn([9], [3, 4])]) is None


def test_show_writes_a_page_and_says_where(tmp_path: Path):
    stage = Stage(tmp_path)
    file = tmp_path / "page.html"
    done = stage.run("show", "s-1", "--html", str(file))
    assert done.exit_code == 0, done.output
    assert f"wrote {file}" in done.stderr
    assert "no engine is known; --tokenizer names" in done.stderr
    assert '"id":"call-1"' in file.read_text()
    assert stage.run("show", "call-1", "--html", str(file)).exit_code == 0
    assert '"chosen":"call-1"' in file.read_text()
    assert stage.run("show", "--group", "g-1", "--html", str(file)).exit_code == 0
    assert '"members":[' in file.read_text()


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["nobody", "--html", "FILE"], 2, "there is no call or session 'nobody'"),
        (["--group", "g-9", "--html", "FILE"], 2, "there is no group 'g-9'"),
        (["s-1", "--html", "FILE", "--json"], 2, "--html and --json exclude each other"),
        (["s-1", "--html", "FILE", "--tokenizer", "FOLDER"], 1, "holds no tokenizer: neither tokenizer.json nor"),
        (["s-1", "--html", "FOLDER/none/page.html"], 1, "cannot be written: No such file"),
    ],
)
def test_what_cannot_be_shown_is_said(tmp_path: Path, arguments: list[str], status: int, said: str):
    stage = Stage(tmp_path)
    places = {"FILE": str(tmp_path / "page.html"), "FOLDER": str(tmp_path)}
    done = stage.run(
        "show", *(part.replace("FILE", places["FILE"]).replace("FOLDER", places["FOLDER"]) for part in arguments)
    )
    assert (done.exit_code, said in done.output) == (status, True), done.output
    assert not (tmp_path / "page.html").exists()


def test_the_terminal_tells_breaks_and_obeys_nothing(database: Path):
    done = CliRunner().invoke(main, ["show", "s-all", "--db", str(database), "--home", str(database.parent / "home")])
    assert done.exit_code == 0, done.output
    assert "retokenised at token 12: 10 tokens of 1 not in its context" in done.stdout
    assert not {"\x1b", "\x07", "\x00", "\u202e", "\u2066", "\u2028"} & set(done.stdout)
