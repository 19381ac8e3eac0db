import re

import pytest

from polar_capture.egress import Egress, Verdict, is_local


@pytest.mark.parametrize(
    "host",
    [
        *("localhost", "localhost.", "a.localhost", "127.0.0.1", "127.1", "0x7f000001", "2130706433", "0.0.0.0"),
        *("::1", "[::1]", "::ffff:127.0.0.1", "169.254.169.254", "fe80::1%eth0", ""),
    ],
)
def test_every_spelling_of_this_machine_is_local(host):
    assert is_local(host)


@pytest.mark.parametrize("host", ["example.com", "8.8.8.8", "abc.de", "2606:4700::1111", "localhost.example.com"])
def test_others_are_not(host):
    assert not is_local(host)


def policy(*, block=False) -> Egress:
    return Egress(["api.anthropic.com", ".openai.azure.com"], block=block)


@pytest.mark.parametrize(
    ("host", "block", "verdict"),
    [
        ("api.anthropic.com", False, Verdict.INTERCEPT),
        ("API.Anthropic.com.", True, Verdict.INTERCEPT),
        ("x.openai.azure.com", False, Verdict.INTERCEPT),
        ("polar.capture", True, Verdict.INTERCEPT),
        ("github.com", False, Verdict.TUNNEL),
        ("github.com", True, Verdict.REFUSE),
        ("127.0.0.1", False, Verdict.REFUSE),
        ("notapi.anthropic.com.evil.org", False, Verdict.TUNNEL),
    ],
)
def test_connect(host, block, verdict):
    assert policy(block=block).connect(host) is verdict


def test_mitmproxys_patterns_say_the_same():
    patterns = [re.compile(p, re.IGNORECASE) for p in policy().allow_hosts()]

    def intercepted(host: str) -> bool:
        return any(p.search(f"{host}:443") for p in patterns)

    assert intercepted("api.anthropic.com")
    assert intercepted("x.openai.azure.com")
    assert not intercepted("github.com")
    assert not intercepted("api.anthropic.com.evil.org")
