"""`polar-capture reward`"""

import math

import click

from polar_capture.commands import options
from polar_capture.commands.output import print_json
from polar_capture.config import ConfigError
from polar_capture.exits import Exit, Failure
from polar_capture.home import Home


@click.command(context_settings={"ignore_unknown_options": True})  # so that -0.5 is a value and not an option
@click.argument("session")
@click.argument("value", type=float)
@options.places
@options.as_json
@click.option("--call", metavar="ID", help="Reward this call of the session alone.")
@click.option(
    "--name", default="outcome", show_default=True, help="Which reward; the latest `outcome` is the session's."
)
@click.option("--comment", metavar="TEXT", help="Why.")
def reward(
    session: str, value: float, db: str, home: Home, as_json: bool, call: str | None, name: str, comment: str | None
) -> None:
    """Give SESSION the reward VALUE. Rewards are only ever added: the latest of a name counts.

    Samples that are built already get their rewards and advantages anew, with those of the session's group, by the
    options they were built with.

    Status 2 for a session or a call that is not in the database.
    """
    if not math.isfinite(value):
        raise ConfigError(f"reward {value}: a reward is a finite number")
    if not name.strip():
        raise ConfigError("--name is empty: a reward has a name; the session's own is `outcome`")
    from polar_capture.commands.reading import open_store
    from polar_capture.recredit import recredit

    with open_store(db, home) as captured:
        try:
            reward_id = captured.add_reward(session, value, name=name, call_id=call, source="cli", comment=comment)
        except KeyError as error:
            raise Failure(
                f"{error.args[0]}; `polar-capture sessions` and `calls SESSION` list what is there", Exit.USAGE
            ) from error
        samples = recredit(captured, session)
    if as_json:
        print_json({"id": reward_id, "samples": samples})
        return
    click.echo(f"{name} {value:g} for session {session} (reward {reward_id})")
    if samples:
        click.echo(f"{samples} samples of it and its group have their rewards and advantages anew")
