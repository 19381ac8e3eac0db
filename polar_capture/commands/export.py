"""`polar-capture export`"""

from pathlib import Path
from typing import Any

import click

from polar_capture.commands import options
from polar_capture.commands.output import print_json, print_table
from polar_capture.commands.progress import progress
from polar_capture.commands.reading import open_store
from polar_capture.exits import Exit, Failure
from polar_capture.export.registry import MODULES
from polar_capture.home import Home


@click.command()
@options.places
@options.as_json
@click.option("--format", "format", type=click.Choice(list(MODULES)), required=True, help="A trainer's format.")
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    required=True,
    help="The file; its manifest goes beside it.",
)
@click.option(
    "--sql",
    metavar='"SELECT id FROM samples WHERE …"',
    help="Take these samples, in place of: verdict exact or repaired, and a reward (SFT formats: any).",
)
@click.option(
    "--strategy", type=click.Choice(["prefix_merging", "per_request"]), help="By default the one that was built."
)
@click.option("--strict", is_flag=True, help="Leave out samples with suspect logprobs (all exactly 0).")
@click.option("--min-policy-version", type=int, metavar="N", help="Leave out samples with older turns.")
@click.option("--group-size", type=int, metavar="N", help="Leave out groups that have not exactly N sessions.")
def export(db: str, home: Home, as_json: bool, format: str, out: Path, **chosen: Any) -> None:
    """Write samples in a trainer's format, with a manifest that says what was left out and why.

    Status 3 when no sample was left to export.
    """
    from polar_capture import exports
    from polar_capture.sample_choice import Choice

    if not out.absolute().parent.is_dir():
        raise Failure(f"--out {out}: the folder {out.absolute().parent} does not exist", Exit.USAGE)
    with open_store(db, home) as captured, progress("samples") as heard:
        manifest = exports.export(
            captured, out.absolute(), exports.ExportOptions(format=format, choice=Choice(**chosen)), heard
        )
    if as_json:
        print_json(manifest.as_json())
    if not manifest.samples:
        raise Failure(f"nothing exported: {exports.reasons_for_nothing(manifest)}", Exit.NOTHING)
    if as_json:
        return
    print_table(
        ["what", "count"],
        [
            ("samples", manifest.samples),
            ("sessions", manifest.sessions),
            ("groups", len(manifest.groups)),
            ("tokens", manifest.tokens),
            ("trained tokens", manifest.trained_tokens),
            ("samples with suspect logprobs", manifest.suspect_samples),
            *((f"left out: {name}", count) for name, count in sorted(manifest.left_out.items())),
            *((f"calls left out: {name}", count) for name, count in sorted(manifest.calls_left_out.items())),
            ("sessions without reward", manifest.sessions_without_reward),
            ("sessions not built", manifest.sessions_not_built),
        ],
        numeric=["count"],
    )
    if manifest.stale_rewards:
        click.echo(
            f"{manifest.stale_rewards} sessions have another outcome now than their samples were built with: "
            "run `polar-capture build` to take it in"
        )
    for session, missing in manifest.incomplete_sessions.items():
        click.echo(f"session {session} is incomplete: no row for call {', '.join(map(str, missing))}")
    click.echo(f"{out} ({manifest.size} bytes, sha256 {manifest.sha256}), {out}.manifest.json")
