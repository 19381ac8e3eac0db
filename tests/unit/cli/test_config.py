"""Options that cannot work are refused when they are given, with the option, the value and the remedy."""

from pathlib import Path
from typing import Any

import pytest

from polar_capture.config import (
    ConfigError,
    ServeConfig,
    check_session_id,
    database_url,
    is_loopback,
    parse_sampling,
    parse_upstreams,
)


def config(**changes: Any) -> ServeConfig:
    return ServeConfig(**{"upstreams": ("http://127.0.0.1:8000",), "home": Path("/nowhere"), **changes})


def test_defaults_are_those_of_the_design() -> None:
    made = config()
    assert (made.host, made.port, made.egress, made.continuation, made.header_grace) == (
        "127.0.0.1",
        8080,
        "tunnel",
        "auto",
        2.0,
    )
    assert made.spool_folder == Path("/nowhere/spool")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"upstreams": ()}, ["--upstream", "POLAR_UPSTREAM"]),
        ({"host": "0.0.0.0"}, ["--host 0.0.0.0", "--key"]),
        ({"host": "::"}, ["--host ::", "--key"]),
        ({"host": "proxy.lan"}, ["--host proxy.lan", "--key"]),
        ({"key": ""}, ["--key is empty"]),
        ({"gateway_port": 0}, ["--gateway-port", "--key"]),
        ({"gateway_port": 70000, "key": "k"}, ["--gateway-port 70000"]),
        ({"port": -1}, ["--port -1"]),
        ({"control_port": 65536}, ["--control-port 65536"]),
        ({"egress": "open"}, ["--egress 'open'", "tunnel, block"]),
        ({"continuation": "always"}, ["--continuation 'always'", "auto, exact, off"]),
        ({"workers": 0}, ["--workers 0"]),
        ({"workers": 2, "web": True}, ["--web", "--workers 1"]),
        ({"workers": 3, "port": 65534}, ["--port 65534", "--workers 3"]),
        ({"header_grace": -0.1}, ["--header-grace -0.1"]),
        ({"header_grace": float("nan")}, ["--header-grace nan"]),
        ({"session_idle": 0}, ["--session-idle 0"]),
        ({"policy_version": -1}, ["--policy-version -1"]),
        ({"sampling": {"temperature": -1.0}}, ["temperature=-1.0", "at least 0"]),
    ],
)
def test_a_value_that_cannot_work_is_refused(changes: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(ConfigError) as refused:
        config(**changes)
    for word in words:
        assert word in str(refused.value)


def test_another_machine_may_reach_a_proxy_that_has_a_key() -> None:
    assert config(host="0.0.0.0", key="secret").host == "0.0.0.0"


@pytest.mark.parametrize(
    ("host", "loopback"),
    [("127.0.0.1", True), ("127.8.8.8", True), ("::1", True), ("localhost", True), ("10.0.0.1", False), ("x", False)],
)
def test_loopback(host: str, loopback: bool) -> None:
    assert is_loopback(host) is loopback


def test_sampling_is_read_with_its_types() -> None:
    given = parse_sampling(" temperature=1, top_k=-1 ,top_p=0.5,seed=7,")
    assert given == {"temperature": 1.0, "top_k": -1, "top_p": 0.5, "seed": 7}
    assert isinstance(given["top_k"], int)
    assert parse_sampling("") == {}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("heat=1", ["'heat' is unknown", "temperature"]),
        ("temperature", ["has no value"]),
        ("temperature=hot", ["temperature=hot", "a number"]),
        ("temperature=nan", ["temperature=nan"]),
        ("temperature=1,temperature=2", ["temperature twice"]),
        ("top_p=0", ["above 0 and at most 1"]),
        ("top_k=2.5", ["an integer"]),
        ("max_tokens=0", ["at least 1"]),
        ("presence_penalty=3", ["at most 2"]),
    ],
)
def test_bad_sampling_is_named(text: str, words: list[str]) -> None:
    with pytest.raises(ConfigError) as refused:
        parse_sampling(text)
    for word in words:
        assert word in str(refused.value)


def test_upstreams_are_split_normalised_and_listed_once() -> None:
    given = parse_upstreams(["http://a:8000/v1/ , http://b/", "http://a:8000", "https://c/engines/1/v1"])
    assert given == ("http://a:8000", "http://b", "https://c/engines/1")


@pytest.mark.parametrize("text", ["localhost:8000", "ftp://x", "http://", "http://h:99999", "http://h:0"])
def test_what_is_no_engine_url_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="--upstream"):
        parse_upstreams([text])


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("polar.db", "sqlite:///{cwd}/polar.db"),
        ("sqlite:///polar.db", "sqlite:///{cwd}/polar.db"),
        ("sqlite:////tmp/x.db", "sqlite:////tmp/x.db"),
        ("/tmp/x.db", "sqlite:////tmp/x.db"),
        ("postgres://u:p@h/n", "postgresql+psycopg://u:p@h/n"),
        ("postgresql+psycopg://h/n?host=/sock", "postgresql+psycopg://h/n?host=/sock"),
    ],
)
def test_databases(text: str, url: str) -> None:
    assert database_url(text) == url.format(cwd=Path.cwd())


@pytest.mark.parametrize("text", ["", "mysql://h/n", "sqlite://", "sqlite:///:memory:", "postgresql+asyncpg://h/n"])
def test_other_databases_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="--db"):
        database_url(text)


@pytest.mark.parametrize("text", ["", "a b", "a/b", "a:b", "ü", "x" * 129])
def test_what_is_no_session_id_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="session id"):
        check_session_id(text)


def test_a_session_id_is_kept_as_it_is() -> None:
    assert check_session_id("run-1.a_B" + "x" * 119) == "run-1.a_B" + "x" * 119
