"""What holds for every text, every argument, every order of blocks and every body."""

import json
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from polar_capture.chat import Message
from polar_capture.dialects.base import WireRequest
from polar_capture.faults import CallError, Fault, FaultKind
from tests.unit.dialects.anthropic.build import (
    DIALECT,
    LS,
    NOOP,
    USER,
    answer,
    ask,
    completion,
    minter,
    rebuilt,
    result,
    streamed,
)

WORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)
"""Any text that UTF-8 holds: U+2028, NUL and emoji among it."""

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(WORDS, JSON, max_size=4)
ARGUMENTS = OBJECTS.map(json.dumps) | OBJECTS.map(lambda value: json.dumps(value, ensure_ascii=False, indent=1)) | WORDS


@given(WORDS, WORDS, st.lists(ARGUMENTS, max_size=3), st.lists(st.sampled_from([None, NOOP, 7]), max_size=4))
def test_stream_and_json_say_the_same_and_come_back_as_they_were_sampled(
    content: str, reasoning: str, arguments: list[str], early: list[int | None]
):
    sampled = completion(content, reasoning, [("ls", one) for one in arguments])
    call = ask(tools=[LS])
    message = answer(call, sampled)
    again = rebuilt(streamed(call, sampled, *early))
    for made in (message, again):
        turns: list[dict[str, Any]] = [USER, {"role": "assistant", "content": made["content"]}]
        ids = [block["id"] for block in made["content"] if block["type"] == "tool_use"]
        turns.append({"role": "user", "content": [*(result("x", i) for i in ids), {"type": "text", "text": "on"}]})
        echo = ask(messages=turns).chat.messages[1]
        told = content if content.strip() or not arguments else ""  # the sampled turn is found by the ids of its calls
        assert (echo.content or "", echo.reasoning or "") == (told, reasoning)
        assert [same(a.arguments) for a in echo.tool_calls] == [same(one) for one in arguments]
        assert [a.id for a in echo.tool_calls] == ids


def same(arguments: str) -> Any:
    """Arguments by value; no arguments are the empty object."""
    try:
        return json.loads(arguments.strip() or "{}") or {}
    except ValueError:
        return arguments


BLOCKS = st.one_of(
    st.builds(lambda words: {"type": "text", "text": words}, WORDS),
    st.builds(lambda words: {"type": "thinking", "thinking": words, "signature": "s"}, WORDS),
    st.builds(lambda value: {"type": "tool_use", "id": "t", "name": "ls", "input": value}, OBJECTS),
    st.just({"type": "redacted_thinking", "data": "d"}),
)


@given(st.lists(BLOCKS, max_size=6))
def test_blocks_in_any_order_lose_nothing(blocks: list[dict[str, Any]]):
    numbered = [{**b, "id": f"t{i}"} if b["type"] == "tool_use" else b for i, b in enumerate(blocks)]
    message = ask(messages=[USER, {"role": "assistant", "content": numbered}, USER]).chat.messages[1]
    calls = [b for b in numbered if b["type"] == "tool_use"]
    texts = [b["text"] for b in numbered if b["type"] == "text" and b["text"]]
    thoughts = [b["thinking"] for b in numbered if b["type"] == "thinking" and b["thinking"]]
    assert (message.content or "") == "\n".join(texts)
    assert (message.reasoning or "") == "\n".join(thoughts)
    assert [json.loads(call.arguments) for call in message.tool_calls] == [b["input"] for b in calls]


@given(
    st.permutations([result("A", "a"), result("B", "b"), {"type": "text", "text": "t"}, {"type": "text", "text": "u"}])
)
def test_results_come_first_in_any_order_of_a_users_blocks(blocks: list[dict[str, Any]]):
    asked = [{"type": "tool_use", "id": i, "name": "ls", "input": {}} for i in "ab"]
    turns = [USER, {"role": "assistant", "content": asked}, {"role": "user", "content": blocks}]
    *tools, user = ask(messages=turns).chat.messages[2:]
    assert {(tool.role, tool.tool_call_id, tool.content) for tool in tools} == {("tool", "a", "A"), ("tool", "b", "B")}
    assert user == Message("user", "\n".join(b["text"] for b in blocks if b["type"] == "text"))


