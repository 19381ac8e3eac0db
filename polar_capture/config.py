"""What a proxy is started with: one validated struct for `serve`, `run` and the mitmproxy addon's options.

A `ServeConfig` that exists is sound: every field is checked when it is made, and `ConfigError` names the option, the
bad value and the remedy. The command line turns it into a usage error (exit status 2), the addon into mitmproxy's
OptionsError.
"""

import ipaddress
import math
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Literal, get_args
from urllib.parse import urlsplit, urlunsplit

import msgspec

Egress = Literal["tunnel", "block"]
Continuation = Literal["auto", "exact", "off"]
CodexTools = Literal["classic", "native"]
ContinuationThinking = Literal["keep", "template"]

DEFAULT_DB = "sqlite:///polar.db"
DEFAULT_HOME = "~/.polar-capture"

SESSION_ID = re.compile(r"[A-Za-z0-9._-]{1,128}")


class ConfigError(ValueError):
    """An option has a value that cannot work; the message names option, value and remedy."""


class SamplingBound(msgspec.Struct, frozen=True):
    """What the engine accepts of one sampling parameter; the bounds are vLLM's."""

    kind: type[int] | type[float]
    low: float = -math.inf
    high: float = math.inf
    open_low: bool = False

    def holds(self, value: float) -> bool:
        return (
            math.isfinite(value) and (self.low < value if self.open_low else self.low <= value) and value <= self.high
        )

    def __str__(self) -> str:
        noun = "an integer" if self.kind is int else "a number"
        parts = []
        if self.low > -math.inf:
            parts.append(f"above {self.low:g}" if self.open_low else f"at least {self.low:g}")
        if self.high < math.inf:
            parts.append(f"at most {self.high:g}")
        return " ".join([noun, " and ".join(parts)]).strip()


SAMPLING: Mapping[str, SamplingBound] = {
    "temperature": SamplingBound(float, 0),
    "top_p": SamplingBound(float, 0, 1, open_low=True),
    "top_k": SamplingBound(int, -1),
    "min_p": SamplingBound(float, 0, 1),
    "presence_penalty": SamplingBound(float, -2, 2),
    "frequency_penalty": SamplingBound(float, -2, 2),
    "repetition_penalty": SamplingBound(float, 0, open_low=True),
    "seed": SamplingBound(int),
    "max_tokens": SamplingBound(int, 1),
}
"""The parameters that `--sampling` may force upon a harness."""


class ServeConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that `polar_capture.proxy.serve` needs. Raises ConfigError when a value cannot work."""

    upstreams: tuple[str, ...]
    """Base URLs of the engines, without a trailing slash or `/v1`."""
    home: Path
    """Folder of the CA, secrets, spool and logs."""
    db: str = DEFAULT_DB
    """SQLAlchemy URL; made by `database_url`."""
    host: str = "127.0.0.1"
    port: int = 8080
    """0 takes a free one."""
    control_port: int = 0
    """Loopback port of the control host; 0 takes a free one."""
    control_token: str | None = None
    """Bearer token of the guarded control pages; None: they all answer 401."""
    model: str | None = None
    """The engine's model name; None: the first that it lists."""
    sampling: dict[str, float | int] = {}
    """Overrides of what the harness asks; keys of `SAMPLING`."""
    web: bool = False
    gateway_port: int | None = None
    """Port of the plain base-URL endpoint; None: closed, 0: a free one."""
    workers: int = 1
    egress: Egress = "tunnel"
    continuation: Continuation = "auto"
    continuation_thinking: ContinuationThinking = "keep"
    """keep: earlier thoughts stay in the context as they were sampled; template: as the chat template has it."""
    strict_sessions: bool = False
    key: str | None = None
    """Proxy password and gateway key; None: none is asked."""
    header_grace: float = 2.0
    """Seconds for which the HTTP status is held back."""
    session_idle: float = 3600.0
    """Seconds without a call after which a session counts as ended."""
    spool: Path | None = None
    """Folder that takes rows while the database is away; None: `home/spool`."""
    tokenizer: str | None = None
    """Path or name of a tokenizer for showing ids to people; never used on the capture path."""
    provider_hosts: tuple[str, ...] = ()
    """Host names intercepted besides the built-in providers'."""
    codex_tools: CodexTools = "classic"
    """What Codex's catalog offers: tools of their own, or its code mode."""
    websockets: bool = True
    """False: an upgrade is answered 426, and the client goes on over HTTP."""
    rules: Path | None = None
    """File of `rules.Rules`: helpers, what is trained on, other models."""
    overflow_limit: int = 8
    """Overflows in a row after which a session is stopped; 0: never."""
    assumed_window: int | None = None
    """The window in tokens that the harness believes in: usage is told in proportion to it."""
    policy_version: int = 0
    policy_label: str | None = None

    def __post_init__(self) -> None:
        if not self.upstreams:
            raise ConfigError(
                "no engine is named: give --upstream URL (a vLLM server; in mitmproxy --set polar_upstream=URL) "
                "or set POLAR_UPSTREAM"
            )
        for name, port in {
            "--port": self.port,
            "--control-port": self.control_port,
            "--gateway-port": self.gateway_port or 0,
        }.items():
            if not 0 <= port <= 65535:
                raise ConfigError(f"{name} {port} is no port: 0 (a free one) to 65535")
        _check_choice("--codex-tools", self.codex_tools, get_args(CodexTools))
        if self.overflow_limit < 0:
            raise ConfigError(f"--overflow-limit {self.overflow_limit}: 0 (never) or more")
        if self.assumed_window is not None and self.assumed_window < 1:
            raise ConfigError(f"--assumed-window {self.assumed_window}: tokens, at least 1")
        _check_choice("--egress", self.egress, get_args(Egress))
        _check_choice("--continuation", self.continuation, get_args(Continuation))
        _check_choice("--continuation-thinking", self.continuation_thinking, get_args(ContinuationThinking))
        if self.key is not None and not self.key:
            raise ConfigError("--key is empty: leave it out, or give a secret")
        if not is_loopback(self.host) and self.key is None:
            raise ConfigError(
                f"--host {self.host} is reachable from other machines: give --key K (a secret that every session then "
                "needs), or stay on 127.0.0.1"
            )
        if self.gateway_port is not None and self.key is None:
            raise ConfigError("--gateway-port opens an endpoint that takes calls without the proxy: give --key K too")
        self._check_workers()
        self._check_times()
        check_sampling(self.sampling)
        if self.policy_version < 0:
            raise ConfigError(f"--policy-version {self.policy_version} is negative: versions count up from 0")

    def _check_workers(self) -> None:
        if self.workers < 1:
            raise ConfigError(f"--workers {self.workers}: at least 1")
        if self.workers == 1:
            return
        if self.web:
            raise ConfigError("--web shows one process: leave it out, or use --workers 1")
        for name, port in {"--port": self.port, "--gateway-port": self.gateway_port or 0}.items():
            if port and port + self.workers - 1 > 65535:
                raise ConfigError(f"{name} {port} with --workers {self.workers} goes beyond 65535: choose a lower port")

    def _check_times(self) -> None:
        if not (math.isfinite(self.header_grace) and self.header_grace >= 0):
            raise ConfigError(f"--header-grace {self.header_grace}: seconds, 0 or more")
        if not (math.isfinite(self.session_idle) and self.session_idle > 0):
            raise ConfigError(f"--session-idle {self.session_idle}: seconds, above 0")

    @property
    def spool_folder(self) -> Path:
        return self.spool if self.spool is not None else self.home / "spool"


