"""Options that several commands share, and the structs that they become."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from polar_capture.config import (
    DEFAULT_DB,
    DEFAULT_HOME,
    SAMPLING,
    ServeConfig,
    database_url,
    parse_sampling,
    parse_upstreams,
)
from polar_capture.home import Home
from polar_capture.rules import read as read_rules

F = TypeVar("F", bound=Callable[..., Any])


def _apply(options: list[Callable[[F], F]], command: F) -> F:
    for option in reversed(options):
        command = option(command)
    return command


def choice(*names: str, among: Sequence[str], help: str) -> Callable[[F], F]:
    """An option that takes one of some words, the first unless another is given."""
    return click.option(*names, type=click.Choice(among), default=among[0], show_default=True, help=help)


def number(*names: str, default: float, metavar: str | None = None, help: str) -> Callable[[F], F]:
    """An option that takes a number of its default's type."""
    return click.option(*names, type=type(default), default=default, show_default=True, metavar=metavar, help=help)


def _database(ctx: click.Context, parameter: click.Parameter, value: str) -> str:
    return database_url(value)


def _home(ctx: click.Context, parameter: click.Parameter, value: str) -> Home:
    return Home(Path(value).expanduser().absolute())


def places(command: F) -> F:
    """`--db` and `--home`, as `db` (an SQLAlchemy URL) and `home` (a Home)."""
    return _apply(
        [
            click.option(
                "--db",
                envvar="POLAR_DB",
                default=DEFAULT_DB,
                show_default=True,
                metavar="URL|PATH",
                callback=_database,
                help="Database: SQLite or PostgreSQL; a bare path is SQLite.  [env: POLAR_DB]",
            ),
            click.option(
                "--home",
                envvar="POLAR_HOME",
                default=DEFAULT_HOME,
                show_default=True,
                metavar="DIR",
                callback=_home,
                help="Folder of CA, secrets, spool and logs.  [env: POLAR_HOME]",
            ),
        ],
        command,
    )


def as_json(command: F) -> F:
    """`--json`, as `as_json`."""
    return click.option("--json", "as_json", is_flag=True, help="Plain JSON on stdout.")(command)


def serving(port: int) -> Callable[[F], F]:
    """Every option of `serve` but the places; `port` is the default of `--port`."""

    def decorate(command: F) -> F:
        return _apply(
            [
                click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on."),
                click.option("--port", type=int, default=port, show_default=True, help="0 takes a free one."),
                click.option(
                    "--upstream",
                    "upstreams",
                    multiple=True,
                    envvar="POLAR_UPSTREAM",
                    metavar="URL",
                    help="A vLLM server; may be given several times.  [env: POLAR_UPSTREAM]",
                ),
                click.option("--model", metavar="NAME", help="The engine's model; by default the first that it lists."),
                click.option(
                    "--sampling",
                    multiple=True,
                    metavar="K=V,…",
                    help=f"Sampling forced upon the harness: {', '.join(SAMPLING)}.",
                ),
                click.option("--web", is_flag=True, help="Also serve mitmweb, to look at flows and tokens."),
                click.option(
                    "--gateway-port", type=int, metavar="P", help="Also listen as a base-URL endpoint (needs --key)."
                ),
                number("--control-port", default=0, help="Port of the control host on loopback."),
                number("--workers", default=1, metavar="N", help="Processes, each on its port."),
                choice(
                    "--egress",
                    among=["tunnel", "block"],
                    help="What hosts other than providers get: a blind tunnel, or 403 (the default of `rollout`).",
                ),
                choice(
                    "--continuation",
                    among=["auto", "exact", "off"],
                    help="Sample each turn from the exact tokens of the one before.",
                ),
                choice(
                    "--continuation-thinking",
                    among=["keep", "template"],
                    help="Earlier thoughts: keep them in the context, or drop them where the template does.",
                ),
                click.option("--strict-sessions", is_flag=True, help="Refuse calls that name no session."),
                click.option(
                    "--key", envvar="POLAR_KEY", metavar="K", help="Secret that sessions need.  [env: POLAR_KEY]"
                ),
                number(
                    "--header-grace",
                    default=2.0,
                    metavar="S",
                    help="Seconds for which the HTTP status waits for the engine.",
                ),
                number(
                    "--session-idle", default=3600.0, metavar="S", help="Seconds without a call that end a session."
                ),
                click.option(
                    "--spool",
                    type=click.Path(path_type=Path, file_okay=False),
                    help="Where rows wait for the database.",
                ),
                click.option(
                    "--tokenizer", metavar="PATH|MODEL", help="For showing ids as text; never used to capture."
                ),
                click.option(
                    "--provider-host",
                    "provider_hosts",
                    multiple=True,
                    metavar="HOST",
                    help="Intercept this host too; may be given several times.",
                ),
                choice(
                    "--codex-tools",
                    among=["classic", "native"],
                    help="Codex's tools: each of its own, or one that takes JavaScript.",
                ),
                click.option(
                    "--websockets/--no-websockets",
                    default=True,
                    show_default=True,
                    help="Serve WebSockets, or have clients use HTTP.",
                ),
                click.option(
                    "--rules",
                    type=click.Path(path_type=Path, dir_okay=False),
                    metavar="FILE",
                    help="Which calls are helpers, are trained on, go to another model.",
                ),
                number(
                    "--overflow-limit",
                    default=8,
                    metavar="N",
                    help="Stop a session after N overflows of its context in a row; 0: never.",
                ),
                click.option(
                    "--assumed-window",
                    type=int,
                    metavar="TOKENS",
                    help="The window that the agent believes in: it is told usage in proportion, and compacts in time.",
                ),
                number("--policy-version", default=0, help="Version of the weights now served."),
                click.option("--policy-label", metavar="TEXT", help="What that version is called."),
            ],
            command,
        )

    return decorate


def serve_config(db: str, home: Home, *, control_token: str | None, options: dict[str, Any]) -> ServeConfig:
    """The configuration that `places` and `serving` describe. Raises ConfigError."""
    spool, rules = options.pop("spool"), options.pop("rules")
    read_rules(rules)
    return ServeConfig(
        **options
        | {
            "upstreams": parse_upstreams(options["upstreams"]),
            "sampling": parse_sampling(",".join(options["sampling"])),
        },
        db=db,
        home=home.path,
        control_token=control_token,
        spool=None if spool is None else spool.absolute(),
        rules=None if rules is None else rules.absolute(),
    )
