"""Which dialect answers which request line."""

import pytest

from polar_capture.dialects import registry
from polar_capture.dialects.base import Operation

OPENAI, CLAUDE, GEMINI = "api.openai.com", "api.anthropic.com", "generativelanguage.googleapis.com"
VERSION = {"anthropic-version": "2023-06-01"}
KEY = {"x-goog-api-key": "k"}


@pytest.mark.parametrize(
    ("method", "path", "host", "dialect"),
    [
        ("POST", "/v1/chat/completions", OPENAI, "openai_chat"),
        ("POST", "/chat/completions", "api.deepseek.com", "openai_chat"),
        ("POST", "/api/v1/chat/completions", "openrouter.ai", "openai_chat"),
        ("POST", "/openai/v1/chat/completions", "api.groq.com", "openai_chat"),
        ("POST", "/compatible-mode/v1/chat/completions", "dashscope.aliyuncs.com", "openai_chat"),
        ("POST", "/api/coding/paas/v4/chat/completions", "api.z.ai", "openai_chat"),
        ("POST", "/openai/deployments/gpt/chat/completions", "x.openai.azure.com", "openai_chat"),
        ("POST", "/v1beta/openai/chat/completions", GEMINI, "openai_chat"),
        ("POST", "/v1/responses", OPENAI, "openai_responses"),
        ("POST", "/v1/messages", CLAUDE, "anthropic"),
        ("POST", "/v1/messages/count_tokens", CLAUDE, "anthropic"),
        ("POST", "/anthropic/v1/messages", "api.deepseek.com", "anthropic"),
        ("POST", "/v1beta/models/m:generateContent", GEMINI, "google"),
        ("POST", "/v1/models/m:streamGenerateContent", GEMINI, "google"),
        ("POST", "/v1internal:streamGenerateContent", "cloudcode-pa.googleapis.com", "google"),
        ("GET", "/v1/models", OPENAI, "openai_chat"),
        ("GET", "/v1/models", CLAUDE, "anthropic"),
        ("GET", "/v1/models", GEMINI, "google"),
        ("GET", "/v1/models/m", CLAUDE, "anthropic"),
        ("GET", "/v1/models/m", GEMINI, "google"),
        ("GET", "/models", "api.deepseek.com", "openai_chat"),
        ("GET", "/v1beta/models", "", "google"),
    ],
)
def test_each_path_has_its_dialect(method: str, path: str, host: str, dialect: str) -> None:
    found = registry.find(method, path, host, {})
    assert found is not None
    assert found[0].name == dialect


@pytest.mark.parametrize(
    ("headers", "dialect"),
    [({}, "openai_chat"), (VERSION, "anthropic"), (KEY, "google"), ({"x-api-key": "k"}, "openai_chat")],
)
@pytest.mark.parametrize("path", ["/v1/models", "/v1/models/m"])
def test_headers_tell_on_the_base_url_gateway(headers: dict[str, str], dialect: str, path: str) -> None:
    found = registry.find("GET", path, "", headers)
    assert found is not None
    assert found[0].name == dialect
    assert found[1].operation in (Operation.LIST_MODELS, Operation.GET_MODEL)


@pytest.mark.parametrize(
    ("method", "path", "host", "dialect", "allowed"),
    [
        ("GET", "/v1/messages", CLAUDE, "anthropic", ["POST"]),
        ("POST", "/v1/messages/unknown", CLAUDE, "anthropic", []),
        ("POST", "/v1/messages/unknown", "", "anthropic", []),
        ("POST", "/v1/responses/x/unknown", "", "openai_responses", []),
        ("GET", "/v1/chat/completions", OPENAI, "openai_chat", ["POST"]),
        ("POST", "/api/event_logging", CLAUDE, "anthropic", []),
        ("POST", "/v1beta/nothing", GEMINI, "google", []),
        ("GET", "/v1beta/models/m:generateContent", GEMINI, "google", ["POST"]),
    ],
)
def test_o_errors_09_refusals_have_a_spokesman(
    method: str, path: str, host: str, dialect: str, allowed: list[str]
) -> None:
    assert registry.find(method, path, host, {}) is None
    assert registry.spokesman(path, host, {}).name == dialect
    assert registry.allowed(path, host, {}) == allowed


def test_every_dialect_is_found_by_its_name() -> None:
    names = [dialect.name for dialect in registry.DIALECTS]
    assert sorted(names) == ["anthropic", "google", "openai_chat", "openai_responses"]
    assert [registry.by_name(name).name for name in names] == names
    with pytest.raises(KeyError, match="there are: "):
        registry.by_name("smoke signals")


def test_hosts_are_listed_once() -> None:
    hosts = registry.provider_hosts()
    assert len(hosts) == len(set(hosts))
    assert {OPENAI, CLAUDE, GEMINI, "chatgpt.com", "cloudcode-pa.googleapis.com", "api.deepseek.com"} <= set(hosts)


@pytest.mark.parametrize(
    ("host", "served"),
    [
        ("x.openai.azure.com", True),
        ("API.OpenAI.com.", True),
        ("evilapi.openai.com", False),
        ("openai.azure.com", False),
    ],
)
def test_hosts_match_whole_labels(host: str, served: bool) -> None:
    assert registry.serves(registry.by_name("openai_chat"), host) is served


GENERATING = [
    "/v1/chat/completions",
    "/v1/responses",
    "/v1/responses/compact",
    "/v1/messages",
    "/v1/messages/count_tokens",
    "/v1beta/models/m:generateContent",
    "/v1/models/m:countTokens",
]


@pytest.mark.parametrize("path", GENERATING)
def test_no_two_dialects_generate_on_one_path(path: str) -> None:
    assert len([dialect.name for dialect in registry.DIALECTS if dialect.match("POST", path)]) == 1
