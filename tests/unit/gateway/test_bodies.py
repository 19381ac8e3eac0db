import contextlib
import gzip
import zlib

import brotli
import pytest
from backports import zstd
from hypothesis import given
from hypothesis import strategies as st

from polar_capture import bodies
from polar_capture.faults import CallError, FaultKind

CODERS = {
    "gzip": gzip.compress,
    "x-gzip": gzip.compress,
    "deflate": zlib.compress,
    "br": brotli.compress,
    "zstd": zstd.compress,
    "identity": bytes,
}


@pytest.mark.parametrize("coding", CODERS)
def test_o_transport_01_every_coding_is_unpacked(coding):
    body = b'{"model":"m","input":"hi"}' * 8000
    assert bodies.decode(CODERS[coding](body), coding) == body


def test_raw_deflate_too():
    packer = zlib.compressobj(wbits=-15)
    assert bodies.decode(packer.compress(b"hello") + packer.flush(), "deflate") == b"hello"


def test_several_codings_are_undone_in_reverse():
    assert bodies.decode(zstd.compress(gzip.compress(b"x")), "gzip, zstd") == b"x"


@pytest.mark.parametrize("coding", ["gzip", "zstd"])
def test_a_body_packed_in_pieces_is_whole(coding):
    pack = CODERS[coding]
    assert bodies.decode(pack(b"hel") + pack(b"") + pack(b"lo"), coding) == b"hello"
    with pytest.raises(CallError, match="not valid"):
        bodies.decode(pack(b"hello") + b"more", coding)
    with pytest.raises(CallError, match="exceeds"):
        bodies.decode(pack(b"\0" * 60) * 2, coding, limit=119)
    assert len(bodies.decode(pack(b"\0" * 60) * 2, coding, limit=120)) == 120


@pytest.mark.parametrize("coding", ["gzip", "deflate", "br", "zstd"])
@pytest.mark.parametrize("damage", [lambda b: b[:-4], lambda b: b"garbage" * 9], ids=["cut", "garbage"])
def test_a_broken_body_is_the_clients_fault(coding, damage):
    with pytest.raises(CallError) as caught:
        bodies.decode(damage(CODERS[coding](b"hello" * 99)), coding)
    assert caught.value.fault.kind is FaultKind.INVALID
    assert coding in caught.value.fault.message


def test_an_unknown_coding_names_the_known_ones():
    with pytest.raises(CallError, match=r"'lzma' is not supported: use gzip"):
        bodies.decode(b"x", "lzma")


@pytest.mark.parametrize("coding", CODERS)
def test_a_bomb_is_too_large(coding):
    with pytest.raises(CallError) as caught:
        bodies.decode(CODERS[coding](b"\0" * 100_000), coding, limit=99_999)
    assert caught.value.fault.kind is FaultKind.TOO_LARGE


@given(st.binary(max_size=300), st.sampled_from(["gzip", "deflate", "br", "zstd"]))
def test_only_call_errors_escape(body, coding):
    with contextlib.suppress(CallError):
        bodies.decode(body, coding, limit=10_000)
