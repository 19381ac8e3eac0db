"""Codex's catalog by version; everything else is for the dialects."""

import json
from pathlib import Path

import pytest

from polar_capture.dialects.base import ModelCard, WireRequest
from polar_capture.local_answers import LocalAnswers

CARDS = [ModelCard("policy", 32768)]
SHIPPED = {"models": [{"slug": "gpt-x", "display_name": "X", "tool_mode": "code", "use_responses_lite": True}]}


def asked(version: str = "1.2.3", path: str = "/backend-api/codex/models") -> WireRequest:
    return WireRequest("GET", path, query={"client_version": version}, host="chatgpt.com")


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    (tmp_path / "1.2.3").write_text(json.dumps(SHIPPED))
    (tmp_path / "1.2.4").write_text("no catalog")
    return tmp_path


def test_the_catalog_of_the_same_version_with_our_window_and_tools(cache: Path) -> None:
    answer = LocalAnswers(cache.__truediv__).answer(asked(), CARDS)
    assert answer is not None
    first, served = json.loads(answer.body)["models"]
    assert (first["context_window"], first["tool_mode"], first["use_responses_lite"]) == (32768, None, False)
    assert served["slug"] == "policy"
    native = LocalAnswers(cache.__truediv__, "native").answer(asked(), CARDS)
    assert native is not None
    assert json.loads(native.body)["models"][0]["tool_mode"] == "code"


@pytest.mark.parametrize("version", ["1.2.4", "9.9.9", "", "../1.2.3", "x" * 99])
def test_without_a_sound_catalog_the_bundled_one_stays(cache: Path, version: str) -> None:
    assert LocalAnswers(cache.__truediv__).answer(asked(version), CARDS) is None


def test_other_requests_are_not_ours(cache: Path) -> None:
    local = LocalAnswers(cache.__truediv__)
    assert local.answer(asked(path="/v1/models"), CARDS) is None
    assert local.answer(WireRequest("POST", "/backend-api/codex/models"), CARDS) is None
