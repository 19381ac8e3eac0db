"""Rewards from Python: give one at any time, see the history, bring the built samples up to date.

The other ways in are `polar-capture reward`, the control host, `run --reward-cmd` (`polar_capture.reward_command`):
samples that are built already get their rewards and advantages anew with each of them (`polar_capture.recredit`). An
INSERT into the table `rewards` counts from the next `build` or `refresh` on; `export` says where one is waiting.
"""

import math
import os
from typing import Any

import sqlalchemy as sa

from polar_capture import store
from polar_capture.builds import BuildReport, Plan, build
from polar_capture.recredit import recredit
from polar_capture.store.models import Sample


def give(
    db: str | os.PathLike[str],
    session_id: str,
    value: float,
    *,
    name: str = "outcome",
    call_id: str | None = None,
    comment: str | None = None,
    source: str = "python",
) -> str:
    """Adds a reward and returns its id; the latest of a name counts. `call_id` rewards one call of the session. Built
    samples of the session and its group are brought up to date.

    ValueError for a value that is not finite, KeyError for an unknown session or call.
    """
    if not math.isfinite(value):
        raise ValueError(f"reward {value}: a reward is a finite number")
    with store.open(db, create=False) as captured:
        reward_id = captured.add_reward(session_id, value, name=name, call_id=call_id, source=source, comment=comment)
        recredit(captured, session_id)
        return reward_id


def refresh(db: str | os.PathLike[str], session_id: str) -> int:
    """Gives the built samples of the session and its group rewards and advantages anew, as after rewards that were
    inserted by SQL; how many rows that were."""
    with store.open(db, create=False) as captured:
        return recredit(captured, session_id)


def history(db: str | os.PathLike[str], session_id: str) -> list[dict[str, Any]]:
    """All rewards of a session, in the order they were given."""
    with store.open(db, create=False) as captured:
        return captured.rewards(session_id)


def rebuild(db: str | os.PathLike[str], session_id: str, plan: Plan | None = None) -> BuildReport | None:
    """Builds the session's samples anew by another plan, with the advantages of its group; None where the session has
    no samples of the plan's strategy yet."""
    plan = plan or Plan()
    with store.open(db, create=False) as captured:
        query = sa.select(Sample.id).where(Sample.session_id == session_id, Sample.strategy == plan.options.strategy)
        with captured.database.read.connect() as connection:
            if connection.execute(query.limit(1)).first() is None:
                return None
        return build(captured, plan, session_id=session_id)
