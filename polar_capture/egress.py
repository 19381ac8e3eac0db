"""Where flows may go: what is intercepted, what is tunnelled, what is refused. Pure; names and addresses only."""

import enum
import ipaddress
import re
import socket
from collections.abc import Iterable

CONTROL_HOST = "polar.capture"

TELEMETRY_HOSTS = (
    # Answered 404 at once on TLS that we terminate: every harness takes that best (facts/harnesses.md §9).
    "statsig.anthropic.com",
    ".statsig.com",
    ".statsigapi.net",
    ".sentry.io",
    "downloads.claude.ai",
    "ab.chatgpt.com",
    "play.googleapis.com",
    "models.opencode.ai",
    "models.dev",
    ".posthog.com",
    ".rum.aliyuncs.com",
)
"""The vendors' telemetry, feature-flag and update hosts; a leading dot takes in all subdomains."""


class Verdict(enum.StrEnum):
    INTERCEPT = "intercept"
    TUNNEL = "tunnel"
    REFUSE = "refuse"


class Egress:
    """The policy of one proxy. `providers` are host names, a leading dot takes in all subdomains."""

    def __init__(self, providers: Iterable[str], *, block: bool) -> None:
        self._exact: set[str] = {CONTROL_HOST}
        self._suffixes: list[str] = []
        for host in (*providers, *TELEMETRY_HOSTS):
            if host.startswith("."):
                self._suffixes.append(host.lower())
            else:
                self._exact.add(host.lower())
        self.block = block

    def intercepts(self, host: str) -> bool:
        """Whether TLS to this host is ours to terminate."""
        host = host.lower().rstrip(".")
        return host in self._exact or any(host.endswith(suffix) or host == suffix[1:] for suffix in self._suffixes)

    def connect(self, host: str) -> Verdict:
        """What becomes of a CONNECT, or of a plain request, to this host."""
        if self.intercepts(host):
            return Verdict.INTERCEPT
        if self.block or is_local(host):
            return Verdict.REFUSE
        return Verdict.TUNNEL

    def allow_hosts(self) -> list[str]:
        """The patterns for mitmproxy's `allow_hosts`: all else is a raw tunnel that it never looks into."""
        exact = [f"^{re.escape(host)}:" for host in sorted(self._exact)]
        return exact + [rf"^(.+)?{re.escape(suffix[1:])}:" for suffix in self._suffixes]


def is_local(host: str) -> bool:
    """Whether a name or address literal means this machine: loopback, link-local, unspecified, in any spelling that the
    system's resolver takes (`127.1`, `0x7f000001`, `2130706433`, `::ffff:127.0.0.1`, `localhost.`)."""
    host = host.lower().strip("[]").rstrip(".")
    if host == "localhost" or host.endswith(".localhost") or not host:
        return True
    return any(is_local_address(address) for address in _literal(host))


def is_local_address(address: str) -> bool:
    """The same for one numeric address."""
    try:
        parsed = ipaddress.ip_address(address.split("%")[0])
    except ValueError:
        return False
    mapped = getattr(parsed, "ipv4_mapped", None) or parsed
    return mapped.is_loopback or mapped.is_link_local or mapped.is_unspecified


def _literal(host: str) -> list[str]:
    """The addresses of a numeric host, however it is written; [] for a name. No name is looked up."""
    if re.fullmatch(r"[0-9a-fx.]+", host):
        try:
            return [socket.inet_ntoa(socket.inet_aton(host))]
        except OSError:
            return []
    return [host] if ":" in host else []
