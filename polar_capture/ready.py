"""The one line that `serve` prints on stdout once it takes calls, made and read in one place."""

import msgspec

PREFIX = "polar-capture ready "


class Ready(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Where a running proxy is found. URLs like `http://127.0.0.1:8080`; `ca` is the path of the CA certificate (PEM).

    `gateway` and `web` are null where they are closed. `workers` lists the proxy URLs of all processes where there are
    several; `proxy` is then the first of them.
    """

    proxy: str
    control: str
    ca: str
    db: str
    pid: int
    gateway: str | None
    web: str | None
    workers: list[str] = []

    def line(self) -> str:
        return PREFIX + msgspec.json.encode(self).decode()


def parse(line: str) -> Ready | None:
    """The struct of a ready line, or None for any other line. Raises msgspec.ValidationError for a broken one."""
    if not line.startswith(PREFIX):
        return None
    return msgspec.json.decode(line.removeprefix(PREFIX), type=Ready)
