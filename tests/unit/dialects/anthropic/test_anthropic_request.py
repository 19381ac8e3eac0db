"""Messages requests: what reaches the engine of every block, field and order."""

import json
from typing import Any

import jsonschema
import pytest

from polar_capture.chat import MediaPart, Message, TextPart, ToolCall
from polar_capture.chat_normal import normalise
from polar_capture.dialects.base import ParsedCall
from polar_capture.faults import CallError, FaultKind
from tests.unit.dialects.anthropic.build import DIALECT, LS, USER, ask, raw, result, said, tool_use, used

CACHED = {"cache_control": {"type": "ephemeral"}}
PNG = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}
PNG_PART = MediaPart("image_url", {"url": "data:image/png;base64,iVBORw0KGgo="})
PDF = {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0xLjQ="}}


def text(words: str, **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": words, **more}


def everything(call: ParsedCall) -> str:
    """All that could reach the engine, as one string; ids of ours never do."""
    return repr([(m.role, m.content, m.reasoning, m.tool_calls, m.tool_call_id) for m in call.chat.messages])


def fault_of(**body: Any) -> str:
    with pytest.raises(CallError) as caught:
        ask(**body)
    assert caught.value.fault.kind is FaultKind.INVALID
    return caught.value.fault.message


def test_o_req_anthropic_01_all_blocks_of_a_text_survive_and_cache_marks_vanish():
    call = ask(
        system=[text("Answer in French.", **CACHED), text("Use metric units.")],
        messages=[{"role": "user", "content": [text("first part"), text("second part", **CACHED)]}],
        tools=[{**LS, **CACHED}],
    )
    assert said(call) == [("system", "Answer in French.\nUse metric units."), ("user", "first part\nsecond part")]
    assert "cache_control" not in everything(call) + repr(call.chat.tools)
    assert call.unmapped == []


def test_o_req_anthropic_02_a_late_system_message_keeps_its_place_and_loses_its_role():
    call = ask(
        system="You are a coder.",
        messages=[USER, {"role": "system", "content": [text("Agent kinds: none.", **CACHED)]}],
    )
    assert said(call) == [("system", "You are a coder."), ("user", "hi"), ("system", "Agent kinds: none.")]
    normal = normalise(call.chat.messages)
    assert [message.role for message in normal] == ["system", "user"]
    assert str(normal[1].content).count("Agent kinds: none.") == 1


@pytest.mark.parametrize(
    "turns",
    [
        [[text("also check src"), result("a.txt")]],
        [[result("a.txt"), text("also check src")]],
        [[text("also check src")], [result("a.txt")]],
    ],
    ids=["text before", "text behind", "two user messages"],
)
def test_o_req_anthropic_03_tool_results_stand_directly_behind_their_calls(turns: list[list[dict[str, Any]]]):
    call = ask(
        tools=[LS],
        messages=[
            USER,
            {"role": "assistant", "content": [tool_use(dir=".")]},
            *({"role": "user", "content": blocks} for blocks in turns),
        ],
    )
    assert said(call) == [("user", "hi"), ("assistant", None), ("tool", "a.txt"), ("user", "also check src")]
    assert call.chat.messages[2].tool_call_id == call.chat.messages[1].tool_calls[0].id == "toolu_a"


def test_results_pass_a_system_message_that_stands_between_call_and_result():
    messages = used(result("x"))
    messages.insert(2, {"role": "system", "content": "note"})
    assert said(ask(messages=messages))[1:] == [("assistant", None), ("tool", "x"), ("system", "note")]


def test_parallel_results_keep_their_order_and_orphans_stay_where_they_are():
    call = ask(
        messages=[
            USER,
            {"role": "assistant", "content": [tool_use("toolu_a"), tool_use("toolu_b")]},
            {"role": "user", "content": [result("A"), text("mid"), result("B", "toolu_b")]},
            {"role": "user", "content": [text("late"), result("O", "toolu_gone")]},
        ]
    )
    assert said(call)[2:] == [("tool", "A"), ("tool", "B"), ("user", "mid"), ("tool", "O"), ("user", "late")]


def test_o_req_anthropic_04_an_image_in_a_tool_result_is_shown_behind_all_tool_messages():
    call = ask(
        messages=[
            USER,
            {"role": "assistant", "content": [tool_use("toolu_a"), tool_use("toolu_b")]},
            {"role": "user", "content": [result([text("done"), PNG]), text("look"), result("B", "toolu_b")]},
        ]
    )
    tool, other, user = call.chat.messages[2:]
    assert (tool.role, tool.content, other.content) == ("tool", "done\n[image: shown below]", "B")
    assert user.content == [PNG_PART, TextPart("look")]
    assert everything(call).count("iVBORw0KGgo=") == 1


def test_images_of_a_user_are_passed_on_in_place():
    url = {"type": "image", "source": {"type": "url", "url": "https://x.test/a.png"}}
    kept = {"type": "image", "source": {"type": "file", "file_id": "file_1"}}
    call = ask(messages=[{"role": "user", "content": [text("a"), text("b"), PNG, url, kept, text("c")]}])
    assert call.chat.messages[0].content == [
        TextPart("a\nb"),
        PNG_PART,
        MediaPart("image_url", {"url": "https://x.test/a.png"}),
        TextPart("[omitted: image (file)]\nc"),
    ]
    assert call.unmapped == ["$.messages[0].content[4].source"]


@pytest.mark.parametrize("content", [None, "", [], [text("")]], ids=["missing", "empty", "no block", "empty block"])
def test_o_req_anthropic_05_empty_tool_output_is_an_empty_string(content: Any):
    call = ask(messages=used(result(content), before=(text(""), tool_use(dir="."))))
    assert call.chat.messages[1:] == [
        Message("assistant", tool_calls=[ToolCall("toolu_a", "ls", '{"dir":"."}')], echo=["toolu_a"]),
        Message("tool", "", tool_call_id="toolu_a"),
    ]


def test_o_req_anthropic_06_redacted_thoughts_only_identify_their_turn():
    redacted = {"type": "redacted_thinking", "data": "b3BhcXVl"}
    call = ask(messages=used(result("x"), before=(redacted, tool_use(dir="."))))
    assert "b3BhcXVl" not in everything(call)
    assert [message.role for message in call.chat.messages] == ["user", "assistant", "tool"]
    assert call.chat.messages[1].echo == ["b3BhcXVl", "toolu_a"]
    assert len(call.chat.messages[1].tool_calls) == 1


def test_o_req_anthropic_07_earlier_thoughts_are_reasoning_and_not_content():
    thought = {"type": "thinking", "thinking": "I need a listing.", "signature": "s"}
    assistant = ask(messages=used(result("x"), before=(thought, tool_use(dir=".")))).chat.messages[1]
    assert (assistant.reasoning, assistant.content) == ("I need a listing.", None)
    assert assistant.echo == ["s", "toolu_a"]


def test_a_thought_shown_without_words_leaves_only_its_signature():
    thought = {"type": "thinking", "thinking": "", "signature": "s"}
    assistant = ask(messages=used(result("x"), before=(thought, text("Ok."), tool_use()))).chat.messages[1]
    assert (assistant.reasoning, assistant.content, assistant.echo) == (None, "Ok.", ["s", "toolu_a"])


def test_an_order_that_chat_cannot_keep_is_reported():
    call = ask(messages=used(result("x"), before=(tool_use(), text("after"))))
    assert call.chat.messages[1].content == "after"
    assert call.unmapped == ["$.messages[1].content"]


@pytest.mark.parametrize("prefill", ['{"a": ', [text('{"a": ')]], ids=["string", "block"])
def test_o_req_anthropic_08_a_prefill_is_continued_byte_for_byte(prefill: Any):
    call = ask(messages=[{"role": "user", "content": "Give JSON."}, {"role": "assistant", "content": prefill}])
    assert call.chat.continue_final
    assert said(call)[-1] == ("assistant", '{"a": ')


@pytest.mark.parametrize("content", ["", [], [text("")]])
def test_an_empty_prefill_is_a_new_turn(content: Any):
    call = ask(messages=[USER, {"role": "assistant", "content": content}])
    assert (said(call), call.chat.continue_final) == ([("user", "hi")], False)


@pytest.mark.parametrize(
    ("last", "message"),
    [
        ([tool_use()], "messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: toolu_a"),
        ([{"type": "thinking", "thinking": "hm", "signature": "s"}], "messages.1: a final assistant message must hold"),
    ],
)
def test_a_final_assistant_turn_that_cannot_be_continued_is_refused(last: list[dict[str, Any]], message: str):
    assert fault_of(messages=[USER, {"role": "assistant", "content": last}]).startswith(message)


def test_o_req_anthropic_09_neighbours_of_one_role_all_arrive_in_order():
    turns = [("user", "reminder: A"), ("user", "B"), ("assistant", "C"), ("assistant", "D"), ("user", "E")]
    call = ask(messages=[{"role": role, "content": content} for role, content in turns])
    assert said(call) == turns
    normal = normalise(call.chat.messages)
    assert [message.role for message in normal] == ["user", "assistant", "user"]
    words = "".join(str(message.content) for message in normal)
    assert [words.index(word) for word in "ABCDE"] == sorted(words.index(word) for word in "ABCDE")


@pytest.mark.parametrize(
    ("document", "words", "unmapped"),
    [
        (PDF, "[omitted: document application/pdf (base64)]", True),
        (
            {**PDF, "source": {"type": "url", "url": "https://x.test/a.pdf"}, "title": "A"},
            "A\n[omitted: document application/pdf (url)]",
            True,
        ),
        ({**PDF, "source": {"type": "file", "file_id": "f"}}, "[omitted: document application/pdf (file)]", True),
        (
            {**PDF, "source": {"type": "text", "media_type": "text/plain", "data": "words"}, "context": "C"},
            "C\nwords",
            False,
        ),
        ({**PDF, "source": {"type": "content", "content": [text("one"), text("two")]}}, "one\ntwo", False),
        ({**PDF, "source": {"type": "content", "content": "one"}}, "one", False),
    ],
    ids=["pdf", "url", "file", "text", "blocks", "string"],
)
@pytest.mark.parametrize("inside", [True, False], ids=["in a tool result", "in a user turn"])
def test_o_req_anthropic_10_documents_are_inlined_or_named_as_omitted(
    document: dict[str, Any], words: str, unmapped: bool, inside: bool
):
    blocks = [text("PDF read"), document]
    call = ask(messages=used(result(blocks)) if inside else [{"role": "user", "content": blocks}])
    assert call.chat.messages[-1].content == f"PDF read\n{words}"
    assert "JVBERi0xLjQ=" not in everything(call)
    assert bool(call.unmapped) is unmapped


def test_o_req_anthropic_11_schemas_arrive_untouched():
    schema = {
        "type": "object",
        "properties": {
            "span": {"$ref": "#/$defs/Span"},
            "n": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        },
        "required": ["span"],
        "$defs": {"Span": {"type": "object", "properties": {"kind": {"type": "string"}}}},
    }
    (tool,) = ask(tools=[{"name": "plan", "input_schema": schema}]).chat.tools
    assert tool.parameters == schema
    for number in (None, 3):
        jsonschema.validate({"span": {"kind": "w"}, "n": number}, tool.parameters)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"n": 3}, tool.parameters)


