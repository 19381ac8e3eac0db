"""`polar-capture verify`"""

from typing import TYPE_CHECKING

import click

from polar_capture.commands import options
from polar_capture.commands.output import print_json, print_table
from polar_capture.commands.progress import progress
from polar_capture.commands.reading import known_session, open_store
from polar_capture.exits import Exit, Failure
from polar_capture.home import Home

if TYPE_CHECKING:
    from polar_capture.verification import Verification


@click.command()
@options.places
@options.as_json
@click.option("--session", metavar="ID", help="Check the samples of this session alone.")
@click.option("--rescore", metavar="URL", help="Score the samples again on this engine, with the same weights.")
@click.option(
    "--tolerance",
    type=click.FloatRange(min=0),
    default=1e-3,
    show_default=True,
    help="Largest difference of a logprob in nats: 1e-3 holds for float32 engines; bfloat16 ones need about 0.1.",
)
def verify(db: str, home: Home, as_json: bool, session: str | None, rescore: str | None, tolerance: float) -> None:
    """Check every sample against the stored calls: lengths, ids, masks, logprobs, contexts, and that no token trains
    twice; with --rescore also against the engine.

    Status 1 when one does not hold. `polar-capture db check` checks the calls themselves.
    """
    from polar_capture import verification
    from polar_capture.engine_scoring import Engine

    with open_store(db, home) as captured, progress("samples") as heard:
        if session is not None:
            known_session(captured, session)
        engine = None if rescore is None else Engine(rescore)
        report = verification.verify(captured, session_id=session, rescore=engine, tolerance=tolerance, progress=heard)
    if as_json:
        print_json(report.as_json())
    else:
        _print(report)
    if not report.samples:
        which = "" if session is None else f" of session {session}"
        click.echo(f"there are no samples{which} to check: `polar-capture build` makes them", err=True)
    if not report.holds:
        found = ", ".join(f"{count} {kind}" for kind, count in sorted(report.mismatches.items()))
        beyond = f"{len(report.beyond_tolerance)} samples beyond the tolerance" if report.beyond_tolerance else ""
        raise Failure(f"verification failed: {', '.join(filter(None, (found, beyond)))}", Exit.FAULT)


def _print(report: "Verification") -> None:
    for finding in report.findings:
        click.echo(finding)
    rows = [("samples", report.samples), ("tokens", report.tokens), ("trained tokens", report.trained_tokens)]
    rows.append(("mismatches", report.mismatches.total()))
    if report.rescored or report.too_long:
        rows += [("samples re-scored", report.rescored), ("tokens re-scored", report.rescored_tokens)]
        rows.append(("samples too long for the engine", len(report.too_long)))
    print_table(["what", "count"], rows, numeric=["count"])
    worst = report.worst
    if worst is not None:
        click.echo(
            f"mean difference {report.mean_difference:.3g}, worst {worst.difference:.3g}: sample {worst.sample_id}, "
            f"token {worst.at} (call {worst.call_id}, id {worst.token}): stored {worst.stored:.6f}, "
            f"re-scored {worst.rescored:.6f}"
        )
        click.echo(f"  ids before {worst.before}, after {worst.after}")
    if report.worst_text is not None and report.worst_text[1] is not None:
        before, token, after = report.worst_text
        click.echo(f"  text {before!r} [{token!r}] {after!r}")
