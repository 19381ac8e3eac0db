"""The HTML pages in a real browser: open, hover, fold, search, dark mode, keyboard; hostile text stays text."""

import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from axe_selenium_python import Axe
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys

from polar_capture import store
from polar_capture.commands.show import group_value
from polar_capture.pages.group import group_page
from polar_capture.pages.session import session_page
from tests.browser import sessions
from tests.browser.browsing import Browser

LONG_TURNS, LONG_TOKENS = 200, 100_000
MANY, MANY_TURNS = 16, 40
IN_SIGHT = """return [...document.querySelectorAll("[data-at].s")].filter((mark) => {
  const box = mark.getBoundingClientRect(); return box.top >= 0 && box.bottom <= innerHeight && box.height; }).length"""
"""Sampled tokens of call 199 or of others that are in sight."""
OPENS_IN, LARGEST = 3.0, 20_000_000


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    db, long, many = folder / "polar.db", folder / "long.db", folder / "many.db"
    sessions.write(
        db, {"s-all": sessions.eventful(hostile=sessions.HOSTILE), "s-two": sessions.eventful("s-two")}, group="g-1"
    )
    other = sessions.eventful("s-three")[:1]
    other[0].completion_ids = [20, 21, 99]
    other[0].logprobs = [-0.1, -0.2, -3.0]
    sessions.write(db, {"s-three": other}, group="g-1")
    sessions.write(long, {"s-long": sessions.long(turns=LONG_TURNS, tokens=LONG_TOKENS)})
    names = [f"s-{place}" for place in range(MANY)]
    sessions.write(many, {name: sessions.long(name, turns=MANY_TURNS, tokens=20_000) for name in names}, group="g-many")
    files = {}
    with store.open(db, create=False) as captured:
        captured.add_reward("s-all", 0.25, comment="first look")
        captured.add_reward("s-all", 1.0, comment=sessions.HOSTILE.encode("utf-8", "replace").decode())
        captured.add_reward("s-two", 0.0)
        files["session"] = session_page(captured, "s-all", sessions.PIECES, "")
        files["chosen"] = session_page(captured, "s-all", None, "no engine is known", chosen="s-all-2")
        files["group"] = group_page(captured, group_value(captured, "g-1"), sessions.PIECES, "")
    with store.open(long, create=False) as captured:
        files["long"] = session_page(captured, "s-long", sessions.PIECES, "")
    with store.open(many, create=False) as captured:
        files["many"] = group_page(captured, group_value(captured, "g-many"), sessions.PIECES, "")
    found = {}
    for name, text in files.items():
        found[name] = folder / f"{name}.html"
        found[name].write_text(text, encoding="utf-8")
    return found


@pytest.fixture
def page(window: Browser, pages: dict[str, Path]) -> Iterator[Browser]:
    window.open(pages["session"])
    yield window
    assert window.run("return window.owned") is None


def call_row(page: Browser, seq: int) -> None:
    page.click(f"#call-{seq}")


def test_all_calls_are_listed_with_what_is_wrong_with_them(page: Browser):
    rows = [row.text for row in page.all(".row")]
    assert len(rows) == 6
    assert "sub:1" in rows[3]
    assert "retokenised" in rows[2]
    assert "superseded_retry" in rows[4]
    assert "upstream_error" in rows[5]
    assert "after 1.50 s" in rows[1]
    assert len(page.all(".row svg circle")) == 6
    assert "not trained" in page.text("header")
    page.screenshot("session")


def test_a_break_says_where_and_why(page: Browser):
    call_row(page, 2)
    text = page.one(".break").text
    assert "Does not continue call 1: retokenised" in text
    assert "The tokens agree up to 12; 10 tokens" in text
    assert page.all(".break .differs")
    page.screenshot("session-break")


def test_tokens_show_what_was_sampled_and_what_was_inserted(page: Browser):
    call_row(page, 1)
    page.click("#tab-tokens")
    assert len(page.all("[data-at]")) == 6, "new tokens: 3 inserted, 3 sampled"
    assert len(page.all("[data-at].s")) == 3
    page.click("[name=which][value=all]")
    page.until(lambda: len(page.all("[data-at]")) == 22, "whole context")
    assert len(page.all("[data-at].s")) == 10
    assert page.all(".b0")
    assert page.all(".b4")
    call_row(page, 4)
    page.until(lambda: page.all("[data-at].s.m"), "sampled tokens with mask 0")
    page.screenshot("session-tokens")


def test_hovering_gives_id_text_logprob_and_probability(page: Browser):
    call_row(page, 1)
    page.click("#tab-tokens")
    ActionChains(page.driver).move_to_element(page.all("[data-at].s")[1]).perform()
    text = page.until(lambda: page.one("#tooltip").text, "tooltip")
    assert re.search(
        r"token 20 · id 51\n.*text .*\nlogprob -0\.4200 · probability 0\.6570\nsampled in call 1 · mask 1", text
    )
    ActionChains(page.driver).move_to_element(page.all("[data-at]:not(.s)")[0]).perform()
    page.until(lambda: "inserted" in page.one("#tooltip").text, "tooltip of an inserted token")
    page.screenshot("session-hover")