def test_o_req_anthropic_14_beta_fields_of_any_kind_are_reported_and_not_refused():
    call = ask(
        {"anthropic-beta": "some-beta-2030-01-01"},
        context_management={"edits": [{"type": "clear_thinking"}]},
        output_config={"effort": "high", "task_budget": {"type": "tokens", "total": 9}},
        thinking={"type": "adaptive", "display": "omitted"},
        metadata={"user_id": "u1"},
        service_tier="auto",
        future_field={"x": 1},
        absent=None,
        messages=[
            {"role": "user", "content": [text("hi", new_key=1), {"type": "hologram", "data": "x"}], "mood": "odd"}
        ],
    )
    assert (call.chat.effort, call.chat.thinking) == ("high", True)
    assert said(call) == [("user", "hi\n[omitted: hologram]")]
    assert sorted(call.unmapped) == [
        "$.context_management",
        "$.future_field",
        "$.messages[0].content[0].new_key",
        "$.messages[0].content[1]",
        "$.messages[0].mood",
        "$.output_config.task_budget",
        "$.service_tier",
        "$.thinking.display",
    ]


def test_o_req_anthropic_15_counting_reads_the_same_prompt_and_needs_no_limit():
    body: dict[str, Any] = {"model": "m", "system": "You are terse.", "tools": [LS], "messages": [USER]}
    counted = raw(json.dumps(body).encode(), path="/v1/messages/count_tokens")
    called = ask(**body)
    assert (counted.chat.messages, counted.chat.tools) == (called.chat.messages, called.chat.tools)
    answer = DIALECT.count(counted, 17)
    assert (answer.status, json.loads(answer.body)) == (200, {"input_tokens": 17})


