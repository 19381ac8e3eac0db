"""Messages requests that are wrong: refused by the name of the field, in the words that clients know."""

from typing import Any

import pytest

from polar_capture.faults import CallError, FaultKind
from tests.unit.dialects.anthropic.build import USER, ask, raw, result, said, text, tool_use, used


def fault_of(**body: Any) -> str:
    with pytest.raises(CallError) as caught:
        ask(**body)
    assert caught.value.fault.kind is FaultKind.INVALID
    return caught.value.fault.message


@pytest.mark.parametrize(
    ("last", "message"),
    [
        ([tool_use()], "messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: toolu_a"),
        ([{"type": "thinking", "thinking": "hm", "signature": "s"}], "messages.1: a final assistant message must hold"),
    ],
)
def test_a_final_assistant_turn_that_cannot_be_continued_is_refused(last: list[dict[str, Any]], message: str):
    assert fault_of(messages=[USER, {"role": "assistant", "content": last}]).startswith(message)


def test_threads_are_refused_in_the_words_that_make_pi_resend_in_full():
    assert fault_of(thread={"type": "create"}) == "thread: Extra inputs are not permitted"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"model": None}, "model: Field required"),
        ({"max_tokens": None}, "max_tokens: Field required"),
        ({"max_tokens": 0}, "max_tokens: Input should be greater than or equal to 1"),
        ({"max_tokens": "many"}, "max_tokens: Input should be a valid integer"),
        ({"max_tokens": True}, "max_tokens: Input should be a valid integer"),
        ({"temperature": "hot"}, "temperature: Input should be a valid number"),
        ({"stream": 1}, "stream: Input should be a valid boolean"),
        ({"stop_sequences": [""]}, "stop_sequences.0: each stop sequence must contain at least one character"),
        ({"stop_sequences": "END"}, "stop_sequences: Input should be a valid list"),
        ({"system": 5}, "system: Input should be a valid list"),
        ({"system": [{"text": "x"}]}, "system.0.type: Field required"),
        ({"thinking": "on"}, "thinking: Input should be a valid dictionary"),
        ({"metadata": "u1"}, "metadata: Input should be a valid dictionary"),
        ({"messages": None}, "messages: Field required"),
        ({"messages": []}, "messages: at least one message is required"),
        ({"messages": ["hi"]}, "messages.0: Input should be a valid dictionary"),
        ({"messages": [{"role": "user"}]}, "messages.0.content: Field required"),
        ({"messages": [{"role": "user", "content": 5}]}, "messages.0.content: Input should be a valid list"),
        ({"messages": [{"role": "judge", "content": "x"}]}, "messages.0.role: Input should be 'user', 'assistant' or"),
        (
            {"messages": [{"role": "user", "content": [text("a"), {"type": "text", "text": 3}]}]},
            "messages.0.content.1.text: Input should be a valid string",
        ),
        (
            {"messages": [{"role": "user", "content": [tool_use()]}]},
            "messages.0.content.0: `tool_use` blocks can only be in `assistant` messages",
        ),
        (
            {"messages": [USER, {"role": "assistant", "content": [result("x")]}, USER]},
            "messages.1.content.0: `tool_result` blocks can only be in `user` messages",
        ),
        (
            {"messages": used(result("x"), before=({**tool_use(), "input": "{}"},))},
            "messages.1.content.0.input: Input should be a valid dictionary",
        ),
        ({"messages": used({"type": "tool_result"})}, "messages.2.content.0.tool_use_id: Field required"),
        ({"output_config": {"effort": 3}}, "output_config.effort: Input should be a valid string"),
        (
            {"output_config": {"format": {"type": "json_schema"}}},
            "output_config.format.schema: Field required",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_wrong_types_are_refused_by_the_name_of_the_field(body: dict[str, Any], message: str):
    assert fault_of(**body).startswith(message)


@pytest.mark.parametrize("body", [b"{not json", b"[]", b"", b'"x"', b"\xff\xfe", b'{"a":1e999}', b"[" * 100_000])
def test_o_errors_09_what_is_no_json_object_is_refused(body: bytes):
    with pytest.raises(CallError) as caught:
        raw(body)
    assert caught.value.fault.kind is FaultKind.INVALID


def test_lone_surrogates_become_replacement_characters_and_are_reported():
    body = b'{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"cut \\ud83d off"}]}'
    call = raw(body)
    assert said(call) == [("user", "cut \ufffd off")]
    assert call.unmapped == ["$.messages[0].content"]
    whole = raw(body.replace(b"\\ud83d", b"\\ud83d\\ude00 \\u2028 \\u0000"))
    assert (said(whole), whole.unmapped) == ([("user", "cut 😀 \u2028 \x00 off")], [])
