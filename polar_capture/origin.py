"""What the proxy knows of a request before anybody has read it."""

import msgspec


class Origin(msgspec.Struct, frozen=True):
    """Where a request came in. `host` is the name that the client believes to talk to ("" on the base-URL gateway);
    `connection` names the client's connection; `proxy_user` its credentials' user; `control` marks the control host;
    `flow` is the proxy's own id of the exchange (None on the base-URL gateway, where nobody reports the delivery)."""

    host: str = ""
    connection: str = ""
    proxy_user: str | None = None
    control: bool = False
    flow: str | None = None
    gateway_path: str | None = None
    gateway_key: str | None = None
    body: bytes | None = None
    """The raw request body, where the proxy hands it over in memory instead of sending it through the loopback."""
