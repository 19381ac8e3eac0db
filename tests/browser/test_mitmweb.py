"""mitmweb, as a person uses it: the list, its filter, the views of each dialect, and the tokens."""

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from tests.browser.browsing import Browser
from tests.browser.web_stage import ASK, CALLS, Stage, mitmweb, serving

SESSIONS = {dialect: f"task-{dialect}" for dialect in CALLS}
KEPT, PASSWORD = 9, "a-password-of-the-tests"
OWN_FAULT = "/src/css/vendor.less"
"""mitmweb's stylesheet names a source file that its package does not have."""


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with serving(tmp_path_factory.mktemp("web")) as running:
        for dialect, session in SESSIONS.items():
            assert running.send(dialect, session).status_code == 200
        yield running


@pytest.fixture
def web(stage: Stage, window: Browser) -> Iterator[Browser]:
    window.open(stage.ready["web"])
    window.until(lambda: len(window.all(".flow-table tbody tr td.col-path")) >= len(CALLS), "list of flows")
    yield window
    for dialog in window.all(".modal-visible"):
        raise AssertionError(dialog.text)
    complaints = [line for line in window.errors() if OWN_FAULT not in line]
    assert complaints == []
    assert window.run("return window.owned") is None


def choose(web: Browser, dialect: str, tab: str) -> None:
    host = CALLS[dialect][0].split("?")[0]
    row = web.until(
        lambda: next((r for r in web.all(".flow-table tbody tr") if host in r.text), None), f"flow of {dialect}"
    )
    row.find_element("css selector", "td.col-path").click()
    web.until(lambda: next((a for a in web.all(".flow-detail nav a") if a.text == tab), None), f"tab {tab}").click()


def pick(web: Browser, name: str) -> None:
    """Choose a content view by the menu."""
    web.until(
        lambda: next(
            (b for b in web.all(".contentview .controls button, .contentview .controls a") if "View:" in b.text), None
        ),
        "menu of views",
    ).click()
    web.until(
        lambda: next(
            (
                i
                for i in web.all(".dropdown-menu li, .dropdown-menu a, [role=menuitem]")
                if i.text.strip().lower() == name
            ),
            None,
        ),
        f"view {name}",
    ).click()


def view(web: Browser, name: str) -> str:
    """Choose a content view by the menu; the text that it shows."""
    pick(web, name)
    web.until(lambda: web.text(".contentview h5") == name, f"title {name}") if name != "auto" else None
    return web.until(lambda: web.one(".contentview").text, "content")


def test_the_list_shows_original_addresses_sessions_and_verdicts(web: Browser):
    rows = [row.text for row in web.all(".flow-table tbody tr") if row.text.strip()]
    for dialect, session in SESSIONS.items():
        row = next(row for row in rows if session in row)
        assert CALLS[dialect][0] in row
        assert "turn 0 · trainable" in row
        assert "tokens" in row
        assert "127.0.0.1" not in row
    web.screenshot("mitmweb-list")


def test_a_session_can_be_filtered(web: Browser):
    field = web.one(".filter-input input, input[placeholder=Search], .input-group input")
    field.send_keys("~comment task-google\n")
    web.until(
        lambda: (
            [r.text for r in web.all(".flow-table tbody tr") if "task-" in r.text and "google" not in r.text] == []
            or None
        ),
        "filtered list",
    )
    assert any("task-google" in row.text for row in web.all(".flow-table tbody tr"))


@pytest.mark.parametrize("dialect", CALLS)
def test_a_request_is_shown_decoded(web: Browser, dialect: str):
    choose(web, dialect, "Request")
    text = web.until(lambda: (found := web.one(".contentview").text) and ASK in found and found, "decoded request")
    assert "polar-request" in text
    assert f"{dialect} · " in text
    assert "tools (1): bash" in text


@pytest.mark.parametrize("dialect", CALLS)
def test_a_fabricated_stream_is_shown_joined(web: Browser, dialect: str):
    choose(web, dialect, "Response")
    text = web.until(
        lambda: (found := web.one(".contentview").text) and "tool call bash" in found and found, "joined answer"
    )
    assert "polar-answer" in text
    assert "Running it. </script><script>window.owned=1</script>" in text
    assert '"command": "ls -la"' in text
    assert "⟨ESC⟩[31mred" in text
    if dialect in ("anthropic", "openai_responses"):  # the others were not asked for thoughts
        assert "The user wants files." in text
    web.screenshot(f"mitmweb-answer-{dialect}")


