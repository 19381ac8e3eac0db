"""Which samples an export takes: by default proved or repaired ones with something to train on and a reward, else by
SQL."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

import msgspec
import sqlalchemy as sa

from polar_capture.config import ConfigError
from polar_capture.export.manifest import Manifest
from polar_capture.outcomes import Verdict, Warning
from polar_capture.samples_table import span
from polar_capture.store import Store
from polar_capture.store.models import Call, Reward, Sample, Session
from polar_capture.trajectories.credit import OUTCOME

DEFAULT_VERDICTS = frozenset({Verdict.EXACT, Verdict.REPAIRED})


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """How samples are chosen. `sql` gives sample ids and replaces the default conditions on verdict and reward; the
    rest holds in any case, as does that a sample without a trained token is never taken."""

    sql: str | None = None
    strategy: str | None = None
    """By default the one that was built; prefix_merging where both were."""
    strict: bool = False
    """Leave out samples with a suspect call (logprobs all exactly 0)."""
    min_policy_version: int | None = None
    """Leave out samples with a trained turn of an older policy, or of an unknown one."""
    group_size: int | None = None
    """Leave out, as a whole, groups that do not have this many sessions among the chosen."""


class Chosen(msgspec.Struct):
    """A sample to export, without its arrays."""

    id: str
    strategy: str
    session_id: str
    group_id: str | None
    verdict: str
    reward: float | None
    policy_version_min: int | None
    sample_index: int | None
    harness: str | None
    harness_version: str | None
    started_at: float
    branch: int
    call_ids: list[str]
    """Calls that train in it."""
    versions_known: bool
    idle: dict[str, str]
    """Calls that are context only in every sample, with the reason that the build gave."""


class Selection(msgspec.Struct):
    """The chosen samples, sessions and groups together; how many others were left out for each reason; and the calls
    that the build kept as context, with its reason."""

    chosen: list[Chosen]
    left_out: Counter[str]
    idle: dict[str, str]


def choose(captured: Store, choice: Choice, *, needs_reward: bool, suspects: set[str]) -> Selection:
    """ConfigError for a choice that can't be made, DatabaseError for bad SQL."""
    candidates = _candidates(captured)
    wanted = None if choice.sql is None else _ids(captured, choice.sql)
    selected = [one for one in candidates if wanted is None or one.id in wanted]
    strategy = _strategy(choice, selected) or _strategy(Choice(), candidates)
    left_out: Counter[str] = Counter()
    chosen = []
    for one in candidates:
        why = _objection(one, choice, strategy, wanted, needs_reward=needs_reward, suspects=suspects)
        if why is None:
            chosen.append(one)
        elif one.strategy == strategy:
            left_out[why] += 1
    if choice.group_size is not None:
        chosen = _even_groups(chosen, choice.group_size, left_out)
    idle = {call: why for one in candidates if one.strategy == strategy for call, why in one.idle.items()}
    return Selection(chosen, left_out, idle)


def _objection(
    one: Chosen,
    choice: Choice,
    strategy: str | None,
    wanted: set[str] | None,
    *,
    needs_reward: bool,
    suspects: set[str],
) -> str | None:
    if one.strategy != strategy:
        return "other_strategy"
    if wanted is not None and one.id not in wanted:
        return "not_selected"
    if wanted is None and one.verdict not in DEFAULT_VERDICTS:
        return f"verdict_{one.verdict}"
    if not one.call_ids:
        return "nothing_to_train"
    if wanted is None and needs_reward and one.reward is None:
        return "no_reward"
    if choice.strict and any(call in suspects for call in one.call_ids):
        return "suspect_logprobs"
    oldest = choice.min_policy_version
    if oldest is not None and (
        not one.versions_known or one.policy_version_min is None or one.policy_version_min < oldest
    ):
        return "old_policy"
    return None


def _candidates(captured: Store) -> list[Chosen]:
    columns = (
        Sample.id, Sample.strategy, Sample.session_id, Sample.group_id, Sample.verdict, Sample.reward,
        Sample.policy_version_min, Session.sample_index, Session.harness, Session.harness_version, Session.started_at,
        Sample.branch, Sample.turn_spans,
    )  # fmt: skip
    query = sa.select(*columns).join(Session, Session.id == Sample.session_id)
    with captured.database.read.connect() as connection:
        rows = connection.execution_options(yield_per=1000).execute(query).mappings()
        found = [_candidate(dict(row)) for row in rows]
    # Not sorted by the database: each has its own order of letters, and of nulls.
    found.sort(key=lambda one: (one.group_id is None, one.group_id or "", one.started_at, one.session_id, one.branch))
    return found


