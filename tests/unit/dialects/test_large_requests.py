"""A request of many parts takes time in proportion: parsing runs in the proxy's event loop."""

import json
import time
from typing import Any

import pytest

from polar_capture.dialects import registry
from polar_capture.dialects.base import WireRequest

MANY = 8000
MESSAGES: list[dict[str, Any]] = [
    {"role": "user", "content": "x"},
    {
        "role": "assistant",
        "content": [{"type": "tool_use", "id": f"t{number}", "name": "f", "input": {}} for number in range(MANY)],
    },
    {
        "role": "user",
        "content": [{"type": "tool_result", "tool_use_id": f"t{number}", "content": "a"} for number in range(MANY)],
    },
]
CALLS = [{"id": f"c{n}", "type": "function", "function": {"name": "f", "arguments": "{}"}} for n in range(MANY)]
CHAT: list[dict[str, Any]] = [
    {"role": "user", "content": [{"type": "file", "file": {}}] * MANY},
    {"role": "assistant", "content": None, "tool_calls": CALLS},
    *({"role": "tool", "tool_call_id": f"c{number}", "content": "a"} for number in reversed(range(MANY))),
]
CONTENTS: list[dict[str, Any]] = [
    {"role": "user", "parts": [{"text": "x"}, {"fileData": {}}]},
    {"role": "model", "parts": [{"functionCall": {"id": f"c{n}", "name": "f", "args": {}}} for n in range(MANY)]},
    {
        "role": "user",
        "parts": [{"functionResponse": {"id": f"c{n}", "name": "f", "response": {}}} for n in reversed(range(MANY))],
    },
]
ITEMS: list[dict[str, Any]] = [
    {"role": "user", "content": [{"type": "input_image"}, {"type": "input_file", "file_id": "x"}] * MANY},
    *({"type": "function_call", "call_id": f"c{n}", "name": "f", "arguments": "{}"} for n in range(MANY)),
    *({"type": "function_call_output", "call_id": f"c{n}", "output": "z"} for n in reversed(range(MANY))),
]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/messages", {"max_tokens": 5, "messages": MESSAGES}),
        ("/v1/chat/completions", {"messages": CHAT}),
        ("/v1beta/models/m:generateContent", {"contents": CONTENTS}),
        ("/v1/responses", {"input": ITEMS}),
    ],
)
def test_parsing_takes_time_in_proportion(path: str, body: dict[str, Any]) -> None:
    found = registry.find("POST", path, "", {})
    assert found is not None
    dialect, route = found
    wire = WireRequest("POST", path, {}, {}, json.dumps({"model": "m", **body}).encode())
    began = time.process_time()
    call = dialect.parse(wire, route)
    assert time.process_time() - began < 2.0, "a quadratic step takes longer"
    assert len([message for message in call.chat.messages if message.role == "tool"]) == MANY
