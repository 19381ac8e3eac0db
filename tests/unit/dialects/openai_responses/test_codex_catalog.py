"""Codex's model catalog: its own entries with our window and kind of tools."""

import json
from typing import Any

import pytest

from polar_capture.dialects.base import ModelCard, WireRequest
from polar_capture.dialects.codex_catalog import CodexCatalog
from polar_capture.dialects.openai_responses import OpenAIResponses

SHIPPED = {
    "models": [
        {
            "slug": "gpt-a",
            "tool_mode": "code_mode_only",
            "use_responses_lite": True,
            "context_window": 500000,
            "own": "text",
        },
        {"slug": "gpt-b", "tool_mode": None, "use_responses_lite": False, "context_window": 272000},
    ]
}
SOURCE = json.dumps(SHIPPED).encode()
CARDS = [ModelCard("tiny", 32768)]


def entries(catalog: CodexCatalog, cards: list[ModelCard] = CARDS) -> dict[str, Any]:
    body = catalog.body(cards)
    assert body is not None
    return {model["slug"]: model for model in json.loads(body)["models"]}


def test_without_a_source_codex_keeps_what_it_ships() -> None:
    assert CodexCatalog().body(CARDS) is None
    dialect = OpenAIResponses()
    route = dialect.match("GET", "/backend-api/codex/models")
    assert route is not None
    said = dialect.models(CARDS, WireRequest("GET", "/backend-api/codex/models"), route)
    assert (said.status, "error" in json.loads(said.body)) == (404, True)


def test_classic_tools_and_our_window() -> None:
    found = entries(CodexCatalog(SOURCE))
    assert list(found) == ["gpt-a", "gpt-b", "tiny"]
    for entry in found.values():
        assert (entry["tool_mode"], entry["use_responses_lite"]) == (None, False)
        assert entry["context_window"] == entry["max_context_window"] == 32768
    assert found["gpt-a"]["own"] == "text" == found["tiny"]["own"]


def test_native_tools_stay_as_they_are() -> None:
    found = entries(CodexCatalog(SOURCE, "native"))
    assert (found["gpt-a"]["tool_mode"], found["gpt-a"]["use_responses_lite"]) == ("code_mode_only", True)
    assert found["gpt-a"]["context_window"] == 32768


def test_an_unknown_window_changes_none() -> None:
    assert entries(CodexCatalog(SOURCE), [ModelCard("gpt-b")])["gpt-b"]["context_window"] == 272000


@pytest.mark.parametrize("source", [b"", b"[]", b"{}", b'{"models":[]}', b'{"models":[{"name":"x"}]}', b'{"models":5}'])
def test_a_source_that_is_no_catalog_is_refused(source: bytes) -> None:
    with pytest.raises(ValueError, match="codex debug models --bundled"):
        CodexCatalog(source)


def test_the_dialect_serves_it_where_codex_asks() -> None:
    dialect = OpenAIResponses(CodexCatalog(SOURCE))
    route = dialect.match("GET", "/backend-api/codex/models")
    assert route is not None
    said = dialect.models(CARDS, WireRequest("GET", "/backend-api/codex/models", host="chatgpt.com"), route)
    assert said.status == 200
    assert "tiny" in said.body.decode()