def test_folds_open_and_close(page: Browser):
    call_row(page, 1)
    result = page.one("details.result")
    assert not result.find_elements("css selector", "pre")
    page.one("details.result summary").click()
    assert page.until(lambda: page.one("details.result pre").text, "result").startswith("1 failed")
    page.one("details.result summary").click()
    page.until(lambda: not page.one("details.result").get_property("open"), "closed fold")
    page.one("#rewards summary").click()
    table = page.until(lambda: page.one("#rewards table").text, "reward history")
    assert "0.25" in table
    assert "first look" in table


def test_the_echo_is_compared_with_what_was_sampled(page: Browser):
    call_row(page, 1)
    page.click("#tab-echo")
    text = page.one(".echoes").text
    assert "Call 0, as the harness sent it back: changed" in text
    assert "reasoning · differs" in text
    assert "its tokens stand as they were sampled" in text, "the call continues it all the same"
    assert page.all("ins")[0].text == "!"
    assert [node.text for node in page.all("del") if node.text == "."]
    page.screenshot("session-echo")


def test_search_finds_calls_and_marks_words(page: Browser):
    page.press("/")
    page.press("subagent")
    page.until(lambda: page.text("#found") == "1 of 6 calls", "one hit")
    assert [mark.text for mark in page.all("mark")] == ["subagent"]
    page.press(Keys.ESCAPE)
    page.until(lambda: len(page.all(".row")) == 6, "all calls again")
    page.press("/")
    page.press("id:61" + Keys.ENTER)
    page.until(lambda: page.text("#found") == "1 of 6 calls", "a hit by id")
    page.press("/")
    page.press(Keys.CONTROL + "a")
    page.press("<script>")
    page.until(lambda: page.text("#found") == "5 of 6 calls", "hostile words are words")


def test_it_can_be_read_by_keyboard(page: Browser):
    page.press(Keys.ARROW_DOWN)
    page.press("j")
    assert "Call 2" in page.text("h2")
    assert page.one("#calls").get_attribute("aria-activedescendant") == "call-2"
    page.press("2")
    page.until(lambda: page.all("[data-at]"), "tokens")
    page.run("document.querySelector('.tokens[tabindex]').focus()")
    page.press(Keys.ARROW_RIGHT)
    assert "token 12 · id 40" in page.text("#reader")
    page.press(Keys.END)
    assert "id 61" in page.text("#reader")
    page.press("4")
    assert "completion_tokens" in page.text("#view")


def contrast(page: Browser) -> float:
    """The least contrast of text on its paper among the bins (WCAG 2.2, 1.4.3)."""
    return float(
        page.run("""
      const light = (text) => { const [r, g, b] = text.match(/\\d+/g).map(Number).map((v) => { v /= 255;
        return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; });
        return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
      return Math.min(...[...document.querySelectorAll(".legend .t.s:not(.m)")].map((node) => {
        const style = getComputedStyle(node);
        const [a, b] = [light(style.color), light(style.backgroundColor)].sort((x, y) => y - x);
        return (a + 0.05) / (b + 0.05); }));""")
    )


def test_light_and_dark_have_readable_colours(page: Browser):
    page.press("2")
    page.until(lambda: page.all(".legend"), "legend")
    for _ in range(2):
        assert contrast(page) >= 4.5
        before = page.run("return getComputedStyle(document.body).backgroundColor")
        page.click("#theme")
        page.until(
            lambda before=before: page.run("return getComputedStyle(document.body).backgroundColor") != before,
            "the other theme",
        )
        page.screenshot(f"session-{page.run('return document.documentElement.dataset.theme')}")


@pytest.mark.parametrize(("name", "keys"), [("session", "1234"), ("group", "g")])
def test_nothing_is_hard_to_read_or_to_reach(window: Browser, pages: dict[str, Path], name: str, keys: str):
    """axe-core's rules for each view in both themes: contrast, names, roles, headings, focus."""
    window.open(pages[name])
    axe = Axe(window.driver)
    axe.inject()
    for key in keys:
        window.press(key)
        for _ in range(2):
            found = axe.run()["violations"]
            assert found == [], axe.report(found)
            window.click("#theme")


def test_hostile_text_is_shown_and_does_nothing(page: Browser):
    for seq in (0, 1, 5):
        call_row(page, seq)
        for view in ("conversation", "tokens", "echo", "facts"):
            page.click(f"#tab-{view}")
        page.click("#tab-conversation")
    call_row(page, 0)
    shown = page.text(".message.sampled")
    for name in (
        "⟨ESC⟩[31mred",
        "⟨RLO⟩gnp.exe",
        "⟨LSEP⟩",
        "⟨NUL⟩",
        "⟨U+D83D⟩",
        "<img src=x onerror='window.owned=2'>",
        "שלום",
    ):
        assert name in shown
    assert page.all("img, iframe, a, object, embed") == []
    assert page.run("return document.scripts.length") == 2
    assert page.driver.title.startswith("s-all")


