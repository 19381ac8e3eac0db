"""Requests as clients get them wrong, big, packed or cut up."""

import asyncio
import gzip
import json
import ssl
import zlib

import pytest
from backports import zstd

from tests.double import Double
from tests.proxying import Proxy, proxy
from tests.unit.proxy.dialect_calls import CALLS


@pytest.fixture
async def running():
    async with Double(window=10**6) as vllm, proxy(vllm.url) as started:
        started.vllm = vllm  # type: ignore[attr-defined]
        started.probes = len(vllm.chats)  # type: ignore[attr-defined]
        yield started


def generations(running) -> list:
    """What reached the engine besides the start-up probe."""
    return running.vllm.chats[running.probes :]


@pytest.mark.parametrize("dialect", CALLS)
@pytest.mark.parametrize("raw", [b"{not json", b"[]", b"", b"\xff\xfe", b'"text"', b"null"])
async def test_o_errors_09_a_body_that_is_no_request_is_400_of_the_dialect(running, dialect, raw):
    url, _ = CALLS[dialect].asking("hi")
    status, body, headers = await running.answer("POST", url, data=raw, headers={"content-type": "application/json"})
    assert status == 400
    assert headers["content-type"].startswith("application/json")
    assert json.loads(body)["error"]["message"]
    assert not generations(running)


@pytest.mark.parametrize(
    ("method", "url", "status"),
    [
        ("GET", "https://api.anthropic.com/v1/messages", 405),
        ("POST", "https://api.anthropic.com/v1/messages/unknown", 404),
        ("GET", "https://api.openai.com/v1/chat/completions", 405),
        ("POST", "https://api.openai.com/v1/nothing", 404),
        ("GET", "https://generativelanguage.googleapis.com/v1beta/unknown", 404),
        ("POST", "https://statsig.anthropic.com/v1/log", 404),
    ],
)
async def test_o_errors_09_unknown_paths_and_methods_are_answered_here(running, method, url, status):
    got, body, headers = await running.answer(method, url, json={} if method == "POST" else None)
    assert got == status
    assert headers["content-type"].startswith("application/json")
    assert json.loads(body)["error"]["message"]
    assert not generations(running)


@pytest.mark.parametrize(
    ("coding", "pack"),
    [("zstd", zstd.compress), ("gzip", gzip.compress), ("deflate", zlib.compress), ("identity", bytes)],
)
async def test_o_transport_01_packed_bodies_reach_the_engine_alike(running, coding, pack):
    url, body = CALLS["openai_chat"].asking("hello " * 40_000)
    packed = pack(json.dumps(body).encode())
    headers = {"content-encoding": coding, "content-type": "application/json"}
    status, _, _ = await running.answer("POST", url, data=packed, headers=headers)
    assert status == 200
    (sent,) = generations(running)
    assert sent.body["messages"][0]["content"] == "hello " * 40_000
    assert "content-encoding" not in {name.lower() for name in sent.headers}


async def test_o_transport_04_screenshots_of_24_mb_pass_and_too_much_is_413(running):
    data = "iVBORw0KGgo" + "A" * (24 * 2**20)
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}}
    url, body = CALLS["anthropic"].asking("x")
    body["messages"][0]["content"] = [image, {"type": "text", "text": "x"}]
    status, answer, _ = await running.answer("POST", url, json=body)
    assert status == 200, answer[:500]
    (sent,) = generations(running)
    parts = sent.body["messages"][-1]["content"]
    assert [p["image_url"]["url"] for p in parts if p["type"] == "image_url"] == [f"data:image/png;base64,{data}"]
    status, answer, _ = await running.answer("POST", url, data=b'{"x":"' + b"y" * (65 * 2**20) + b'"}')
    assert status == 413
    assert json.loads(answer)["error"]["type"] == "request_too_large"


async def raw_exchange(running: Proxy, host: str, payload: list[bytes]) -> bytes:
    """Send raw bytes inside an intercepted tunnel, a pause after each piece; what comes back until all is quiet."""
    reader, writer = await asyncio.open_connection("127.0.0.1", running.port)
    writer.write(f"CONNECT {host}:443 HTTP/1.1\r\nHost: {host}:443\r\nProxy-Authorization: Basic czE6\r\n\r\n".encode())
    assert b"200" in await reader.readuntil(b"\r\n\r\n")
    await writer.start_tls(ssl.create_default_context(cafile=str(running.ca)), server_hostname=host)
    for piece in payload:
        writer.write(piece)
        await writer.drain()
        await asyncio.sleep(0.05)
    received = b""
    try:
        async with asyncio.timeout(2):
            while chunk := await reader.read(65536):
                received += chunk
    except TimeoutError:
        pass
    writer.close()
    return received


HEAD = b"POST /v1/chat/completions HTTP/1.1\r\nHost: api.openai.com\r\ncontent-type: application/json\r\n"


async def test_o_transport_08_a_chunked_body_is_read_whole(running):
    pieces = [b'{"model":"m",', b'"messages":[{"role":"user","content":"h\xc3', b'\xa9llo"}]}']
    chunks = [b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces]
    answer = await raw_exchange(
        running, "api.openai.com", [HEAD + b"transfer-encoding: chunked\r\n\r\n", *chunks, b"0\r\n\r\n"]
    )
    assert answer.startswith(b"HTTP/1.1 200")
    (sent,) = generations(running)
    assert sent.body["messages"] == [{"role": "user", "content": "héllo"}]


async def test_o_transport_08_two_framings_at_once_are_400(running):
    body = b'{"model":"m","messages":[]}'
    head = HEAD + b"transfer-encoding: chunked\r\ncontent-length: %d\r\n\r\n" % len(body)
    answer = await raw_exchange(running, "api.openai.com", [head + b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)])
    assert answer.startswith(b"HTTP/1.1 400")
    assert not generations(running)


async def test_long_headers_and_queries_pass(running):
    url, body = CALLS["openai_chat"].asking("hi")
    long = "x" * 40_000
    status, answer, _ = await running.answer("POST", f"{url}?a={long}", json=body, headers={"x-metadata": long})
    assert status == 200, answer


@pytest.mark.parametrize("host", ["POLAR.capture", "polar.capture."])
async def test_the_control_host_is_itself_in_any_spelling(running, host):
    for scheme in ("http", "https"):
        answer = await running.answer("GET", f"{scheme}://polar.capture/health", headers={"host": host})
        assert (answer[0], json.loads(answer[1])["status"]) == (200, "ok")


async def test_expect_100_continue_is_honoured(running):
    body = b'{"model":"m","messages":[{"role":"user","content":"hi"}]}'
    head = HEAD + b"content-length: %d\r\nexpect: 100-continue\r\n\r\n" % len(body)
    answer = await raw_exchange(running, "api.openai.com", [head, body])
    assert b"100 Continue" in answer
    assert b"HTTP/1.1 200" in answer


async def test_o_transport_02_a_websocket_is_served_or_refused_at_once(running):
    upgrade = (
        b"GET /v1/responses HTTP/1.1\r\nHost: api.openai.com\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
    )
    answer = await raw_exchange(running, "api.openai.com", [upgrade])
    assert answer.startswith((b"HTTP/1.1 101", b"HTTP/1.1 426"))
    assert await running.calls() == []