@pytest.mark.parametrize(
    ("value", "thinking"),
    [
        (None, None),
        ({"type": "disabled"}, False),
        ({"type": "enabled", "budget_tokens": 1024}, True),
        ({"type": "adaptive"}, True),
        ({"type": "between_tools"}, True),
        ({"type": "telepathic"}, None),
    ],
)
def test_thinking_is_switched_as_asked(value: Any, thinking: bool | None):
    call = ask(thinking=value)
    assert call.chat.thinking is thinking
    assert ("$.thinking.budget_tokens" in call.unmapped) is (value is not None and "budget_tokens" in value)
    assert ("$.thinking.type" in call.unmapped) is (value == {"type": "telepathic"})


@pytest.mark.parametrize("place", ["output_config", "output_format"])
def test_structured_output_is_asked_of_the_engine(place: str):
    form: dict[str, Any] = {"type": "json_schema", "schema": {"type": "object"}}
    asked: dict[str, Any] = {place: {"format": form} if place == "output_config" else form}
    call = ask(**asked)
    assert call.chat.response_format == {
        "type": "json_schema",
        "json_schema": {"name": "output", "schema": {"type": "object"}, "strict": True},
    }
    assert call.unmapped == []


def test_sampling_is_read():
    call = ask(temperature=0.5, top_p=0.9, top_k=40, stop_sequences=["END", "\n\n"], max_tokens=7, stream=True)
    sampling = call.chat.sampling
    assert (sampling.temperature, sampling.top_p, sampling.top_k) == (0.5, 0.9, 40)
    assert (sampling.stop, sampling.max_tokens, call.stream) == (["END", "\n\n"], 7, True)


