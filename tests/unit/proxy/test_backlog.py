"""Hundreds of agents that start together all get a connection at once, however busy the proxy is."""

import socket
from urllib.parse import urlsplit

import pytest

from tests.double import Double
from tests.proxying import proxy

AT_ONCE = 300


@pytest.mark.parametrize("which", ["proxy", "gateway behind it"])
async def test_a_burst_of_connections_waits_for_nobody(which: str) -> None:
    async with Double() as vllm, proxy(vllm.url) as running:
        port = urlsplit(running.url).port if which == "proxy" else running.runtime.port
        opened = []
        try:
            for _ in range(AT_ONCE):
                # The proxy shares this thread: it accepts none of them before the last one is there.
                opened.append(socket.create_connection(("127.0.0.1", port), timeout=0.5))
        finally:
            for connection in opened:
                connection.close()
        assert len(opened) == AT_ONCE
