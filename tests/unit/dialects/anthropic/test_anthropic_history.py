"""The conversation of a Messages request: what reaches the engine of every block, and in which order."""

from typing import Any

import pytest

from polar_capture.chat import MediaPart, Message, TextPart, ToolCall
from polar_capture.chat_normal import normalise
from polar_capture.dialects.base import ParsedCall
from tests.unit.dialects.anthropic.build import LS, USER, ask, result, said, text, tool_use, used

CACHED = {"cache_control": {"type": "ephemeral"}}
PNG = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}
PNG_PART = MediaPart("image_url", {"url": "data:image/png;base64,iVBORw0KGgo="})
PDF = {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0xLjQ="}}


def everything(call: ParsedCall) -> str:
    """All that could reach the engine, as one string; ids of ours never do."""
    return repr([(m.role, m.content, m.reasoning, m.tool_calls, m.tool_call_id) for m in call.chat.messages])


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
