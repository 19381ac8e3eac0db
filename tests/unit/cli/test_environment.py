"""What a harness gets in its environment, and what it never gets."""

import os
import shutil
import subprocess
from pathlib import Path
from urllib.parse import unquote, urlsplit

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polar_capture import environment as env
from polar_capture.config import ConfigError
from polar_capture.trust import CA_VARIABLES

BUNDLE = Path("/home/me/.polar-capture/ca-bundle.pem")


def endpoint(session: str = "s-1", key: str | None = None, proxy: str = "http://127.0.0.1:8080") -> env.Endpoint:
    return env.Endpoint(proxy, BUNDLE, session, key)


def test_both_spellings_of_both_proxies_carry_the_session() -> None:
    made = env.variables(endpoint(), {})
    for name in ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy"):
        assert urlsplit(made[name]).username == "s-1"
        assert urlsplit(made[name]).port == 8080


def test_node_s_own_fetch_is_told_to_use_the_proxy() -> None:
    assert env.variables(endpoint(), {})["NODE_USE_ENV_PROXY"] == "1"


def test_credentials_always_have_a_password() -> None:
    """undici sends none of them otherwise."""
    assert urlsplit(endpoint().url).password
    assert urlsplit(endpoint(key="k").url).password == "k"


@given(st.text(st.characters(codec="utf-8"), min_size=1))
def test_any_key_survives_the_url(key: str) -> None:
    password = urlsplit(endpoint(key=key).url).password
    assert password is not None
    assert unquote(password) == key


def test_loopback_stays_local_and_an_old_no_proxy_cannot_lead_past_the_proxy() -> None:
    made = env.child_environment(endpoint(), {"NO_PROXY": "*", "no_proxy": "api.anthropic.com"})
    for name in ("NO_PROXY", "no_proxy"):
        assert set(made[name].split(",")) == {"localhost", "127.0.0.1", "::1"}


def test_o_transport_07_every_ca_variable_names_the_bundle() -> None:
    made = env.variables(endpoint(), {})
    assert {made[name] for name in CA_VARIABLES} == {str(BUNDLE)}
    assert {"NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CODEX_CA_CERTIFICATE"} <= set(CA_VARIABLES)


@pytest.mark.parametrize(
    ("already", "dummy"),
    [
        ({}, {"ANTHROPIC_API_KEY", "OPENAI_API_KEY", "CODEX_API_KEY", "GEMINI_API_KEY", "LLM_API_KEY"}),
        ({"ANTHROPIC_API_KEY": "mine"}, {"OPENAI_API_KEY"}),
        ({"ANTHROPIC_AUTH_TOKEN": "mine"}, {"OPENAI_API_KEY"}),
        ({"GOOGLE_API_KEY": "mine"}, {"OPENAI_API_KEY"}),
        ({"OPENAI_API_KEY": ""}, {"OPENAI_API_KEY"}),
    ],
)
def test_dummy_keys_stand_in_only_where_no_key_is(already: dict[str, str], dummy: set[str]) -> None:
    made = env.child_environment(endpoint(), already)
    assert all(made[name] == env.DUMMY_KEY for name in dummy)
    assert all(made[name] == value for name, value in already.items() if value)
    if "ANTHROPIC_AUTH_TOKEN" in already:
        assert "ANTHROPIC_API_KEY" not in made  # both at once make Claude Code complain
    if "GOOGLE_API_KEY" in already:
        assert "GEMINI_API_KEY" not in made


def test_nothing_of_ours_is_handed_down() -> None:
    ours = {"POLAR_CONTROL_TOKEN": "t", "POLAR_DB": "postgresql://u:p@h/n", "POLAR_KEY": "k", "POLAR_PROXY": "x"}
    made = env.child_environment(endpoint(), {**ours, "PATH": "/bin"})
    assert made["PATH"] == "/bin"
    assert not [name for name in made if name.startswith("POLAR_")]


def test_an_evaluator_has_no_session_proxy_and_no_secrets() -> None:
    made = env.evaluator_environment({"PATH": "/bin", "POLAR_CONTROL_TOKEN": "t", "POLAR_DB": "d"}, "s-1")
    assert made == {"PATH": "/bin", "POLAR_SESSION": "s-1"}


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("http://127.0.0.1:8080", ("http://127.0.0.1:8080", None)),
        ("127.0.0.1:8080", ("http://127.0.0.1:8080", None)),
        ("http://anyone:k%40y@gpu:9/", ("http://gpu:9", "k@y")),
        ("http://[::1]:8080", ("http://[::1]:8080", None)),
    ],
)
def test_proxy_addresses(text: str, address: tuple[str, str | None]) -> None:
    assert env.proxy_address(text) == address


@pytest.mark.parametrize("text", ["http://host", "https://h:1", "http://h:x", "socks5://h:1", ""])
def test_what_is_no_proxy_address_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="--proxy"):
        env.proxy_address(text)


AWKWARD = {"PLAIN": "x", "QUOTED": 'a\'b "c" $HOME `id` \\ ; end'}


@pytest.mark.parametrize("shell", ["sh", "bash", "fish", "pwsh"])
def test_a_shell_reads_the_lines_back(shell: str) -> None:
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"{shell} is not installed")
    syntax = {"bash": "sh", "pwsh": "powershell"}.get(shell, shell)
    text = env.render(AWKWARD, ("GONE",), syntax)
    read = subprocess.run(
        [program, "-c", text + "\nenv"], env={"GONE": "1", "PATH": os.environ["PATH"]}, capture_output=True, text=True
    )
    lines = read.stdout.splitlines()
    assert read.stderr == ""
    assert {f"{name}={value}" for name, value in AWKWARD.items()} <= set(lines)
    assert "GONE=1" not in lines


def test_fish_and_powershell_quote_in_their_own_way() -> None:
    assert env.render({"A": "it's \\"}, ("B",), "fish") == "set -gx A 'it\\'s \\\\'\nset -e B"
    assert env.render({"A": "it's"}, ("B",), "powershell").splitlines()[0] == "$env:A = 'it''s'"


def test_json_holds_the_values_alone() -> None:
    assert msgspec.json.decode(env.render(AWKWARD, ("GONE",), "json")) == AWKWARD
