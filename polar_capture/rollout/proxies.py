"""The proxy that a rollout's sessions go through: one of its own, or one that runs already."""

import contextlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from polar_capture.config import ServeConfig
from polar_capture.control_client import PROXIED, ControlClient
from polar_capture.environment import Endpoint
from polar_capture.home import Home
from polar_capture.launch import ProxyProcess, start_proxy, worker_for
from polar_capture.trust import write_bundle


class Access(msgspec.Struct, frozen=True, kw_only=True):
    """How sessions reach their proxy: `addresses` are (bare URL, key) of its workers, `token` opens the control
    host."""

    addresses: list[tuple[str, str | None]]
    bundle: Path
    token: str | None
    process: ProxyProcess | None = None

    def endpoint(self, session: str) -> Endpoint:
        address, key = worker_for(session, self.addresses)
        return Endpoint(address, self.bundle, session, key)

    def control(self, session: str) -> ControlClient:
        """The control host: of our own proxy by its port (what one worker is told, all know); of another one through
        the worker that serves this session."""
        if self.process is not None:
            return ControlClient(self.process.ready.control, self.token)
        return ControlClient(PROXIED, self.token, proxy=self.endpoint(session).url)

    @property
    def log(self) -> Path | None:
        return self.process.log if self.process else None

    def died(self) -> int | None:
        return self.process.died() if self.process else None


@contextlib.contextmanager
def private(home: Home, config: ServeConfig, name: str, environ: Mapping[str, str] = os.environ) -> Iterator[Access]:
    """A proxy that lives as long as the block. Raises Failure, HomeError, TrustError."""
    bundle = write_bundle(home.make_ca().read_text(encoding="utf-8"), home.bundle, environ)
    process = start_proxy(config, home.new_log(f"rollout-{name}"), environ)
    try:
        urls = process.ready.workers or [process.ready.proxy]
        yield Access(
            addresses=[(url, config.key) for url in urls], bundle=bundle, token=config.control_token, process=process
        )
    finally:
        process.stop()


def running(
    home: Home, addresses: list[tuple[str, str | None]], key: str | None, environ: Mapping[str, str] = os.environ
) -> Access:
    """A proxy that runs already. Raises Failure where none answers or it wants another token."""
    token = os.environ.get("POLAR_CONTROL_TOKEN") or home.kept_token()
    addresses = [(address, key or own) for address, own in addresses]
    draft = Access(addresses=addresses, bundle=home.bundle, token=token)
    ca = draft.control("rollout").ca_pem()
    home.folder(home.path)
    own = home.ca.exists() and home.ca.read_text(encoding="utf-8") == ca
    bundle = write_bundle(ca, home.bundle if own else home.foreign_bundle(ca), environ)
    return msgspec.structs.replace(draft, bundle=bundle)
