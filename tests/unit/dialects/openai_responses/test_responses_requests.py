"""What a Responses request asks of the engine. Names hold the field reports' ids (o-req-responses-NN)."""

from typing import Any

import pytest

from polar_capture.chat import MediaPart, Message, TextPart
from polar_capture.chat_normal import normalise
from polar_capture.faults import CallError, FaultKind
from tests.unit.dialects.openai_responses.build import EXEC, ask, raw, roles, spoken, user

IMAGE = "data:image/png;base64,iVBORw0KGgo="


def messages(**body: Any) -> list[Message]:
    """The canonical messages of a request."""
    return normalise(ask(**body).chat.messages)


def call(call_id: str, name: str = "exec", arguments: str = "{}", **more: Any) -> dict[str, Any]:
    return {"type": "function_call", "call_id": call_id, "name": name, "arguments": arguments, **more}


def output(call_id: str, value: Any = "done") -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": call_id, "output": value}


def thought(text: str, **more: Any) -> dict[str, Any]:
    return {"type": "reasoning", "summary": [{"type": "summary_text", "text": text}], **more}


def fault(**body: Any) -> CallError:
    with pytest.raises(CallError) as refused:
        ask(**body)
    return refused.value


def test_o_req_responses_01_developer_items_reach_the_engine_once_and_in_place() -> None:
    seen = messages(
        instructions="You are a coder.",
        input=[
            {
                "type": "message",
                "role": "developer",
                "content": [{"type": "input_text", "text": "The code word is KITE."}],
            },
            user("hi"),
            {"role": "developer", "content": "Sandbox: none."},
            user("go"),
        ],
    )
    assert [m.role for m in seen] == ["system", "user"]
    front, back = seen[0].content, seen[1].content
    assert isinstance(front, str)
    assert isinstance(back, str)
    assert front == "You are a coder.\n\nThe code word is KITE."
    assert back.index("hi") < back.index("Sandbox: none.") < back.index("go")
    assert back.count("Sandbox: none.") == 1


def test_o_req_responses_02_parallel_calls_are_one_assistant_message() -> None:
    seen = messages(input=[user("hi"), call("c1"), call("c2"), output("c1", "A"), output("c2", "B")], tools=[EXEC])
    assert [m.role for m in seen] == ["user", "assistant", "tool", "tool"]
    assert [c.id for c in seen[1].tool_calls] == ["c1", "c2"]
    assert [(m.tool_call_id, m.content) for m in seen[2:]] == [("c1", "A"), ("c2", "B")]


def test_one_assistant_turn_stays_one_message() -> None:
    seen = ask(
        input=[user("q"), thought("hm"), spoken("I look."), call("c1"), output("c1"), spoken("Done.")]
    ).chat.messages
    assert [m.role for m in seen] == ["user", "assistant", "tool", "assistant"]
    assert (seen[1].reasoning, seen[1].content, len(seen[1].tool_calls)) == ("hm", "I look.", 1)


@pytest.mark.parametrize(
    ("items", "sizes"),
    [
        ([call("a"), output("a"), call("b"), output("b")], [1, 1]),  # two turns, one call each
        ([thought("1"), call("a"), thought("2"), call("b"), output("a"), output("b")], [2]),  # interleaved thinking
        ([call("a"), spoken("in between"), output("a")], [1]),  # nothing may stand between a call and its output
        ([spoken("one"), thought("new"), call("a"), output("a")], [0, 1]),  # a thought begins a turn
    ],
)
def test_items_without_ids_of_ours_are_grouped_by_what_can_have_been_one_turn(
    items: list[Any], sizes: list[int]
) -> None:
    seen = ask(input=[user("q"), *items]).chat.messages
    assert [len(m.tool_calls) for m in seen if m.role == "assistant"] == sizes


def test_ids_of_ours_join_a_turn_whose_outputs_the_client_has_sorted_in_between() -> None:
    stem = "0198a0000000700080000000000000aa"
    items = [call(f"call_{stem}"), output(f"call_{stem}"), call(f"call_{stem}_1"), output(f"call_{stem}_1")]
    seen = ask(input=[user("q"), *items]).chat.messages
    assert [m.role for m in seen] == ["user", "assistant", "tool", "tool"]
    assert seen[1].echo == [f"call_{stem}", f"call_{stem}_1"]


