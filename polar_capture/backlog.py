"""Room for many connections at once.

mitmproxy listens with asyncio's 100 places and has no option for it. When a rollout starts hundreds of agents together,
the kernel drops what is beyond that, and those agents wait 1, 3 or 7 seconds for its next attempt (measured: 256
sessions opened at once stood still for 5 s).
"""

import os
import socket
from typing import Any

BACKLOG = 4096
"""Connections that wait to be accepted; the kernel lowers it to net.core.somaxconn."""


def widen(proxyserver: Any) -> int:
    """Give every TCP listener of mitmproxy's `proxyserver` addon `BACKLOG` places; how many listeners there were.

    listen(2) on a socket that listens already only changes its backlog.
    """
    widened = 0
    for instance in proxyserver.servers:
        for server in instance._servers:  # mitmproxy tells their addresses only
            for listener in getattr(server, "sockets", ()):
                with socket.socket(fileno=os.dup(listener.fileno())) as twin:
                    twin.listen(BACKLOG)
                widened += 1
    return widened
