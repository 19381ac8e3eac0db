"""Reading a client's JSON."""

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polar_capture.dialects import json_body
from polar_capture.dialects.json_body import decode_object
from polar_capture.faults import CallError, FaultKind


@pytest.mark.parametrize(
    ("body", "read"),
    [
        (b'{"a": "\\u0000\\u2028"}', {"a": "\0\u2028"}),
        (b'\xef\xbb\xbf{"a": 1}', {"a": 1}),
        (b' {"a": 1.0}\n', {"a": 1.0}),
        (b'{"a": "x\\ud83dy"}', {"a": "x\ufffdy"}),
        (b'{"\\udc00": ["\\ud83d\\ude00", 1]}', {"\ufffd": ["\U0001f600", 1]}),
        (b'{"a": 123456789012345678901234567890}', {"a": 123456789012345678901234567890}),
    ],
)
def test_bodies_are_read(body: bytes, read: object) -> None:
    assert decode_object(body) == read


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"  ",
        b"{not json",
        b"[]",
        b'"x"',
        b"null",
        b'{"a": NaN}',
        b'{"a": 1e400}',
        b'{"a": "\\ud800", "b": NaN}',
        b'{"a": "\\ud800", "b": 1e400}',
        b'{"a": "\xff"}',
        b'{"a": "\xed\xa0\x80"}',
        b'{"a":' + b"[" * 300 + b"]" * 300 + b"}",
        b'{"a":' + b"[" * 200_000,
        b'{"a":"\\ud800","b":' + b"[" * 200_000,
    ],
)
def test_o_errors_09_what_is_no_object_is_refused(body: bytes) -> None:
    with pytest.raises(CallError) as refused:
        decode_object(body)
    assert refused.value.fault.kind is FaultKind.INVALID
    refused.value.fault.message.encode()


@given(st.binary(max_size=60) | st.text(max_size=60).map(lambda text: b'{"a":' + text.encode("utf-8", "replace")))
def test_only_a_call_error_escapes(body: bytes) -> None:
    with contextlib.suppress(CallError):
        assert isinstance(decode_object(body), dict)


@given(
    st.dictionaries(st.text(), st.text(st.characters(exclude_categories=())) | st.integers(-(2**60), 2**60) | st.none())
)
def test_what_python_writes_is_read(value: dict[str, object]) -> None:
    read = decode_object(json.dumps(value).encode())
    json.dumps(read, ensure_ascii=False).encode()
    assert len(read) <= len(value)


@pytest.mark.parametrize(
    ("reader", "value"),
    [
        (json_body.text, 1),
        (json_body.integer, True),
        (json_body.integer, 1.5),
        (json_body.integer, 1 << 63),
        (json_body.number, True),
        (json_body.number, "1"),
        (json_body.number, 10**400),
        (json_body.boolean_or_none, 0),
        (json_body.an_object, []),
        (json_body.an_array, {}),
        (json_body.array_or_empty, ""),
        (json_body.text, b"not a JSON value"),
    ],
)
def test_wrong_types_name_the_field(reader: object, value: object) -> None:
    assert callable(reader)
    with pytest.raises(CallError) as refused:
        reader(value, "a[1].b")
    assert refused.value.fault.param == "a[1].b"
    assert "a[1].b" in refused.value.fault.message


def test_whole_floats_are_integers() -> None:
    assert json_body.integer(50.0, "n") == 50
    assert json_body.number(1, "n") == 1.0
    assert json_body.integer_or_none(None, "n") is json_body.number_or_none(None, "n") is None