def test_o_req_responses_05_a_tool_output_of_text_and_image() -> None:
    parts = [{"type": "input_text", "text": "shot"}, {"type": "input_image", "image_url": IMAGE}]
    seen = messages(input=[user("look"), call("c1", "view_image"), output("c1", parts)])
    assert seen[2].content == [TextPart("shot"), MediaPart("image_url", {"url": IMAGE})]


def test_o_req_responses_06_text_and_images_keep_their_order() -> None:
    parts = [
        {"type": "input_text", "text": "A"},
        {"type": "input_image", "image_url": IMAGE, "detail": "low"},
        {"type": "input_text", "text": "B"},
    ]
    (seen,) = messages(input=[{"type": "message", "role": "user", "content": parts}])
    assert seen.content == [TextPart("A"), MediaPart("image_url", {"url": IMAGE, "detail": "low"}), TextPart("B")]


def test_o_req_responses_07_short_forms() -> None:
    seen = messages(
        input=[
            {"role": "system", "content": "date: 2030-01-01"},
            {"role": "user", "content": [{"type": "input_text", "text": "hello"}]},
            {"role": "assistant", "content": [{"type": "output_text", "text": "hi there"}]},
            {"role": "user", "content": "again"},
        ]
    )
    assert [(m.role, m.content) for m in seen] == [
        ("system", "date: 2030-01-01"),
        ("user", "hello"),
        ("assistant", "hi there"),
        ("user", "again"),
    ]


def test_o_req_responses_08_empty_reasoning_items_add_no_message() -> None:
    empty = [
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": None},
        {"type": "reasoning", "id": "rs_2", "summary": None},
    ]
    call_ = ask(
        input=[user("hi"), *empty, spoken("yo"), user("go")], store=False, include=["reasoning.encrypted_content"]
    )
    assert roles(call_) == ["user", "assistant", "user"]
    assert call_.unmapped == []


def test_reasoning_that_only_its_provider_can_read_is_reported() -> None:
    sealed = {"type": "reasoning", "summary": [], "encrypted_content": "gAAAA-somebody-else"}
    assert ask(input=[user("hi"), sealed, spoken("yo")]).unmapped == ["$.input[1].encrypted_content"]


@pytest.mark.parametrize(
    "item",
    [
        thought("because"),
        {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "because"}]},
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "because"}], "content": None},
    ],
)
def test_reasoning_text_wherever_a_client_puts_it(item: dict[str, Any]) -> None:
    assert ask(input=[user("hi"), item, spoken("yo")]).chat.messages[1].reasoning == "because"


def test_an_agent_message_is_a_users_text() -> None:
    parts = [{"type": "input_text", "text": "From /root:"}, {"type": "encrypted_content", "encrypted_content": "do it"}]
    (seen,) = messages(input=[{"type": "agent_message", "author": "/root", "recipient": "/root/x", "content": parts}])
    assert (seen.role, seen.content) == ("user", "From /root:\ndo it")


def test_files_are_text_where_they_hold_text_else_omitted_and_reported() -> None:
    text_file = {"type": "input_file", "filename": "a.txt", "file_data": "data:text/plain;base64,S0lURQ=="}
    other = {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBERg=="}
    stored = {"type": "input_image", "file_id": "file-1"}
    seen = ask(input=[{"role": "user", "content": [text_file, other, stored]}])
    (message,) = normalise(seen.chat.messages)
    assert "KITE" in str(message.content)
    assert "[file a.pdf (application/pdf) omitted]" in str(message.content)
    assert seen.unmapped == ["$.input[0].content[1]", "$.input[0].content[2]"]


def test_o_req_responses_11_structured_output() -> None:
    schema = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}
    form = {"type": "json_schema", "name": "answer", "strict": True, "schema": schema}
    seen = ask(text={"verbosity": "low", "format": form})
    assert seen.chat.response_format == {
        "type": "json_schema",
        "json_schema": {"name": "answer", "strict": True, "schema": schema},
    }
    assert seen.unmapped == ["$.text.verbosity"]
    assert ask(text={"format": {"type": "json_object"}}).chat.response_format == {"type": "json_object"}
    assert ask(text={"format": {"type": "text"}}).chat.response_format is None


