"""Credentials never reach the disk, and what a cut text still leaks through its ids is not trained on."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polar_capture import store
from polar_capture.store import redaction
from polar_capture.store.redaction import PATTERNS_VARIABLE, Patterns, clean_line, holds_credential, without_named
from polar_capture.store.store import DatabaseError
from tests.unit.store.build import call, chain, write

KEY = "sk-ant-" + "a1B2" * 8


@pytest.mark.parametrize(
    "name",
    [
        "api_key",
        "apiKey",
        "x-api-key",
        "Authorization",
        "authorization_token",
        "access_token",
        "client_secret",
        "password",
        "auth_token",
        "secret",
        "X-Api-Token",
        "X-Company-Secret",
    ],
)
def test_what_is_named_like_a_credential_is_cut_out_of_a_request(name):
    body = json.dumps({"model": "m", "mcp_servers": [{"url": "u", name: 'hush \\" hush'}], "messages": []}).encode()
    cleaned = json.loads(without_named(body))
    assert cleaned == {"model": "m", "mcp_servers": [{"url": "u", name: "[redacted]"}], "messages": []}


def test_what_is_secret_in_a_url_is_cut_out_of_a_request():
    hidden, shown = "https://u:hush@h/x?a=b&token=hush&c=d", "git clone https://u:told@h?key=told"
    body = {"mcp_servers": [{"url": hidden}], "messages": [{"content": shown}]}
    cleaned = json.loads(without_named(json.dumps(body).encode()))
    assert cleaned["mcp_servers"] == [{"url": "https://[redacted]@h/x?a=b&token=[redacted]&c=d"}]
    assert cleaned["messages"] == body["messages"], "the model has read it"
    assert b"hush" not in without_named(f'{{"url": "{hidden}", '.encode())


@pytest.mark.parametrize("place", ["messages", "input", "contents", "system"])
def test_what_the_model_reads_is_left_as_it_was_sampled_on(place):
    body = json.dumps({place: [{"type": "tool_use", "input": {"password": "hunter2"}}], "api_key": "hush"}).encode()
    cleaned = json.loads(without_named(body))
    assert cleaned[place][0]["input"] == {"password": "hunter2"}
    assert cleaned["api_key"] == "[redacted]"


def test_schemas_and_quoted_json_are_no_credentials():
    schema = {"properties": {"password": {"type": "string"}}, "required": ["password", "api_key"]}
    body = json.dumps({"tools": [schema], "messages": [{"content": '{"api_key": "x"}'}]}).encode()
    assert without_named(body) == body


def test_a_broken_body_loses_its_credentials_too():
    assert without_named(b'{"api_key": "hush", ') == b'{"api_key": "[redacted]", '


@pytest.mark.parametrize(
    "text",
    [
        KEY,
        "sk-proj-" + "x" * 30,
        "ghp_" + "A" * 36,
        "AKIA" + "A1" * 8,
        "AIza" + "x" * 35,
        "hf_" + "a" * 34,
        "-----BEGIN RSA PRIVATE KEY-----",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NSJ9.abcdefghijk",
    ],
)
def test_well_known_keys_are_recognised(text):
    assert holds_credential(f'{{"content": "use {text} please"}}'.encode())


@pytest.mark.parametrize(
    "text", ["task-" + "a" * 30, "disk-usage-of-the-whole-file-system", "sk-short", "-----BEGIN CERTIFICATE-----"]
)
def test_ordinary_words_are_not(text):
    assert not holds_credential(text.encode())


@pytest.mark.parametrize(
    ("line", "cleaned"),
    [
        (
            "/v1beta/models/g:generateContent?key=AIzaHush&alt=sse",
            "/v1beta/models/g:generateContent?key=[redacted]&alt=sse",
        ),
        ("http://me:hush@127.0.0.1:8000/v1", "http://127.0.0.1:8000/v1"),
        (f"401: wrong key {KEY}", "401: wrong key [redacted]"),
        ("Authorization: Bearer abcdefgh12345 refused", "Authorization: Bearer [redacted] refused"),
        ("/v1/messages?beta=true", "/v1/messages?beta=true"),
        (None, None),
    ],
)
def test_paths_urls_and_errors_are_cleaned(line, cleaned):
    assert clean_line(line) == cleaned


def everything_on_disk(folder):
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


def test_no_credential_of_a_session_is_on_the_disk(tmp_path):
    records = chain(5)
    for record in records:
        secret = b'"mcp_servers":[{"authorization_token":"hush-%d-hush"}]' % record.seq
        record.request = b'{"messages":["' + b"turn " * record.seq + b'"],' + secret + b',"stream":true}'
        record.path = "/v1/messages?api_key=hush-in-query"
        record.upstream = "http://me:hush-in-upstream@localhost"
        record.error = "Bearer hush-in-error"
    with store.open(tmp_path / "polar.db") as captured:
        write(captured, records)
        assert b"hush" not in everything_on_disk(tmp_path)
        for record in records:
            stored = json.loads(captured.body(record.id, "request"))
            assert stored["mcp_servers"] == [{"authorization_token": "[redacted]"}]
            assert stored["messages"] == ["turn " * record.seq]
            assert captured.call(record.id)["trainable"] is True


def test_a_key_in_a_prompt_flags_the_call_and_all_that_continue_it(captured):
    records = chain(6)
    for record in records[2:]:
        record.request = record.request.replace(b'"text":"', f'"text":"{KEY} '.encode())
    branch = call(seq=6, parent=records[1], request=records[1].request + b" ")
    write(captured, [*records[:4], branch])
    captured.writer()._packer.contexts.clear()  # the flag is read back from the database as well
    write(captured, records[4:])
    warned = [row["seq"] for row in captured.calls("s") if "secret_in_prompt" in row["warnings"]]
    assert warned == [2, 3, 4, 5]
    assert all(row["trainable"] for row in captured.calls("s"))


def test_a_configured_pattern_is_cut_everywhere_and_the_call_is_marked(tmp_path, monkeypatch):
    monkeypatch.setenv(PATTERNS_VARIABLE, "Project [A-Z]\\w+\n\nclient-\\d+")
    bare = call()
    named = call(
        seq=1,
        request=b'{"a":"about Project Mercury"}',
        chat_request=b'{"a":"about Project Mercury"}',
        message=b'{"content":"client-77 of Project Mercury"}',
        error="client-77 \ud800",
    )
    failed = call(seq=2, message=b"client-1", trainable=False, reason="aborted")
    with store.open(tmp_path / "polar.db") as captured:
        write(captured, [bare, named, failed])
        for secret in (b"Mercury", b"client-77"):
            assert secret not in everything_on_disk(tmp_path)
        row = captured.call(named.id)
        assert row["request"] == b'{"a":"about [redacted]"}'
        assert row["message"] == b'{"content":"[redacted] of [redacted]"}'
        assert row["error"] == "[redacted] \ud800"
        assert [(row["trainable"], row["reason"]) for row in captured.calls("s")] == [
            (True, None),
            (False, "redacted"),
            (False, "aborted"),
        ]
        assert captured.tokens(named.id).completion_ids.tolist() == named.completion_ids


def test_a_wrong_pattern_is_named(tmp_path, monkeypatch):
    with pytest.raises(ValueError, match=r"'\(' is no regular expression .*: correct POLAR_REDACT"):
        Patterns(["("])
    monkeypatch.setenv(PATTERNS_VARIABLE, "(")
    with store.open(tmp_path / "polar.db") as captured, pytest.raises(DatabaseError, match="correct POLAR_REDACT"):
        captured.writer()


PIECES = ['"api_key"', '"X-Some-Token"', '"Cookie"', ":", " ", '"', "hush", "\\"]
PIECES += ["https://", "U", ":p@", "h/x", "?KEY=", "&sig="]


@given(st.lists(st.sampled_from(PIECES), max_size=12))
def test_the_first_look_finds_whatever_the_patterns_find(pieces):
    text = "".join(pieces).encode()
    found = redaction._NAMED.search(text) or redaction._IN_URL.search(text)
    assert any(pattern.search(text.lower()) for pattern in redaction._FIRST_LOOK) == bool(found)
