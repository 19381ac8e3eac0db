"""A TCP relay in front of a proxy: a test can cut its connections, see which hosts were refused, and have the refusal
say another status."""

import contextlib
import re
import socket
import threading
from collections.abc import Callable, Iterator


class Relay:
    """Passes bytes both ways between its own port and another. `cut` resets what is open; `refusal` takes the place of
    403 as the answer to a CONNECT."""

    def __init__(self, port: int, refusal: int = 403) -> None:
        self._to = port
        self._refusal = refusal
        self.refused: list[str] = []
        """Hosts whose CONNECT was refused, in order."""
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._open: list[socket.socket] = []
        self._lock = threading.Lock()
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> int:
        """Reset every open connection; how many there were."""
        with self._lock:
            cut, self._open = self._open, []
        for one in cut:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
        return len(cut)

    def close(self) -> None:
        self._listener.close()
        self.cut()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
                server = socket.create_connection(("127.0.0.1", self._to))
            except OSError:
                return
            with self._lock:
                self._open += [client, server]
            host: list[str] = []
            for way in ((client, server, host, None), (server, client, host, self._refuse)):
                threading.Thread(target=_pass, args=way, daemon=True).start()

    def _refuse(self, host: str, answer: bytes) -> bytes:
        if not answer.startswith(b"HTTP/1.1 403 "):
            return answer
        self.refused.append(host)
        return answer.replace(b" 403 Forbidden", b" 404 Not Found", 1) if self._refusal == 404 else answer


def _pass(
    source: socket.socket,
    target: socket.socket,
    host: list[str],
    first_answer: Callable[[str, bytes], bytes] | None,
) -> None:
    """Pass bytes on until one side ends. `host` is filled in from the first line of the client's, and told to
    `first_answer` with the first bytes of the server's, which it may change."""
    first = True
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            if first and first_answer is None and (line := re.match(rb"CONNECT ([^ :]+)", data)):
                host.append(line[1].decode())
            if first and first_answer is not None and host:
                data = first_answer(host[0], data)
            first = False
            target.sendall(data)
    for one in (source, target):
        with contextlib.suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)


@contextlib.contextmanager
def relay(port: int, refusal: int = 403) -> Iterator[Relay]:
    made = Relay(port, refusal)
    try:
        yield made
    finally:
        made.close()
