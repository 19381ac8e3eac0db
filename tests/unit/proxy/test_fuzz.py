"""Any request through a real proxy: an answer or a refusal in the dialect's own shape, never a fault of ours, and no
provider is contacted."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.dialects.google.test_google_properties import SOUND as GOOGLE
from tests.unit.dialects.mutation import mutated
from tests.unit.dialects.openai_chat.test_chat_properties import SOUND as CHAT
from tests.unit.proxy.background import Background, background

MESSAGES: dict[str, Any] = {
    "model": "m",
    "max_tokens": 64,
    "system": [{"type": "text", "text": "S", "cache_control": {"type": "ephemeral"}}],
    "messages": [
        {"role": "user", "content": [{"type": "text", "text": "hi"}]},
        {"role": "system", "content": "Late."},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "hm", "signature": "AA=="},
                {"type": "text", "text": "ok"},
                {"type": "tool_use", "id": "toolu_1", "name": "ls", "input": {"dir": "a"}},
            ],
        },
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "toolu_1",
                    "is_error": True,
                    "content": [
                        {"type": "tool_reference", "tool_name": "late"},
                        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}},
                    ],
                }
            ],
        },
    ],
    "tools": [
        {"name": "ls", "description": "d", "input_schema": {"type": "object", "properties": {}}, "strict": True},
        {"name": "late", "input_schema": {"type": "object"}, "defer_loading": True},
        {"type": "bash_20250124", "name": "bash"},
        {"type": "web_search_20250305", "name": "web_search"},
    ],
    "tool_choice": {"type": "tool", "name": "ls", "disable_parallel_tool_use": True},
    "thinking": {"type": "adaptive", "display": "omitted"},
    "output_config": {"effort": "high", "format": {"type": "json_schema", "schema": {"type": "object"}}},
    "metadata": {"user_id": '{"session_id":"x"}'},
    "stop_sequences": ["a"],
    "temperature": 1,
    "stream": True,
}
RESPONSES: dict[str, Any] = {
    "model": "m",
    "instructions": "S",
    "input": [
        {"type": "additional_tools", "role": "developer", "tools": [{"type": "function", "name": "more"}]},
        {"role": "developer", "content": "D"},
        {"role": "user", "content": [{"type": "input_text", "text": "hi"}, {"type": "input_image", "image_url": "x"}]},
        {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "hm"}]},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "ok"}]},
        {"type": "function_call", "call_id": "c1", "name": "ls", "arguments": "{}"},
        {"type": "custom_tool_call", "call_id": "c2", "name": "patch", "input": "x"},
        {"type": "function_call_output", "call_id": "c1", "output": [{"type": "input_text", "text": "A"}]},
        {"type": "custom_tool_call_output", "call_id": "c2", "output": "A"},
        {"type": "local_shell_call", "id": "l", "call_id": "c3", "action": {"type": "exec", "command": ["ls"]}},
        {"type": "local_shell_call_output", "id": "c3", "output": "A"},
        {"type": "tool_search_call", "call_id": "c4", "arguments": {"query": "x"}},
        {"type": "tool_search_output", "call_id": "c4", "tools": [{"type": "function", "name": "found"}]},
        {"type": "web_search_call", "id": "w", "action": {"query": "x"}},
        {"type": "compaction", "encrypted_content": "x"},
    ],
    "tools": [
        {"type": "function", "name": "ls", "parameters": {"type": "object"}, "strict": True},
        {"type": "custom", "name": "patch", "format": {"type": "grammar", "syntax": "lark", "definition": "x"}},
        {"type": "namespace", "name": "ns", "tools": [{"type": "function", "name": "deep"}]},
        {"type": "local_shell"},
        {"type": "tool_search", "execution": "client"},
        {"type": "web_search"},
    ],
    "tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "ls"}]},
    "text": {"format": {"type": "json_schema", "name": "r", "schema": {"type": "object"}}},
    "reasoning": {"effort": "low", "summary": "auto"},
    "include": ["reasoning.encrypted_content"],
    "max_output_tokens": 64,
    "temperature": 1,
    "stream": True,
}
HOSTS = {
    "openai_chat": ("https://api.openai.com", "/v1/chat/completions", CHAT),
    "anthropic": ("https://api.anthropic.com", "/v1/messages", MESSAGES),
    "openai_responses": ("https://api.openai.com", "/v1/responses", RESPONSES),
    "google": ("https://generativelanguage.googleapis.com", "/v1beta/models/m:streamGenerateContent?alt=sse", GOOGLE),
}
FEW = settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))


@pytest.fixture(scope="module")
def running() -> Iterator[Background]:
    with background() as made:
        yield made
        assert made.internal_errors == 0
        assert {host for host, _ in made.dialled} <= {"127.0.0.1"}


def check(dialect: str, status: int, body: bytes, headers: dict[str, str]) -> None:
    """An answer, or an error as this provider says it."""
    if status == 200 and headers["content-type"].startswith("text/event-stream"):
        assert body.endswith(b"\n\n")
        return
    said = json.loads(body)
    if status == 200:
        assert said
        return
    assert 400 <= status < 500, (status, body)
    said = said[0] if isinstance(said, list) else said
    wanted = {
        "openai_chat": {"message", "type", "param", "code"},
        "openai_responses": {"message", "type", "param", "code"},
        "anthropic": {"type", "message"},
        "google": {"code", "message", "status"},
    }[dialect]
    assert wanted <= set(said["error"]), said
    assert said["error"]["message"]
    assert dialect != "anthropic" or said["type"] == "error"


@pytest.mark.parametrize("dialect", HOSTS)
def test_a_broken_body_is_answered_or_refused_as_the_provider_would(running: Background, dialect: str) -> None:
    host, path, sound = HOSTS[dialect]

    @FEW
    @given(mutated(sound))
    def holds(body: dict[str, Any]) -> None:
        status, answer, headers = running.answer("POST", host + path, data=json.dumps(body))
        check(dialect, status, answer, headers)
        assert running.internal_errors == 0

    holds()


@pytest.mark.parametrize("dialect", HOSTS)
def test_any_bytes_are_refused_as_the_provider_would(running: Background, dialect: str) -> None:
    host, path, _ = HOSTS[dialect]
    odd = st.sampled_from([b"", b"[]", b"null", b"1e999", b'{"a":' * 3000, b"\xff\xfe{}", b'"\\ud800"', b"{}{}"])
    codings = st.sampled_from(["", "gzip", "br", "zstd", "deflate", "gzip, br", "rot13", "\u00e9"])

    @FEW
    @given(st.binary(max_size=40) | odd, codings)
    def holds(body: bytes, coding: str) -> None:
        headers = {"content-encoding": coding.encode("ascii", "replace").decode()} if coding else {}
        status, answer, told = running.answer("POST", host + path, data=body, headers=headers)
        assert status != 200
        check(dialect, status, answer, told)

    holds()


@pytest.mark.parametrize("dialect", HOSTS)
def test_any_path_and_method_is_refused_as_the_provider_would(running: Background, dialect: str) -> None:
    host, path, _ = HOSTS[dialect]
    pieces = st.sampled_from(["v1", "v1beta", "models", "messages", "responses", "x", "..", "%2e%2e", "%00", "m:x", ""])
    paths = st.lists(pieces, max_size=4).map(lambda found: "/" + "/".join(found)) | st.just(path)
    methods = st.sampled_from(["GET", "PUT", "DELETE", "PATCH", "OPTIONS", "POST"])

    @FEW
    @given(methods, paths, st.text(st.characters(codec="ascii", categories=["L", "N"]), max_size=4))
    def holds(method: str, where: str, more: str) -> None:
        status, answer, _ = running.answer(method, f"{host}{where}{'&' if '?' in where else '?'}q={more}")
        assert status < 500
        assert status == 200 or json.loads(answer)["error"]["message"]

    holds()


@FEW
@given(st.lists(mutated({"type": "response.create", **RESPONSES}).map(json.dumps) | st.text(max_size=9), max_size=3))
def test_any_frame_of_a_socket_is_answered_by_events(running: Background, frames: list[str]) -> None:
    async def talk() -> None:
        url, via = "wss://api.openai.com/v1/responses", running.running.via("ws")
        async with running.running.client.ws_connect(url, proxy=via, ssl=running.running.ssl) as socket:
            for frame in frames:
                await socket.send_str(frame)
                ended = ("response.completed", "response.incomplete", "response.failed", "error")
                while json.loads(await socket.receive_str(timeout=20))["type"] not in ended:
                    pass

    running.do(talk())
    assert running.internal_errors == 0