def test_a_page_without_a_tokenizer_shows_ids_and_opens_at_the_call(window: Browser, pages: dict[str, Path]):
    window.open(pages["chosen"])
    assert "Call 2" in window.text("h2")
    assert "no engine is known" in window.text("header")
    window.press("2")
    assert "61" in window.until(lambda: window.one(".tokens[tabindex]").text, "ids")


def test_it_asks_for_nothing_from_the_network(page: Browser):
    loaded = page.run("return performance.getEntriesByType('resource').map((entry) => entry.name)")
    assert [name for name in loaded if not name.startswith("data:")] == []


def test_a_key_goes_to_what_was_sampled(window: Browser, pages: dict[str, Path]):
    window.open(pages["long"])
    window.press(Keys.END)
    window.press("2")
    window.click("[name=which][value=all]")
    window.until(lambda: window.all("[data-at]"), "the beginning")
    assert window.run(IN_SIGHT) == 0
    window.press("s")
    window.until(lambda: window.run(IN_SIGHT) >= 1, "sampled tokens")
    window.run("document.getElementById('detail').scrollTop = 0")
    window.until(lambda: window.run(IN_SIGHT) == 0, "the beginning again")
    window.click("#to-sampled")
    window.until(lambda: window.run(IN_SIGHT) >= 1, "sampled tokens")


def test_blocks_of_tokens_end_where_lines_do(window: Browser, pages: dict[str, Path]):
    window.open(pages["long"])
    window.press("2")
    ends = window.until(
        lambda: window.run(
            "return [...document.querySelectorAll('.block')].slice(0, -1).filter((block) => block.lastChild)"
            ".map((block) => block.lastChild.textContent)"
        ),
        "drawn blocks",
    )
    assert all(end.endswith("\n") for end in ends), ends


def opening(window: Browser, page: Path, wanted: str) -> float:
    """Seconds until a page shows what is wanted: the best of three, as other work on the machine is not the page's."""
    best = float("inf")
    for _ in range(3):
        window.open("about:blank")
        begun = time.monotonic()
        window.open(page)
        window.until(lambda: window.all(wanted), wanted)
        best = min(best, time.monotonic() - begun)
        if best < OPENS_IN:
            break
    return best


def test_a_large_group_draws_only_what_is_seen(window: Browser, pages: dict[str, Path]):
    took = opening(window, pages["many"], "[data-at]")
    print(f"{MANY} sessions of {MANY_TURNS} turns: {pages['many'].stat().st_size / 1e6:.1f} MB, opened in {took:.2f} s")
    assert took < 5 * OPENS_IN
    assert len(window.all("main > section")) == MANY
    assert len(window.all("[data-at]")) < 8000, "only what is in sight is drawn"
    window.run("document.querySelector('main').scrollLeft = 1e9")
    window.until(lambda: window.all("main > section:last-child [data-at]"), "the last one, once it is in sight")


def test_a_group_stands_side_by_side(window: Browser, pages: dict[str, Path]):
    window.open(pages["group"])
    rows = [row.text for row in window.all("#members tbody tr")]
    assert "s-all 0 open 1 +0.707" in rows[0]
    assert "(compared with)" in rows[0]
    assert "-0.707" in rows[1]
    assert "none" in rows[1]
    assert "turn 1, sampled token 2" in rows[2]
    assert len(window.all("main > section")) == 3
    assert len(window.all(".parted .differs")) == 1
    ActionChains(window.driver).move_to_element(window.one(".parted .differs")).perform()
    assert "logprob -3.0000" in window.until(lambda: window.one("#tooltip").text, "tooltip")
    window.screenshot("group")
    assert window.run("return window.owned") is None


def test_a_long_session_opens_quickly_and_is_small(window: Browser, pages: dict[str, Path]):
    assert pages["long"].stat().st_size < LARGEST
    took = opening(window, pages["long"], ".row.chosen")
    print(f"200 turns, 100k tokens: {pages['long'].stat().st_size / 1e6:.1f} MB, opened in {took:.2f} s")
    assert took < OPENS_IN
    window.press(Keys.END)
    window.press("2")
    window.click("[name=which][value=all]")
    blocks = window.until(lambda: window.all(".block"), "blocks")
    assert LONG_TOKENS // 1024 <= len(blocks) <= LONG_TOKENS // 256 + 1
    assert len(window.all("[data-at]")) < 4000

    def at_the_end():
        window.run("document.getElementById('detail').scrollTop = 1e9")
        return window.all(".block:last-child [data-at].s")

    last = window.until(at_the_end, "the end of the context, drawn when it is seen")
    assert len(last) > 50
    assert len(window.all("[data-at]")) < 4000
    assert len(window.all(".row")) < 60
    window.screenshot("session-long")
