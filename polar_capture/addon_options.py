"""mitmproxy's options of the addon, which mirror those of `serve`, and the ServeConfig that they make.

mitmproxy knows no float options, so times are strings of seconds.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from polar_capture import config as cfg
from polar_capture.config import ConfigError, ServeConfig
from polar_capture.home import Home
from polar_capture.rules import read as read_rules


class Option(msgspec.Struct, frozen=True):
    """One addon option as `loader.add_option` takes it."""

    name: str
    kind: Any
    default: Any
    help: str


OPTIONS: tuple[Option, ...] = (
    Option(
        "polar_upstream",
        Sequence[str],
        [],
        "Base URL of a vLLM server; several are shared by session. Else POLAR_UPSTREAM.",
    ),
    Option("polar_model", str, "", "The engine's model name; empty: the first that it lists."),
    Option("polar_db", str, "", "SQLite path or database URL. Else POLAR_DB, else polar.db in the current folder."),
    Option("polar_home", str, "", "Folder of secrets and spool. Else POLAR_HOME, else ~/.polar-capture."),
    Option("polar_sampling", str, "", "Sampling parameters forced upon the harness: K=V,…"),
    Option("polar_egress", str, "tunnel", "What happens to other hosts: tunnel or block."),
    Option("polar_continuation", str, "auto", "Exact continuation: auto, exact or off."),
    Option("polar_continuation_thinking", str, "keep", "Earlier thoughts: keep, or as the template has it."),
    Option("polar_strict_sessions", bool, False, "Refuse calls that name no session."),
    Option("polar_key", str, "", "Proxy password and gateway key."),
    Option("polar_header_grace", str, "2.0", "Seconds for which the HTTP status is held back."),
    Option("polar_session_idle", str, "3600", "Seconds without a call after which a session has ended."),
    Option("polar_gateway_port", int, -1, "Port of the plain base-URL endpoint; -1: closed, 0: a free one."),
    Option("polar_control_port", int, 0, "Loopback port of the control host; 0: a free one."),
    Option(
        "polar_control_token",
        str,
        "",
        "Token of the guarded control pages. Else POLAR_CONTROL_TOKEN, else the home folder's.",
    ),
    Option("polar_spool", str, "", "Folder that takes rows while the database is away."),
    Option("polar_tokenizer", str, "", "Tokenizer for showing ids to people."),
    Option("polar_provider_hosts", Sequence[str], [], "Host names to intercept besides the built-in providers'."),
    Option("polar_codex_tools", str, "classic", "Codex's tools: classic or native."),
    Option("polar_websockets", bool, True, "Serve WebSockets."),
    Option("polar_rules", str, "", "File of rules: helpers, what is trained on, other models."),
    Option("polar_overflow_limit", int, 8, "Overflows in a row that stop a session; 0: never."),
    Option("polar_assumed_window", int, 0, "The window that the harness believes in; 0: told as it is."),
    Option("polar_policy_version", int, 0, "The policy version in force at the start."),
    Option("polar_policy_label", str, "", "Its label."),
)


def config(options: Any) -> ServeConfig:
    """The ServeConfig of mitmproxy's options. Raises ConfigError."""
    environment = os.environ
    upstreams = list(options.polar_upstream) or environment.get("POLAR_UPSTREAM", "").split()
    home = Home(Path(options.polar_home or environment.get("POLAR_HOME") or cfg.DEFAULT_HOME).expanduser())
    rules = Path(options.polar_rules) if options.polar_rules else None
    read_rules(rules)
    return ServeConfig(
        upstreams=cfg.parse_upstreams(upstreams),
        home=home.path,
        db=cfg.database_url(options.polar_db or environment.get("POLAR_DB") or cfg.DEFAULT_DB),
        host=options.listen_host or "127.0.0.1",
        port=options.listen_port or 8080,
        control_port=options.polar_control_port,
        control_token=options.polar_control_token or home.control_token(),
        model=options.polar_model or None,
        sampling=cfg.parse_sampling(options.polar_sampling),
        gateway_port=None if options.polar_gateway_port < 0 else options.polar_gateway_port,
        egress=options.polar_egress,
        continuation=options.polar_continuation,
        continuation_thinking=options.polar_continuation_thinking,
        strict_sessions=options.polar_strict_sessions,
        key=options.polar_key or None,
        header_grace=_seconds("polar_header_grace", options.polar_header_grace),
        session_idle=_seconds("polar_session_idle", options.polar_session_idle),
        spool=Path(options.polar_spool) if options.polar_spool else None,
        tokenizer=options.polar_tokenizer or None,
        provider_hosts=tuple(options.polar_provider_hosts),
        codex_tools=options.polar_codex_tools,
        websockets=options.polar_websockets,
        rules=rules,
        overflow_limit=options.polar_overflow_limit,
        assumed_window=options.polar_assumed_window or None,
        policy_version=options.polar_policy_version,
        policy_label=options.polar_policy_label or None,
    )


def values(config: ServeConfig) -> dict[str, Any]:
    """The options that make this ServeConfig: how `serve` hands its own to the addon."""
    return {
        "polar_upstream": list(config.upstreams),
        "polar_model": config.model or "",
        "polar_db": config.db,
        "polar_home": str(config.home),
        "polar_sampling": ",".join(f"{name}={value}" for name, value in config.sampling.items()),
        "polar_egress": config.egress,
        "polar_continuation": config.continuation,
        "polar_continuation_thinking": config.continuation_thinking,
        "polar_strict_sessions": config.strict_sessions,
        "polar_key": config.key or "",
        "polar_header_grace": str(config.header_grace),
        "polar_session_idle": str(config.session_idle),
        "polar_gateway_port": -1 if config.gateway_port is None else config.gateway_port,
        "polar_control_port": config.control_port,
        "polar_control_token": config.control_token or "",
        "polar_spool": str(config.spool or ""),
        "polar_tokenizer": config.tokenizer or "",
        "polar_provider_hosts": list(config.provider_hosts),
        "polar_codex_tools": config.codex_tools,
        "polar_websockets": config.websockets,
        "polar_rules": str(config.rules or ""),
        "polar_overflow_limit": config.overflow_limit,
        "polar_assumed_window": config.assumed_window or 0,
        "polar_policy_version": config.policy_version,
        "polar_policy_label": config.policy_label or "",
    }


def _seconds(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ConfigError(f"{name}={text!r} is no number of seconds") from None