@given(st.text(st.characters(), max_size=40))
def test_texts_with_lone_surrogates_are_repaired_and_reported(words: str):
    call = ask(messages=[{"role": "user", "content": words}])
    content = str(call.chat.messages[0].content)
    content.encode()
    broken = any("\ud800" <= sign <= "\udfff" for sign in json.loads(json.dumps(words)))
    assert ("\ufffd" in content) or not broken
    assert broken is False or call.unmapped == ["$.messages[0].content"]


KEYS = [
    *("type", "role", "content", "text", "messages", "model", "max_tokens", "system", "tools", "tool_choice", "name"),
    *("input", "input_schema", "id", "tool_use_id", "thinking", "signature", "data", "source", "media_type", "url"),
    *("is_error", "output_config", "format", "schema", "metadata", "user_id", "diagnostics", "stop_sequences"),
    *("tool", "definition", "tool_references", "tool_name", "title", "context", "previous_message_id", "properties"),
    *("defer_loading", "effort", "stream", "temperature", "top_k", "cache_control", "output_format", "thread"),
]
NAMES = [
    *("text", "image", "document", "tool_use", "tool_result", "thinking", "redacted_thinking", "search_result"),
    *("tool_reference", "tool_addition", "tool_removal", "server_tool_use", "web_search_tool_result", "compaction"),
    *("mcp_tool_use", "mcp_tool_result", "tool_search_tool_result", "user", "assistant", "system", "base64", "content"),
    *("url", "file", "custom", "bash_20250124", "computer_20251124", "web_search_20250305", "json_schema", "tool"),
    *("any", "auto", "none", "enabled", "disabled", "tool_definition", "tool_search_tool_bm25_20251119", "{", ""),
]
LEAVES = st.sampled_from(NAMES) | st.none() | st.booleans() | st.integers(-2, 3) | st.floats() | st.text(max_size=3)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=6),
    max_leaves=40,
)
LIKELY = st.fixed_dictionaries(
    {"model": st.just("m"), "max_tokens": st.just(5)},
    optional={key: VALUES for key in KEYS if key not in ("model", "max_tokens")},
) | st.fixed_dictionaries(
    {
        "model": st.just("m"),
        "max_tokens": st.just(5),
        "messages": st.lists(
            st.fixed_dictionaries(
                {
                    "role": st.sampled_from(["user", "assistant", "system"]),
                    "content": WORDS
                    | st.lists(
                        st.fixed_dictionaries(
                            {"type": st.sampled_from(NAMES)}, optional={key: VALUES for key in KEYS if key != "type"}
                        ),
                        max_size=4,
                    ),
                }
            ),
            max_size=5,
        ),
    },
    optional={"tools": VALUES, "tool_choice": VALUES, "system": VALUES},
)


@settings(max_examples=100, suppress_health_check=[HealthCheck.too_slow])
@given(LIKELY | VALUES)
def test_no_body_raises_anything_but_a_clear_refusal(value: Any):
    route = DIALECT.match("POST", "/v1/messages")
    assert route is not None
    wire = WireRequest("POST", "/v1/messages", body=json.dumps(value).encode())
    fault = refusal(wire)
    if fault is not None:
        assert fault.kind is FaultKind.INVALID
        assert fault.message
        assert DIALECT.error(fault, wire).status == 400
    else:
        call = DIALECT.parse(wire, route)
        assert call.chat.messages
        rebuilt(streamed(call, completion()))


def refusal(wire: WireRequest) -> Fault | None:
    """The fault of a request that is not understood."""
    route = DIALECT.match("POST", "/v1/messages")
    assert route is not None
    try:
        DIALECT.parse(wire, route)
    except CallError as error:
        return error.fault
    return None


@given(st.binary(max_size=60))
def test_no_bytes_raise_anything_but_a_clear_refusal(body: bytes):
    fault = refusal(WireRequest("POST", "/v1/messages", body=body))
    assert fault is not None
    assert fault.kind is FaultKind.INVALID


def test_a_megabyte_of_text_survives():
    words = "é\u2028x😀" * 250_000
    sampled = completion(words)
    message = rebuilt(streamed(ask(), sampled))
    assert message["content"][0]["text"] == words
    assert DIALECT.reply(ask(), sampled, minter()).json().count("😀".encode()) == 250_000
