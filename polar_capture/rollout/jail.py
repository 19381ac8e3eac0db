"""A network namespace with nothing in it but loopback, where the proxy's own port leads to the proxy (Linux).

The way out is a Unix socket, which belongs to the file system and not to the network: `polar-capture` listens on it
and passes bytes on to the proxy. A harness that ignores HTTPS_PROXY finds no route to any host. The supervisor loads
this file by its path, so it imports nothing of ours.
"""

import contextlib
import ctypes
import fcntl
import os
import socket
import struct
import threading
from collections.abc import Callable

CLONE_NEWNET, CLONE_NEWUSER = 0x40000000, 0x10000000
SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 0x1
CHUNK = 65536


def enter(way: str) -> Callable[[], None]:
    """Go into a new network namespace; `way` is `SOCKET:PORT`. The result starts to serve, after the fork of what is
    to live in it. OSError where the kernel allows no namespace."""
    path, _, port = way.rpartition(":")
    user, group = os.getuid(), os.getgid()
    unshare = ctypes.CDLL(None, use_errno=True).unshare
    if unshare(CLONE_NEWNET if user == 0 else CLONE_NEWNET | CLONE_NEWUSER):
        error = ctypes.get_errno()
        raise OSError(error, f"no network namespace for the jail: {os.strerror(error)}")
    if user:
        for file, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
            with open(f"/proc/self/{file}", "w") as handle:
                handle.write(text)
    raise_loopback()
    listener = socket.create_server(("127.0.0.1", int(port)), backlog=128)
    os.set_inheritable(listener.fileno(), False)
    return lambda: threading.Thread(target=serve, args=(listener, path), daemon=True).start()


def raise_loopback() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        request = struct.pack("16sh14x", b"lo", 0)
        flags = struct.unpack("16sh14x", fcntl.ioctl(any_socket, SIOCGIFFLAGS, request))[1]
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", flags | IFF_UP))


def serve(listener: socket.socket, path: str) -> None:
    while True:
        inside, _ = listener.accept()
        outside = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            outside.connect(path)
        except OSError:
            inside.close()
            outside.close()
            continue
        for one, other in ((inside, outside), (outside, inside)):
            threading.Thread(target=pump, args=(one, other), daemon=True).start()


def pump(source: socket.socket, sink: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(CHUNK):
            sink.sendall(data)
    with contextlib.suppress(OSError):
        sink.shutdown(socket.SHUT_WR)
