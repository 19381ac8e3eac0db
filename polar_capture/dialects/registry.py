"""Which dialect speaks a request: by path, and where paths are ambiguous, by host or telling headers.

The one list of all dialects. Adding one is its file and one line here.
"""

from collections.abc import Mapping

from polar_capture.dialects.anthropic import Anthropic
from polar_capture.dialects.base import Dialect, Route
from polar_capture.dialects.google import Google
from polar_capture.dialects.openai_chat import OpenAIChat
from polar_capture.dialects.openai_responses import OpenAIResponses

DIALECTS: tuple[Dialect, ...] = (OpenAIChat(), OpenAIResponses(), Anthropic(), Google())
"""In the order in which they are asked; a path that several know goes to the first, unless host or headers tell."""

_TELLING_HEADERS = {
    "anthropic-version": "anthropic",
    "x-goog-api-key": "google",
    "x-goog-api-client": "google",
}
"""Header → dialect name, for the base-URL gateway, where no host tells them apart."""


def find(method: str, path: str, host: str, headers: Mapping[str, str]) -> tuple[Dialect, Route] | None:
    """The dialect and route of a request line; None for what no dialect knows.

    `host` is the provider's name ("" on the base-URL gateway), `headers` have lower-case names. Model lists have one
    path with several providers, so the host's dialects come first. Other paths are each one dialect's own, and
    providers offer them under foreign hosts too (DeepSeek and Moonshot speak Messages, Google speaks Chat Completions).
    """
    for dialect in _in_order(host, headers):
        route = dialect.match(method, path)
        if route is not None:
            return dialect, route
    return None


def spokesman(path: str, host: str, headers: Mapping[str, str]) -> Dialect:
    """The dialect in whose words a refusal of this path is said: whose path it is, or the nearest path above it."""
    order = _in_order(host, headers)
    if host and serves(order[0], host):
        order = [dialect for dialect in order if serves(dialect, host) or dialect.allowed(path)]
    while path:
        for dialect in order:
            if dialect.allowed(path):
                return dialect
        path = path.rpartition("/")[0]
    return order[0]


def allowed(path: str, host: str, headers: Mapping[str, str]) -> list[str]:
    """The methods that this path knows on this host; [] for a path that is nobody's."""
    return spokesman(path, host, headers).allowed(path)


def provider_hosts() -> tuple[str, ...]:
    """All provider host names, each once; a leading dot takes in all subdomains."""
    return tuple(dict.fromkeys(host for dialect in DIALECTS for host in dialect.hosts))


def by_name(name: str) -> Dialect:
    """The dialect of a `calls.dialect` value. Raises KeyError for an unknown name."""
    for dialect in DIALECTS:
        if dialect.name == name:
            return dialect
    known = ", ".join(dialect.name for dialect in DIALECTS)
    raise KeyError(f"no dialect is named {name!r}; there are: {known}")


def serves(dialect: Dialect, host: str) -> bool:
    """Whether a host name is one of this dialect's."""
    host = host.lower().rstrip(".")
    return any(host == own or (own.startswith(".") and host.endswith(own)) for own in dialect.hosts)


def _in_order(host: str, headers: Mapping[str, str]) -> list[Dialect]:
    """All dialects, those first that host or headers speak for."""
    told = {name for header, name in _TELLING_HEADERS.items() if header in headers}
    return sorted(DIALECTS, key=lambda dialect: (not serves(dialect, host), dialect.name not in told))