def _candidate(row: dict[str, Any]) -> Chosen:
    spans = [span(item) for item in row.pop("turn_spans")]
    trained = [one for one in spans if one.trained]
    return Chosen(
        **row,
        call_ids=[one.call_id for one in trained],
        versions_known=all(one.policy_version is not None for one in trained),
        idle={one.call_id: one.reason for one in spans if one.reason is not None},
    )


def _ids(captured: Store, sql: str) -> set[str]:
    columns, rows = captured.sql(sql)
    place = next((columns.index(name) for name in ("id", "sample_id") if name in columns), None)
    if place is None:
        raise ConfigError(f"--sql gives the columns {', '.join(columns)}: it must give sample ids, as `id`")
    return {str(row[place]) for row in rows}


def _strategy(choice: Choice, selected: Sequence[Chosen]) -> str | None:
    """The one strategy that is exported: two would train every token twice."""
    built = {one.strategy for one in selected}
    if choice.strategy is not None:
        return choice.strategy
    if choice.sql is not None and len(built) > 1:
        raise ConfigError(
            f"--sql takes samples of {' and '.join(sorted(built))}: each token would train twice; "
            "add strategy = 'prefix_merging' to it, or give --strategy"
        )
    return "prefix_merging" if "prefix_merging" in built else next(iter(built), None)


def _even_groups(chosen: list[Chosen], size: int, left_out: Counter[str]) -> list[Chosen]:
    members: dict[str | None, set[str]] = defaultdict(set)
    for one in chosen:
        members[one.group_id].add(one.session_id)
    kept = [one for one in chosen if one.group_id is not None and len(members[one.group_id]) == size]
    if len(kept) < len(chosen):
        left_out["uneven_group"] += len(chosen) - len(kept)
    return kept


def suspect_calls(captured: Store) -> set[str]:
    """Calls with the warning logprobs_all_zero."""
    query = sa.select(Call.id).where(sa.cast(Call.warnings, sa.Text).like(f"%{Warning.LOGPROBS_ALL_ZERO}%"))
    with captured.database.read.connect() as connection:
        return set(connection.execute(query).scalars())


def left_out_calls(
    captured: Store, choice: Choice, selection: Selection, exported: set[str], manifest: Manifest
) -> None:
    """Counts in the manifest every call that trains in no exported sample, by its reason, and the sessions without
    reward or samples: of all sessions, or where SQL chose, of those that it chose."""
    chosen = selection.chosen
    own = {one.session_id for one in chosen}
    strategy = choice.strategy or (chosen[0].strategy if chosen else "prefix_merging")
    columns = (Call.id, Call.session_id, Call.kind, Call.reason, Call.status, Call.completion_tokens)
    with captured.database.read.connect() as connection:
        of_strategy = sa.select(Sample.session_id, sa.func.max(Sample.reward)).where(Sample.strategy == strategy)
        built = dict(connection.execute(of_strategy.group_by(Sample.session_id)).all())
        seen = set()
        for call in connection.execution_options(yield_per=1000).execute(sa.select(*columns)):
            if choice.sql is not None and call.session_id not in own:
                continue
            seen.add(call.session_id)
            if call.id not in exported:
                manifest.calls_left_out[_why(*call[2:], selection.idle.get(call.id))] += 1
        manifest.incomplete_sessions = _incomplete(connection, seen)
        latest = _latest_outcomes(connection)
    manifest.sessions_not_built = len(seen - set(built))
    manifest.sessions_without_reward = sum(1 for session in seen & set(built) if built[session] is None)
    manifest.stale_rewards = sum(1 for session in seen & set(built) if latest.get(session) != built[session])


def _latest_outcomes(connection: sa.Connection) -> dict[str, float]:
    query = sa.select(Reward.session_id, Reward.value).where(Reward.name == OUTCOME, Reward.call_id.is_(None))
    return dict(connection.execute(query.order_by(Reward.created_at, Reward.id)).all())


def _incomplete(connection: sa.Connection, sessions: set[str]) -> dict[str, list[int]]:
    """The missing numbers in each session's order of arrival; sessions that miss none are not in it."""
    rows = sa.func.count(sa.distinct(Call.seq))
    query = sa.select(Call.session_id).group_by(Call.session_id).having(rows <= sa.func.max(Call.seq))
    found = {}
    for session in sorted(sessions.intersection(connection.execute(query).scalars())):
        seqs = set(connection.execute(sa.select(Call.seq).where(Call.session_id == session)).scalars())
        found[session] = sorted(set(range(max(seqs))) - seqs)
    return found


def _why(kind: str, reason: str | None, status: str, completion_tokens: int | None, built: str | None) -> str:
    if reason is not None or built is not None:
        return reason or str(built)
    if kind != "turn":
        return kind
    if status != "ok":
        return "upstream_error"
    return "empty" if completion_tokens == 0 else "in_no_exported_sample"
