"""Contents and parts → messages."""

import base64
from typing import Any

import pytest

from polar_capture.chat import MediaPart, TextPart
from tests.unit.dialects.google.build import HI, ask


def test_o_req_google_04_every_response_of_a_content_counts() -> None:
    contents = [
        HI,
        {
            "role": "model",
            "parts": [
                {"text": "ok"},
                {"functionCall": {"name": "ls", "args": {"dir": "a"}}},
                {"functionCall": {"name": "cat", "args": {"f": "b"}}},
            ],
        },
        {
            "role": "user",
            "parts": [
                {"functionResponse": {"name": "ls", "response": {"output": "A"}}},
                {"functionResponse": {"name": "cat", "response": {"output": "B"}}},
                {"text": "continue"},
            ],
        },
    ]
    messages = ask(contents=contents).chat.messages
    assert [m.role for m in messages] == ["user", "assistant", "tool", "tool", "user"]
    assert messages[1].content == "ok"
    first, second = messages[1].tool_calls
    assert (messages[2].tool_call_id, messages[2].content) == (first.id, "A")
    assert (messages[3].tool_call_id, messages[3].content) == (second.id, "B")
    assert first.id != second.id
    assert messages[4].content == "continue"


def turn(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"role": "model", "parts": list(parts)}


def call_part(name: str, call_id: str | None = None, **args: Any) -> dict[str, Any]:
    return {"functionCall": {"name": name, "args": args} | ({"id": call_id} if call_id else {})}


def result(name: str, said: Any, call_id: str | None = None) -> dict[str, Any]:
    response = said if isinstance(said, dict) else {"output": said}
    return {"functionResponse": {"name": name, "response": response} | ({"id": call_id} if call_id else {})}


@pytest.mark.parametrize("with_ids", [True, False])
def test_parallel_calls_of_one_name_are_matched_in_order(with_ids: bool) -> None:
    ids = ["i1", "i2"] if with_ids else [None, None]
    results = [result("ls", said, call_id) for said, call_id in zip("AB", ids, strict=True)]
    if with_ids:
        results.reverse()
    contents = [HI, turn(call_part("ls", ids[0], d=1), call_part("ls", ids[1], d=2)), {"parts": results}]
    messages = ask(contents=contents).chat.messages
    said = {m.tool_call_id: m.content for m in messages if m.role == "tool"}
    assert [said[call.id] for call in messages[1].tool_calls] == ["A", "B"]


def test_results_in_several_contents_and_the_function_role() -> None:
    contents = [
        HI,
        turn(call_part("ls"), call_part("cat")),
        {"role": "function", "parts": [result("cat", "B")]},
        {"role": "tool", "parts": [result("ls", "A")]},
    ]
    messages = ask(contents=contents).chat.messages
    ls, cat = messages[1].tool_calls
    assert [(m.tool_call_id, m.content) for m in messages[2:]] == [(cat.id, "B"), (ls.id, "A")]


def test_a_result_of_nothing_stays() -> None:
    assert ask(contents=[HI, {"parts": [result("ls", "A", "gone")]}]).chat.messages[1].tool_call_id == "gone"


@pytest.mark.parametrize(
    ("response", "said"),
    [
        ({"output": "A"}, "A"),
        ({"result": "A"}, "A"),
        ({"name": "ls", "content": "A"}, "A"),
        ({"error": "E"}, '{"error":"E"}'),
        ({"output": {"a": 1}}, '{"output":{"a":1}}'),
        ({"output": "A", "code": 1}, '{"output":"A","code":1}'),
        ({}, "{}"),
    ],
)
def test_the_one_text_of_a_result_is_unwrapped(response: dict[str, Any], said: str) -> None:
    assert (
        ask(contents=[HI, turn(call_part("ls")), {"parts": [result("ls", response)]}]).chat.messages[2].content == said
    )


def test_a_result_may_hold_an_image() -> None:
    part = result("ls", "see")
    part["functionResponse"]["parts"] = [{"inlineData": {"mimeType": "image/png", "data": "AA=="}}]
    content = ask(contents=[HI, turn(call_part("ls")), {"parts": [part]}]).chat.messages[2].content
    assert content == [TextPart("see"), MediaPart("image_url", {"url": "data:image/png;base64,AA=="})]


def test_a_turn_echoed_in_many_pieces_is_one_message() -> None:
    contents = [
        HI,
        turn({"text": "hm", "thought": True}),
        turn({"text": "m.", "thought": True}, {"text": "Hel"}),
        turn({"text": "lo "}),
        turn(call_part("ls", "call_1", dir="a") | {"thoughtSignature": "ab-_"}),
    ]
    (_, message) = ask(contents=contents).chat.messages
    assert (message.reasoning, message.content) == ("hmm.", "Hello ")
    assert message.tool_calls[0].arguments == '{"dir":"a"}'
    assert message.echo == ["ab+/", "call_1"]


def test_an_empty_turn_is_none() -> None:
    assert [m.role for m in ask(contents=[HI, {"role": "model", "parts": []}, HI]).chat.messages] == ["user", "user"]


def test_user_parts_keep_their_order() -> None:
    contents = [HI, turn(call_part("ls")), {"parts": [{"text": "first"}, result("ls", "A"), {"text": "last"}]}]
    assert [m.content for m in ask(contents=contents).chat.messages[2:]] == ["first", "A", "last"]


@pytest.mark.parametrize(
    ("mime", "data", "part"),
    [
        ("image/png", "-_8=", MediaPart("image_url", {"url": "data:image/png;base64,+/8="})),
        ("video/mp4", "AA==", MediaPart("video_url", {"url": "data:video/mp4;base64,AA=="})),
        ("audio/mpeg", "AA==", MediaPart("input_audio", {"data": "AA==", "format": "mp3"})),
    ],
)
def test_inline_media(mime: str, data: str, part: MediaPart) -> None:
    contents = [{"parts": [{"inlineData": {"mimeType": mime, "data": data}}]}]
    assert ask(contents=contents).chat.messages[0].content == [part]


def test_inline_text_is_text() -> None:
    data = base64.b64encode("é".encode()).decode()
    contents = [{"parts": [{"inline_data": {"mime_type": "text/plain; charset=utf-8", "data": data}}]}]
    assert ask(contents=contents).chat.messages[0].content == "é"


@pytest.mark.parametrize(
    ("part", "said", "path"),
    [
        ({"fileData": {"fileUri": "gs://x", "mimeType": "image/png"}}, "[fileData image/png omitted]", "fileData"),
        (
            {"inlineData": {"mimeType": "application/pdf", "data": "AA"}},
            "[inlineData application/pdf omitted]",
            "inlineData",
        ),
        ({"executableCode": {"code": "1"}}, "[executableCode omitted]", "executableCode"),
        ({"brandNew": {}}, "[brandNew omitted]", "brandNew"),
        ({"functionCall": {"name": "ls"}}, "[functionCall omitted]", "functionCall"),
    ],
)
def test_parts_without_a_form_are_named(part: dict[str, Any], said: str, path: str) -> None:
    call = ask(contents=[{"parts": [part, {"text": "x"}]}])
    assert call.chat.messages[0].content == f"{said}\nx"
    assert call.unmapped == [f"$.contents[0].parts[0].{path}"]