def _check_choice(option: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ConfigError(f"{option} {value!r} is unknown: one of {', '.join(choices)}")


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches a listener on `host`."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def parse_sampling(text: str) -> dict[str, float | int]:
    """`temperature=1,top_p=1` as a dict of floats and ints. Raises ConfigError for unknown names and bad numbers."""
    sampling: dict[str, float | int] = {}
    for item in filter(None, (part.strip() for part in text.split(","))):
        name, equals, raw = (piece.strip() for piece in item.partition("="))
        if not equals:
            raise ConfigError(f"--sampling {item!r} has no value: write NAME=NUMBER,NAME=NUMBER")
        if name in sampling:
            raise ConfigError(f"--sampling names {name} twice")
        bound = SAMPLING.get(name)
        if bound is None:
            raise ConfigError(f"--sampling {name!r} is unknown: one of {', '.join(SAMPLING)}")
        try:
            sampling[name] = bound.kind(raw)
        except ValueError:
            raise ConfigError(f"--sampling {name}={raw}: must be {bound}") from None
    check_sampling(sampling)
    return sampling


def check_sampling(sampling: Mapping[str, float | int]) -> None:
    """Raise ConfigError unless every override is a known parameter within its bounds."""
    for name, value in sampling.items():
        bound = SAMPLING.get(name)
        if bound is None:
            raise ConfigError(f"--sampling {name!r} is unknown: one of {', '.join(SAMPLING)}")
        if not bound.holds(value):
            raise ConfigError(f"--sampling {name}={value}: must be {bound}")


def parse_upstreams(values: Iterable[str]) -> tuple[str, ...]:
    """Engine URLs, each value one or several (split at blanks and commas), normalised and without repeats.

    `http://gpu:8000/v1/` and `http://gpu:8000` are the same engine. Raises ConfigError for what is no http(s) URL.
    """
    urls = (url for value in values for url in re.split(r"[\s,]+", value) if url)
    return tuple(dict.fromkeys(_upstream_url(url) for url in urls))


def _upstream_url(text: str) -> str:
    try:
        parts = urlsplit(text)
        sound = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        sound = False
    if not sound:
        raise ConfigError(f"--upstream {text!r} is no http(s) URL: write it like http://127.0.0.1:8000")
    path = parts.path.rstrip("/").removesuffix("/v1").rstrip("/")
    return urlunsplit((parts.scheme, parts.netloc, path, "", ""))


def database_url(text: str) -> str:
    """`--db` as an SQLAlchemy URL; a bare path is an SQLite file. SQLite paths become absolute, so that every process
    means the same file. Raises ConfigError for a database that is neither SQLite nor PostgreSQL."""
    if not text.strip():
        raise ConfigError("--db is empty: give a path or a URL like sqlite:///polar.db")
    if "://" not in text:
        return f"sqlite:///{Path(text).expanduser().absolute()}"
    scheme, _, rest = text.partition("://")
    name, _, driver = scheme.partition("+")
    if name == "sqlite" and driver in ("", "pysqlite"):
        path = rest.removeprefix("/")
        if not rest.startswith("/") or not path or path.startswith(":memory:"):
            raise ConfigError(f"--db {text!r} names no file: write sqlite:///relative.db or sqlite:////absolute.db")
        return f"sqlite:///{Path(path).expanduser().absolute()}"
    if name in ("postgresql", "postgres") and driver in ("", "psycopg"):
        return f"postgresql+psycopg://{rest}"
    raise ConfigError(f"--db {scheme}://… is not supported: sqlite:///PATH or postgresql://USER@HOST/NAME")


def check_session_id(text: str) -> str:
    """`text`, when it is a session id; else ConfigError."""
    if SESSION_ID.fullmatch(text) is None:
        raise ConfigError(f"session id {text!r}: use 1 to 128 of A-Z a-z 0-9 . _ -")
    return text