def test_effort_of_a_message_is_silent_only_where_it_repeats_the_requests():
    system = {"role": "system", "content": "env", "output_config": {"effort": "medium"}}
    assert ask(messages=[USER, system], output_config={"effort": "medium"}).unmapped == []
    assert ask(messages=[USER, system]).unmapped == ["$.messages[1].output_config.effort"]


@pytest.mark.parametrize(
    ("block", "words"),
    [
        (
            {"type": "search_result", "source": "s.test", "title": "T", "content": [text("found")], "citations": None},
            "T\ns.test\nfound",
        ),
        ({"type": "compaction", "content": "summary", "signature": "x"}, "summary"),
        ({"type": "fallback", "from": {}, "to": {}}, ""),
        (
            {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "q"}},
            '[server_tool_use: web_search {"query":"q"}]',
        ),
        (
            {
                "type": "web_search_tool_result",
                "tool_use_id": "srvtoolu_1",
                "content": [{"type": "web_search_result", "url": "u", "title": "t", "encrypted_content": "SECRET"}],
            },
            '[web_search_tool_result: [{"type":"web_search_result","url":"u","title":"t"}]]',
        ),
        (
            {"type": "mcp_tool_use", "id": "m", "name": "f", "server_name": "s", "input": {}},
            "[mcp_tool_use: f {}]",
        ),
        ({"type": "mcp_tool_result", "tool_use_id": "m", "content": [text("r")]}, "r"),
    ],
    ids=lambda value: value["type"] if isinstance(value, dict) else "",
)
def test_what_servers_did_is_readable_in_the_history(block: dict[str, Any], words: str):
    call = ask(messages=[USER, {"role": "assistant", "content": [block, text("so")]}, USER])
    assert said(call)[1] == ("assistant", f"{words}\nso".removeprefix("\n"))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("boom", "Error: boom"),
        ("Error: boom", "Error: boom"),
        ("<tool_use_error>boom", "<tool_use_error>boom"),
        ("", "Error"),
    ],
)
def test_a_failed_tool_says_so_once(content: str, words: str):
    assert said(ask(messages=used(result(content, is_error=True))))[-1] == ("tool", words)
    assert said(ask(messages=used(result(content, is_error=False))))[-1] == ("tool", content)


def test_o_capture_11_text_is_a_string_in_either_form_and_stays_so_beside_images():
    plain, blocks = ask(), ask(messages=[{"role": "user", "content": [text("hi")]}])
    assert plain.chat == blocks.chat
    turns = [{"role": "user", "content": [text("hi")]}, {"role": "assistant", "content": [text("yes")]}]
    later = ask(messages=[*turns, {"role": "user", "content": [PNG]}])
    assert later.chat.messages[:2] == [Message("user", "hi"), Message("assistant", "yes")]


def test_o_merge_03_arguments_keep_the_clients_key_order_and_spelling():
    call = ask(messages=used(result("x"), before=(tool_use(b=1, a="é", n=1.0, none=None),)))
    assert call.chat.messages[1].tool_calls[0].arguments == '{"b":1,"a":"é","n":1.0,"none":null}'


def test_o_merge_07_the_billing_line_is_dropped_and_a_quotation_of_it_stays():
    billing = "x-anthropic-billing-header: cc_version=1.2.3; cch={};"
    first, second = (ask(system=[text(billing.format(h)), text("You are a coder.")]) for h in ("aaaaa", "bbbbb"))
    assert first.chat == second.chat
    assert said(first)[0] == ("system", "You are a coder.")
    assert first.dropped == [
        {"rule": "claude-code-billing-header", "path": "$.system[0]", "text": billing.format("aaaaa")}
    ]
    quoting = ask(messages=[{"role": "user", "content": billing.format("aaaaa")}])
    assert (said(quoting), quoting.dropped) == ([("user", billing.format("aaaaa"))], [])


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