def test_sampling_and_switches() -> None:
    seen = ask(
        temperature=0.3,
        top_p=0.9,
        max_output_tokens=128000,
        reasoning={"effort": "none"},
        stream=True,
        seed=7,
        stop="END",
    )
    assert (seen.chat.sampling.temperature, seen.chat.sampling.top_p, seen.chat.sampling.max_tokens) == (
        0.3,
        0.9,
        128000,
    )
    assert (seen.chat.sampling.seed, seen.chat.sampling.stop) == (7, ["END"])
    assert (seen.chat.effort, seen.chat.thinking, seen.stream) == ("none", False, True)
    assert ask(stop=["", "END"]).chat.sampling.stop == ["END"], "an empty one would match everywhere"
    assert ask(reasoning={"effort": "high"}).chat.thinking is None
    assert ask(top_logprobs=3).chat.sampling.top_logprobs is None
    assert ask(top_logprobs=3, include=["message.output_text.logprobs"]).chat.sampling.top_logprobs == 3


def test_what_cannot_be_carried_over_is_listed_by_path() -> None:
    seen = ask(
        max_tool_calls=3,
        truncation="auto",
        context_management=[{"type": "compaction", "compact_threshold": 1000}],
        reasoning={"effort": "low", "context": "current_turn", "mode": "pro"},
        include=["file_search_call.results", "reasoning.encrypted_content"],
        input=[user("hi"), {"type": "brand_new", "data": 1}],
        brand_new=True,
        metadata={"a": "b"},
        store=False,
        truncated=None,
    )
    assert sorted(seen.unmapped) == [
        "$.brand_new",
        "$.context_management",
        "$.include[0]",
        "$.input[1]",
        "$.max_tool_calls",
        "$.reasoning.context",
        "$.reasoning.mode",
        "$.truncation",
    ]


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"background": True}, "background"),
        ({"conversation": "conv_1"}, "conversation"),
        ({"prompt": {"id": "pmpt_1"}}, "prompt"),
        ({"input": None}, "input"),
        ({"input": 5}, "input"),
        ({"input": [5]}, "input[0]"),
        ({"input": [{"role": "critic", "content": "x"}]}, "input[0].role"),
        ({"input": [{"type": "function_call", "call_id": "c", "name": 5}]}, "input[0].name"),
        ({"input": [{"type": "function_call_output", "output": "x"}]}, "input[0].call_id"),
        ({"input": [{"role": "user", "content": [{"type": "input_text"}]}]}, "input[0].content[0].text"),
        ({"temperature": "hot"}, "temperature"),
        ({"max_output_tokens": 0}, "max_output_tokens"),
        ({"top_logprobs": 21}, "top_logprobs"),
        ({"tools": [{"type": "function"}]}, "tools[0].name"),
        ({"tools": {"type": "function"}}, "tools"),
        ({"tool_choice": "sometimes"}, "tool_choice"),
        ({"tool_choice": {"type": "function", "name": "nope"}}, "tool_choice"),
        ({"text": {"format": {"type": "xml"}}}, "text.format.type"),
        ({"text": {"format": {"type": "json_schema", "schema": {}}}}, "text.format.name"),
    ],
)
def test_wrong_requests_are_refused_by_name(body: dict[str, Any], param: str) -> None:
    error = fault(**body)
    assert (error.fault.kind, error.fault.param) == (FaultKind.INVALID, param)
    assert param.split("[")[0].split(".")[0] in error.fault.message


def test_lone_surrogates_and_odd_text_survive() -> None:
    body = '{"model":"m","input":"a\\ud83d \\u2028\\u0000 \U0001f44d"}'.encode()
    assert raw(body).chat.messages[0].content == "a\ufffd \u2028\x00 \U0001f44d"
