"""What a person sees of real agents on a real vLLM: mitmweb, the session page and the group page, in a real browser.

The screenshots `real-*.png` in `.cache/screenshots` are of these runs.
"""

import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from selenium.webdriver.common.action_chains import ActionChains

from polar_capture.harnesses.install import cache_folder
from tests.browser.browsing import Browser, browser
from tests.browser.test_mitmweb import OWN_FAULT, frames, pick, view
from tests.harness.stage import POLAR, Ran, Stage
from tests.unit.process.serving import serve
from tools.engine.serve import engine

TASKS = {
    "claude-code": "Please write polar into proof.txt, use the tool Bash",
    "codex": "Please write polar into proof.txt, use the tool exec_command",
    "pi": "Write a direction into proof.txt, please use the tool bash",
}
GROUP, SAMPLES = "directions", 3
REWARD = "grep -q -e north -e south proof.txt && echo 1 || echo 0"


class Seen(NamedTuple):
    """A running `serve --web`, and what has run behind it."""

    stage: Stage
    web: str
    proxy: str
    ran: dict[str, list[Ran]]

    def sessions(self, harness: str) -> list[str]:
        """Run a harness behind it, once a module; its sessions. Pi runs as a group with rewards."""
        if harness not in self.ran:
            count = SAMPLES if harness == "pi" else 1
            options = ("--group", GROUP, "--task", GROUP, "--reward-cmd", REWARD) if count > 1 else ()
            self.ran[harness] = []
            for place in range(count):
                (self.stage.work / "proof.txt").unlink(missing_ok=True)
                ran = self.stage.run(
                    harness, TASKS[harness], session=f"{harness}-{place}", options=options, proxy=self.proxy
                )
                assert ran.status == 0, ran.output
                self.ran[harness].append(ran)
        return [ran.session["id"] for ran in self.ran[harness]]

    def page(self, *arguments: str) -> Path:
        file = self.stage.folder / "page.html"
        places = ["--db", self.stage.database, "--home", str(self.stage.folder / "home"), "--html", str(file)]
        subprocess.run([*POLAR, "show", *arguments, *places], check=True, capture_output=True)
        return file

    def build(self) -> None:
        subprocess.run([*POLAR, "build", "--db", self.stage.database], check=True, capture_output=True)


@pytest.fixture(scope="module")
def seen() -> Iterator[Seen]:
    with (
        engine() as vllm,
        tempfile.TemporaryDirectory(prefix="seen-", ignore_cleanup_errors=True) as name,
        serve(vllm.url, Path(name), "--web", "--egress", "block", POLAR_CACHE=str(cache_folder())) as proxy,
    ):
        assert proxy.facts is not None
        assert proxy.facts.web is not None
        yield Seen(Stage(Path(name), vllm.url), proxy.facts.web, proxy.facts.proxy, {})


@pytest.fixture(scope="module")
def _window() -> Iterator[Browser]:
    with browser() as window:
        yield window


@pytest.fixture
def window(_window: Browser) -> Iterator[Browser]:
    _window.open("about:blank")
    _window.errors()
    yield _window
    assert [line for line in _window.errors() if OWN_FAULT not in line] == []


def choose(window: Browser, web: str, session: str, tab: str) -> None:
    """Open a session's first flow in mitmweb, at a tab."""
    window.open(web)
    field = window.one(".filter-input input, input[placeholder=Search], .input-group input")
    field.send_keys(f"~comment {session}\n")
    row = window.until(
        lambda: next((r for r in window.all(".flow-table tbody tr") if f"{session} · turn" in r.text), None), session
    )
    row.find_element("css selector", "td.col-path").click()
    window.until(lambda: next((a for a in window.all(".flow-detail nav a") if a.text == tab), None), tab).click()


@pytest.mark.parametrize("harness", ["pi"])
def test_mitmweb_shows_a_real_calls_tokens(harness: str, seen: Seen, window: Browser):
    session = seen.sessions(harness)[0]
    window.open(seen.web)
    window.until(lambda: any(session in row.text for row in window.all(".flow-table tbody tr")), "the list")
    window.screenshot("real-mitmweb-list")
    choose(window, seen.web, session, "Response")
    window.until(lambda: "tool call bash" in window.one(".contentview").text, "joined answer")
    window.screenshot("real-mitmweb-answer")
    text = view(window, "polar-tokens")
    assert f"{session} · turn 0 · trainable" in text
    assert '"<think>"' in text
    assert '"<|im_end|>"' in text
    window.run("for (const node of document.querySelectorAll('.flow-detail *')) node.scrollTop = 260")
    window.screenshot("real-mitmweb-tokens")


@pytest.mark.parametrize("harness", ["codex"])
def test_mitmweb_shows_a_real_websocket(harness: str, seen: Seen, window: Browser):
    session = seen.sessions(harness)[0]
    calls = seen.ran[harness][0].calls
    choose(window, seen.web, session, "WebSocket")
    text = frames(window, "response.output_item.done")
    assert "response.create · nothing is sampled for it" in text, "its warm-up"
    assert "openai_responses · create · model" in text
    assert text.count("status completed") >= len(calls)
    window.run("for (const node of document.querySelectorAll('.flow-detail, .flow-detail *')) node.scrollTop = 1e9")
    window.screenshot("real-mitmweb-websocket")
    pick(window, "polar-tokens")
    tokens = frames(window, "sampled (mask 1)")
    assert tokens.count(f"{session} · turn ") == len(calls), "each call's tokens once"


@pytest.mark.parametrize("harness", ["claude-code", "pi"])
def test_the_page_of_a_real_session(harness: str, seen: Seen, window: Browser):
    session = seen.sessions(harness)[0]
    seen.build()
    window.open(seen.page(session))
    assert "samples main exact" in window.text("header").replace("samples", "samples ")
    rows = [row.text for row in window.all(".row")]
    assert len(rows) == len(seen.ran[harness][0].calls)
    assert "Done." in rows[-1]
    window.screenshot(f"real-session-{harness}")
    window.press("2")
    window.press("s")
    mark = window.until(
        lambda: next((m for m in window.all("[data-at].s") if m.text.startswith("<tool_call>")), None), "the tool call"
    )
    ActionChains(window.driver).move_to_element(mark).perform()
    assert "probability" in window.until(lambda: window.one("#tooltip").text, "tooltip")
    window.screenshot(f"real-session-{harness}-tokens")
    window.click("[name=which][value=sampled]")
    mark = window.until(
        lambda: next((m for m in window.all(".b2, .b3, .b4") if m.get_dom_attribute("data-at")), None), ""
    )
    ActionChains(window.driver).move_to_element(mark).perform()
    window.screenshot(f"real-session-{harness}-sampled")
    window.click("#call-1")
    window.click("#tab-echo")
    assert "Call 0, as the harness sent it back" in window.one(".echoes").text
    assert "its tokens stand as they were sampled" in window.one(".echoes").text
    window.screenshot(f"real-session-{harness}-echo")


@pytest.mark.parametrize("harness", ["pi"])
def test_the_page_of_a_real_group(harness: str, seen: Seen, window: Browser):
    seen.sessions(harness)
    seen.build()
    window.open(seen.page("--group", GROUP))
    rows = [row.text for row in window.all("#members tbody tr")]
    assert len(rows) == SAMPLES
    assert sum("exact" in row for row in rows) == SAMPLES
    window.until(lambda: len(window.all("main > section [data-at]")) > 100, "tokens")
    window.screenshot("real-group")
    window.click("#theme")
    window.screenshot("real-group-dark")
