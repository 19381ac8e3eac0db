"""The rule file: what it takes, what it refuses, which rule decides."""

from pathlib import Path

import pytest

from polar_capture import rules
from polar_capture.chat import Message
from polar_capture.config import ConfigError
from polar_capture.rules import Facts, Rule, Rules, When


def facts(**given: object) -> Facts:
    usual = {
        "harness": "opencode",
        "dialect": "anthropic",
        "agent": "aux:title",
        "kind": "side",
        "model": "claude-haiku-4-5",
        "path": "/v1/messages",
        "messages": [Message("system", "You write titles."), Message("user", "fix the test")],
    }
    return Facts(**(usual | given))  # type: ignore[arg-type]


def read(tmp_path: Path, text: str) -> Rules:
    file = tmp_path / "rules.toml"
    file.write_text(text)
    return rules.read(file)


@pytest.mark.parametrize(
    ("when", "holds"),
    [
        ({}, True),
        ({"agent": "aux:*"}, True),
        ({"agent": "aux:*", "harness": "opencode", "dialect": "anthropic", "kind": "side"}, True),
        ({"agent": "aux:*", "harness": "pi"}, False),
        ({"model": "claude-haiku-*"}, True),
        ({"model": "gpt-*"}, False),
        ({"path": "/v1/*"}, True),
        ({"contains": "write titles"}, True),
        ({"contains": "fix the test"}, True),
        ({"contains": "something else"}, False),
    ],
)
def test_all_conditions_must_hold(when: dict[str, str], holds: bool) -> None:
    rule = Rule("r", When(**when), trainable=False)
    assert (Rules((rule,)).find(facts()) is rule) is holds


def test_what_a_call_does_not_tell_fits_only_a_wild_card() -> None:
    assert Rules((Rule("r", When(harness="pi")),)).find(facts(harness=None)) is None
    assert Rules((Rule("r", When(harness="*")),)).find(facts(harness=None)) is not None


def test_the_first_rule_decides(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        """
        [[rule]]
        name = "titles"
        when = { agent = "aux:title" }
        upstream = "http://small:8000/v1/"
        model = "small"

        [[rule]]
        name = "all else"
        when = {}
        kind = "turn"
        trainable = true
        """,
    )
    first, second = found.rules
    assert found.find(facts()) is first
    assert first.diverts
    assert found.engines() == {("http://small:8000", "small")}
    assert found.find(facts(agent="main")) is second


def test_no_file_no_rules() -> None:
    assert rules.read(None) == Rules()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[[rule]]\nname = 'x'\n", "when"),
        ("[[rule]]\nname = 'x'\nwhen = {}\n", "'x' does nothing"),
        ("[[rule]]\nname = 'x'\nwhen = {agnet = 'a'}\ntrainable = false\n", "agnet"),
        ("[[rule]]\nname = 'x'\nwhen = {}\nkind = 'nested'\n", "nested"),
        ("[[rule]]\nname = 'x'\nwhen = {}\nmodel = 'm'\ntrainable = true\n", "'x' sends calls to another model"),
        ("[[rule]]\nname = 'x'\nwhen = {}\nupstream = 'ftp://a'\n", "ftp://a"),
        ("not toml", "rules.toml"),
    ],
)
def test_a_bad_file_is_refused_by_name(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        read(tmp_path, text)


def test_a_missing_file_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.toml: No such file"):
        rules.read(tmp_path / "none.toml")