def test_tokens_have_ids_texts_and_logprobs_side_by_side(web: Browser):
    choose(web, "anthropic", "Response")
    text = view(web, "polar-tokens")
    assert "task-anthropic · turn 0 · trainable" in text
    assert "prompt (mask 0)" in text
    assert "sampled (mask 1)" in text
    assert "-0.1000" in text
    assert "0.905" in text
    web.screenshot("mitmweb-tokens")
    view(web, "auto")


def test_the_exchange_with_vllm_is_shown(web: Browser):
    choose(web, "openai_responses", "Response")
    text = view(web, "polar-vllm")
    assert '"return_token_ids": true' in text
    assert "choice 0, finish" in text
    view(web, "auto")


def frames(web: Browser, part: str) -> str:
    """The frames of the chosen flow's WebSocket, once this part is shown."""
    return web.until(lambda: (found := web.one(".flow-detail").text) and part in found and found, part)


def test_the_frames_of_a_websocket_are_shown_decoded(stage: Stage, web: Browser):
    _, body = CALLS["openai_responses"]
    asked = {"type": "response.create", **{name: value for name, value in body.items() if name != "stream"}}
    first, second = stage.talk("task-socket", [{**asked, "input": [], "generate": False}, asked])
    web.until(lambda: any("task-socket" in row.text for row in web.all(".flow-table tbody tr")), "its flow")
    row = next(row for row in web.all(".flow-table tbody tr") if "task-socket" in row.text)
    assert "task-socket · turn 0 · trainable" in row.text
    row.find_element("css selector", "td.col-path").click()
    web.until(lambda: next((a for a in web.all(".flow-detail nav a") if a.text == "WebSocket"), None), "tab").click()
    text = frames(web, "\nresponse.created")
    assert "response.create · nothing is sampled for it" in text
    assert "openai_responses · create · model gpt-x" in text
    assert "tools (1): bash" in text
    assert ASK in text
    assert 'response.output_text.delta  "Running it. </scrip' in text
    assert f"id {json.loads(second)['response']['id']} · status completed" in text
    assert '→ tool call bash\n{\n  "command": "ls -la"' in text
    assert "⟨ESC⟩[31mred" in text
    web.screenshot("mitmweb-websocket")
    pick(web, "polar-tokens")
    tokens = frames(web, "sampled (mask 1)")
    assert tokens.count("task-socket · turn 0 · trainable") == 1, "with the frame that ends its answer"
    pick(web, "polar-vllm")
    assert '"return_token_ids": true' in frames(web, "choice 0, finish")
    assert json.loads(first)["response"]["output"] == []


def test_a_refused_call_says_why(stage: Stage, web: Browser):
    assert stage.send("anthropic", "task-refused", messages=[]).status_code == 400
    row = web.until(
        lambda: next((r.text for r in web.all(".flow-table tbody tr") if "refused: 400" in r.text), None), "refusal"
    )
    assert "refused: 400 · messages" in row


def test_the_control_hosts_own_flows_are_not_shown(stage: Stage, web: Browser):
    address, _, token = stage.ready["web"].partition("?token=")
    with requests.Session() as client:
        client.trust_env = False
        proxies = {"http": stage.ready["proxy"]}
        for _ in range(3):
            assert client.get("http://polar.capture/health", proxies=proxies, timeout=10).status_code == 200
        end = time.monotonic() + 10
        while True:
            flows = client.get(address + "flows", headers={"authorization": f"Bearer {token}"}, timeout=10).json()
            if not [flow for flow in flows if flow["request"]["host"] == "polar.capture"]:
                break
            assert time.monotonic() < end
            time.sleep(0.1)
    assert len(flows) >= len(CALLS)


def test_the_token_opens_it_and_nothing_else_does(stage: Stage):
    address, _, token = stage.ready["web"].partition("?token=")
    with requests.Session() as client:
        client.trust_env = False
        assert client.get(address + "flows", timeout=10).status_code == 403
        assert (
            client.get(address + "flows", headers={"authorization": f"Bearer {token}"}, timeout=10).status_code == 200
        )


def test_old_flows_go(tmp_path: Path):
    with mitmweb(tmp_path, PASSWORD, polar_keep_flows=KEPT) as stage, requests.Session() as client:
        client.trust_env = False
        client.headers["authorization"] = f"Bearer {PASSWORD}"
        for _ in range(KEPT + 6):
            assert stage.send("openai_chat", "many").status_code == 200
        end = time.monotonic() + 10
        while len(flows := client.get(stage.ready["web"] + "flows", timeout=10).json()) > KEPT:
            assert time.monotonic() < end, f"{len(flows)} flows are kept"
            time.sleep(0.1)
        assert len(flows) == KEPT
        assert f"turn {KEPT + 5} " in flows[-1]["comment"]
