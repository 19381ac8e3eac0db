"""Faults as each official SDK raises them: by its own class, with the provider's words, before and inside a stream."""

from typing import Any

import anthropic
import openai
import pytest
from google.genai import errors as google_errors

from tests.sdk.clients import WAYS, JavaScriptError, Way
from tests.sdk.javascript import Node
from tests.sdk.openai_client import ResponseFailed
from tests.sdk.scenarios import Asked
from tests.sdk.stage import Stage
from tests.sdk.test_answers import session_of

WORDS = {
    "chat": "This model's maximum context length is 65536 tokens",
    "responses": "Your input exceeds the context window of this model",
    "messages": "prompt is too long: 70000 tokens > 65536 maximum",
    "google": "The input token count (70000) exceeds the maximum number of tokens allowed (65536)",
}
"""What a client reads of a prompt that does not fit: the provider's own sentence."""
CODES = {"chat": "context_length_exceeded", "responses": "context_length_exceeded"}
STREAMS = [way for way in WAYS if way.streams]


def raised(stage: Stage, node: Node, way: Way, scenario: str) -> dict[str, Any]:
    """The SDK's error as {name, status, code, type, message}, whatever the language."""
    session = session_of(way, scenario)
    try:
        told = way.ask(stage, node, session, Asked(scenario, mark=session))
    except JavaScriptError as error:
        return error.said | {"session": session}
    except ResponseFailed as error:
        return _said(error, None, error.code, None, error.message) | {"session": session}
    except openai.APIError as error:
        status = getattr(error, "status_code", None)
        return _said(error, status, error.code, error.type, error.message) | {"session": session}
    except anthropic.APIStatusError as error:
        return _said(error, error.status_code, None, error.type, error.message) | {"session": session}
    except google_errors.APIError as error:
        return _said(error, error.code, None, error.status, error.message or "") | {"session": session}
    pytest.fail(f"no error, but {told}")


def _said(error: Exception, status: Any, code: Any, kind: Any, message: str) -> dict[str, Any]:
    return {"name": type(error).__name__, "status": status, "code": code, "type": kind, "message": message}


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_a_prompt_that_does_not_fit(stage: Stage, node: Node, way: Way) -> None:
    said = raised(stage, node, way, "overflow")
    assert said["status"] == 400
    assert WORDS[way.api] in said["message"]
    assert said["name"] in ("BadRequestError", "ClientError", "ApiError")
    if way.api in CODES:
        assert said["code"] == CODES[way.api]
    (row,) = stage.calls(said["session"])
    assert (row["status"], row["http_status"], row["trainable"]) == ("error", 400, False)


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_an_engine_that_is_busy_keeps_its_status(stage: Stage, node: Node, way: Way) -> None:
    said = raised(stage, node, way, "busy")
    assert said["status"] == 503
    assert said["name"] in ("InternalServerError", "ServiceUnavailableError", "ServerError", "ApiError")


@pytest.mark.parametrize("way", STREAMS, ids=str)
def test_a_fault_in_the_middle_of_a_stream_is_its_error_event(stage: Stage, node: Node, way: Way) -> None:
    said = raised(stage, node, way, "broken")
    assert "the engine died" in said["message"]
    assert stage.asked_for(said["session"]).status == 500
    (row,) = stage.calls(said["session"])
    assert (row["status"], row["trainable"]) == ("error", False)
