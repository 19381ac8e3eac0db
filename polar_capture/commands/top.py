"""`polar-capture top`"""

import re
import signal
import sys
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from polar_capture.commands import options
from polar_capture.commands.output import print_json, print_table
from polar_capture.config import ConfigError
from polar_capture.exits import Exit, Failure
from polar_capture.home import Home

if TYPE_CHECKING:
    from rich.console import RenderableType

    from polar_capture.control_client import ControlClient

_LINE = re.compile(r"^(\w+)(?:\{(.*)\})? (\S+)$")
_SHOWN = ("session", "harness", "running", "idle", "calls", "sampled", "waiting", "engine", "errors", "not trainable")
_AROUND = 6
"""Lines that are no session: the headline (two, more where it is narrow), columns, how many are left out."""


class Reading(NamedTuple):
    """One look at a proxy: its metrics by `name{labels}`, its live sessions, and when (monotonic seconds)."""

    at: float
    metrics: dict[str, float]
    sessions: list[dict[str, Any]]


@click.command()
@options.places
@options.as_json
@click.option(
    "--proxy",
    envvar="POLAR_PROXY",
    default="http://127.0.0.1:8080",
    show_default=True,
    metavar="URL",
    help="The proxy to look at.  [env: POLAR_PROXY]",
)
@click.option("--interval", type=float, default=2.0, show_default=True, metavar="S", help="Seconds between two looks.")
@click.option("--once", is_flag=True, help="Print one table over one interval, and end.")
def top(db: str, home: Home, as_json: bool, proxy: str, interval: float, once: bool) -> None:
    """Show what a running proxy does: sessions, tokens a second, waiting, errors, what is not trainable.

    Reads the control host with POLAR_CONTROL_TOKEN, else the token of the home folder. Ctrl-C ends it. Into a pipe or a
    file it prints one table, as with --once.
    """
    if not interval > 0:
        raise ConfigError(f"--interval {interval}: give seconds above 0")
    from polar_capture.control_client import PROXIED, ControlClient

    client = ControlClient(PROXIED, home.control_token(), proxy=proxy)
    before = look(client)
    if once or as_json or not sys.stdout.isatty():
        time.sleep(interval)
        now = look(client)
        if as_json:
            print_json({**totals(before, now), "sessions": now.sessions})
        else:
            click.echo(headline(totals(before, now)))
            print_table(_SHOWN, map(_row, now.sessions), numeric=_SHOWN[2:])
        return
    _follow(client, before, interval)


def look(client: "ControlClient") -> Reading:
    """Read metrics and live sessions. Raises Failure where the proxy cannot be reached or refuses the token."""
    return Reading(time.monotonic(), parse(client.metrics()), client.live())


def parse(text: str) -> dict[str, float]:
    """Samples of Prometheus' text format as {`name{labels}`: value}."""
    found = {}
    for line in text.splitlines():
        sample = _LINE.match(line)
        if sample:
            name, labels, value = sample.groups()
            found[f"{name}{{{labels}}}" if labels else name] = float(value)
    return found


def totals(before: Reading, now: Reading) -> dict[str, Any]:
    """Rates between two looks, and counts since the proxy began. One that started anew meanwhile counts from 0."""
    seconds = max(now.at - before.at, 1e-6)

    def grown(name: str) -> float:
        value, earlier = now.metrics.get(name, 0.0), before.metrics.get(name, 0.0)
        return value - earlier if value >= earlier else value

    calls = sum(grown(f'polar_calls_total{{status="{status}"}}') for status in ("ok", "error", "aborted"))
    took, engine = grown("polar_call_seconds_total"), grown("polar_engine_seconds_total")
    prefix = 'polar_untrainable_calls_total{reason="'
    return {
        "calls_running": int(now.metrics.get("polar_calls_running", 0)),
        "live_sessions": len(now.sessions),
        "calls_per_second": calls / seconds,
        "sampled_per_second": grown("polar_completion_tokens_total") / seconds,
        "prompt_per_second": grown("polar_prompt_tokens_total") / seconds,
        "call_seconds": took / calls if calls else None,
        "waiting_seconds": max(0.0, took - engine) / calls if calls else None,
        "errors": int(now.metrics.get('polar_calls_total{status="error"}', 0)),
        "aborted": int(now.metrics.get('polar_calls_total{status="aborted"}', 0)),
        "not_trainable": {
            name.removeprefix(prefix).removesuffix('"}'): int(count)
            for name, count in now.metrics.items()
            if name.startswith(prefix) and count
        },
        "policy_version": int(now.metrics.get("polar_policy_version", 0)),
        "paused": bool(now.metrics.get("polar_paused", 0)),
    }


def headline(found: dict[str, Any]) -> str:
    """The totals in two lines."""
    reasons = ", ".join(f"{reason} {count}" for reason, count in sorted(found["not_trainable"].items())) or "none"
    took = "" if found["call_seconds"] is None else f" · {found['call_seconds']:.2f} s a call"
    took += "" if found["waiting_seconds"] is None else f", {found['waiting_seconds']:.2f} s of it not the engine"
    return (
        f"{found['live_sessions']} sessions · {found['calls_running']} calls running · "
        f"{found['sampled_per_second']:,.1f} sampled + {found['prompt_per_second']:,.0f} prompt tokens/s{took}\n"
        f"policy {found['policy_version']}{' (paused)' if found['paused'] else ''} · errors {found['errors']} · "
        f"aborted {found['aborted']} · not trainable: {reasons}"
    )


def _row(session: dict[str, Any]) -> tuple[Any, ...]:
    return (
        session["session"],
        session["harness"],
        session["running"],
        f"{session['idle']:.0f} s",
        session["calls"],
        session["completion_tokens"],
        f"{session['waiting']:.1f} s",
        f"{session['engine']:.1f} s",
        session["errors"],
        session["not_trainable"],
    )


def _follow(client: "ControlClient", before: Reading, interval: float) -> None:
    """Redraw on the terminal's other screen, until Ctrl-C; then the terminal is as it was."""
    from rich.live import Live

    # Without this a SIGTERM would leave the terminal on its other screen, without a cursor.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(Exit.SIGNALLED + signal.SIGTERM))
    try:
        with Live(_picture(before, before, 25), auto_refresh=False, screen=True) as live:
            while True:
                time.sleep(interval)
                try:
                    now = look(client)
                except Failure as failure:  # a proxy that is started again shows again
                    live.update(_picture(before, before, live.console.height, str(failure)), refresh=True)
                    continue
                live.update(_picture(before, now, live.console.height), refresh=True)
                before = now
    except KeyboardInterrupt:
        return


def _picture(before: Reading, now: Reading, height: int, fault: str = "") -> "RenderableType":
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    from polar_capture.commands.output import cell

    table = Table(box=None, pad_edge=False, header_style="underline")
    for column in _SHOWN:
        table.add_column(column, justify="left" if column in _SHOWN[:2] else "right")
    fitting = max(1, height - _AROUND)
    for session in now.sessions[:fitting]:
        table.add_row(*(Text(cell(value), no_wrap=True, overflow="ellipsis") for value in _row(session)))
    parts: list[RenderableType] = [Text(headline(totals(before, now)), style="bold"), Text(), table]
    if fault:
        parts.insert(0, Text(fault.partition("\n")[0], style="bold red"))
    left_out = len(now.sessions) - fitting
    if left_out > 0:
        parts.append(Text(f"… {left_out} more sessions", style="dim"))
    return Group(*parts)
