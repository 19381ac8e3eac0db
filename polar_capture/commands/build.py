"""`polar-capture build`"""

from typing import TYPE_CHECKING, Any

import click

from polar_capture.commands import options
from polar_capture.commands.output import print_json, print_table
from polar_capture.commands.progress import progress
from polar_capture.commands.reading import open_store
from polar_capture.config import ConfigError
from polar_capture.exits import Exit, Failure
from polar_capture.home import Home

if TYPE_CHECKING:
    from polar_capture.builds import BuildReport, Plan
    from polar_capture.trajectories.advantages import GroupReport

ADMISSIBLE = ["aborted", "late_call", "mixed_policy", "nested", "side", "undelivered"]


@click.command()
@options.places
@options.as_json
@options.choice(
    "--strategy", among=["prefix_merging", "per_request"], help="One sample a conversation path, or one a call."
)
@options.choice(
    "--advantage",
    among=["grpo", "dr-grpo", "rloo", "none"],
    help="(r − mean)/(std + 1e-4), r − mean, r − mean of the others, or none.",
)
@click.option("--session", metavar="ID", help="Build this session (and bring its group's advantages up to date).")
@click.option("--group", metavar="ID", help="Build the sessions of this group.")
@options.choice(
    "--share",
    "sharing",
    among=["full", "split", "tokens"],
    help="A session's advantage over its branches: each has all, an equal part, or a part by trained tokens.",
)
@options.choice(
    "--credit",
    among=["outcome", "last-turn", "discounted"],
    help="Credit over turns: all the same, the last alone, or γ^(K−1−k) with --gamma.",
)
@click.option("--gamma", type=float, default=1.0, show_default=True, help="Discount of --credit discounted.")
@click.option(
    "--component",
    "components",
    multiple=True,
    metavar="NAME=WEIGHT",
    help="Rewards that make up a session's; default outcome=1.",
)
@click.option(
    "--admit",
    multiple=True,
    type=click.Choice(ADMISSIBLE),
    help="Train calls in spite of this reason; may be given several times.",
)
@options.choice("--truncated", among=["train", "mask"], help="Turns that were cut by their length.")
@options.choice(
    "--suspect", among=["train", "mask"], help="Turns whose logprobs are all exactly 0 (speculative decoding)."
)
@click.option(
    "--max-staleness",
    type=click.IntRange(min=0),
    metavar="N",
    help="Turns sampled more than N policy versions ago are context only; their rows say stale_policy.",
)
@click.option(
    "--policy-version",
    type=click.IntRange(min=0),
    metavar="V",
    help="The version that --max-staleness counts back from; by default the newest of any call.",
)
@click.option("--stitch", is_flag=True, help="Join over the template's empty think block, where that is proved.")
def build(db: str, home: Home, as_json: bool, session: str | None, group: str | None, **chosen: Any) -> None:
    """Build training samples from the captured calls; replaces the rows of the strategy, ids stay."""
    if session is not None and group is not None:
        raise ConfigError("--session and --group exclude each other")
    from polar_capture import builds

    plan = _plan(chosen)
    with open_store(db, home) as captured, progress("sessions") as heard:
        try:
            report = builds.build(captured, plan, session_id=session, group_id=group, progress=heard)
        except KeyError as error:
            raise Failure(f"{error.args[0]}; `polar-capture sessions` lists them", Exit.USAGE) from error
        given = set(captured.reward_names())
    for name, _ in plan.credit.components:
        if given and name not in given:
            there = ", ".join(sorted(given))
            click.echo(f"no reward is named {name!r}, so no session has a reward; given were: {there}", err=True)
    if as_json:
        print_json(report.as_json())
        return
    _print(report)


def _plan(chosen: dict[str, Any]) -> "Plan":
    import msgspec

    from polar_capture.builds import Plan

    components = []
    for text in chosen.pop("components"):
        name, _, weight = text.rpartition("=")
        try:
            components.append((name, float(weight)))
        except ValueError:
            raise ConfigError(f"--component {text}: give NAME=WEIGHT, for instance format=0.2") from None
    try:
        return msgspec.convert(
            {
                "options": {name: chosen[name] for name in ("strategy", "admit", "truncated", "suspect", "stitch")},
                "credit": {"credit": chosen["credit"], "gamma": chosen["gamma"]}
                | ({"components": components} if components else {}),
                "advantage": chosen["advantage"],
                "sharing": chosen["sharing"],
                "max_staleness": chosen["max_staleness"],
                "policy_version": chosen["policy_version"],
            },
            Plan,
        )
    except msgspec.ValidationError as error:
        raise ConfigError(str(error)) from error


def _print(report: "BuildReport") -> None:
    columns = ["session", "calls", "samples", "verdicts", "breaks", "not trained", "sampled", "trained", "delivered"]
    shown = [*report.sessions, report.total()] if len(report.sessions) > 1 else report.sessions
    print_table(
        columns,
        [
            (
                s.session_id,
                s.calls,
                s.samples,
                _counts(s.verdicts),
                _counts(s.breaks),
                _counts(s.reasons + s.masked) + (f" empty {s.empty_calls}" if s.empty_calls else ""),
                s.sampled_tokens,
                s.trained_tokens,
                f"{s.delivered_fraction:.1%}",
            )
            for s in shown
        ],
        numeric=["calls", "samples", "sampled", "trained", "delivered"],
    )
    for s in report.sessions:
        if s.missing_seqs:
            click.echo(f"session {s.session_id} is incomplete: no row for call {', '.join(map(str, s.missing_seqs))}")
    if report.groups:
        print_table(
            ["group", "sessions", "rewarded", "mean", "std", "note"],
            [(g.group_id, g.members, g.rewarded, g.mean, g.std, _note(g)) for g in report.groups],
            numeric=["sessions", "rewarded", "mean", "std"],
        )


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(counts.items()))


def _note(group: "GroupReport") -> str:
    notes = ["zero variance"] if group.zero_variance else []
    notes += ["fewer than two rewards: no advantage"] if group.too_few else []
    notes += [f"{len(group.missing)} without reward"] if group.missing else []
    notes += [f"no session for sample {', '.join(map(str, group.missing_indices))}"] if group.missing_indices else []
    return "; ".join(notes)
