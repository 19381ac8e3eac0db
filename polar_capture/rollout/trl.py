"""TRL's `rollout_func` (1.16: `GRPOTrainer(rollout_func=…)`): a prompt is a task, its repetitions are a group.

TRL takes one row a prompt sample. It gets the session's main branch; what else a session sampled (sub-agents, branches
after a break) is counted in `left_out` and said in the log. Whole trees go by the rows of `samples` instead.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
import sqlalchemy as sa

from polar_capture import builds, rollouts, store
from polar_capture.export.row import ExportRow
from polar_capture.rollout.progress import Group, Result
from polar_capture.rollout.tasks import Task
from polar_capture.samples_table import read_samples
from polar_capture.store.models import Sample as SampleRow
from polar_capture.trajectories.rows import Sample

log = logging.getLogger(__name__)

Columns = dict[str, list[Any]]
MAIN = "main"


def rollout_func(
    tasks: Iterable[Task | Mapping[str, Any]],
    *,
    db: str,
    name: str = "trl",
    before: Callable[[Any, int], None] | None = None,
    **options: Any,
) -> Callable[[Sequence[Any], Any], Columns]:
    """A `rollout_func` that runs the task whose `prompt` is the prompt, as often as TRL repeats it.

    `before(trainer, step)` is called ahead of each collection, to bring the trainer's weights into the engine;
    `options` are `rollouts.collect`'s. The result's columns are `prompt_ids`, `completion_ids`, `logprobs` (0.0 where
    `env_mask` is 0), `env_mask`, and, for reward functions, `reward`, `session_id` and `left_out`.

    Raises KeyError for a prompt without a task, and RuntimeError where a group has not one trainable sample.
    """
    known = {task.prompt: task for task in rollouts.read_tasks(tasks)}
    collections = 0

    def rollout(prompts: Sequence[Any], trainer: Any = None) -> Columns:
        nonlocal collections
        step, collections = collections, collections + 1
        if before is not None:
            before(trainer, step)
        texts = [_text(prompt) for prompt in prompts]
        counts = {text: texts.count(text) for text in dict.fromkeys(texts)}
        missing = next((text for text in counts if text not in known), None)
        if missing is not None:
            raise KeyError(f"no task has the prompt {missing[:80]!r}")
        rows: dict[str, list[dict[str, Any]]] = {}
        for number in sorted(set(counts.values())):
            wanted = [known[text] for text, count in counts.items() if count == number]
            named = f"{name}-{step}" + (f"-{number}" if len(set(counts.values())) > 1 else "")
            for group in asyncio.run(_collected(wanted, samples=number, name=named, db=db, **options)):
                rows[group.task.prompt] = group_rows(db, group)
        ordered = [rows[text].pop(0) for text in texts]
        return {column: [row[column] for row in ordered] for column in ordered[0]}

    return rollout


def recorded_reward(prompts: Any = None, completions: Any = None, *, reward: Sequence[float | None], **_: Any) -> list:
    """A reward function for TRL that gives back what the evaluators said; None where they said nothing."""
    return list(reward)


async def _collected(tasks: Sequence[Task], **options: Any) -> list[Group]:
    return [group async for group in rollouts.collect(tasks, **options)]


def _text(prompt: Any) -> str:
    """A prompt of a dataset: text, or messages of which the last is the user's."""
    return prompt if isinstance(prompt, str) else str(prompt[-1]["content"])


def group_rows(db: str, group: Group) -> list[dict[str, Any]]:
    """One row a session of the group, in order, built now. A session without a trainable sample gets a row without a
    trained token, so that TRL's group stays whole."""
    with store.open(db, create=False) as captured:
        builds.build(captured, group_id=group.group_id)
        query = sa.select(SampleRow.id).where(
            SampleRow.group_id == group.group_id, SampleRow.strategy == builds.Plan().options.strategy
        )
        with captured.database.read.connect() as connection:
            samples = list(read_samples(connection, list(connection.execute(query).scalars())))
    by_session: dict[str, list[Sample]] = {}
    for sample in samples:
        if sample.loss_mask.any():
            by_session.setdefault(sample.session_id, []).append(sample)
    if not by_session:
        raise RuntimeError(f"group {group.group_id} has no trainable sample: `polar-capture build` says why")
    filler = next(iter(by_session.values()))[0]
    return [_row(result, by_session.get(result.session_id, []), filler) for result in group.results]


def _row(result: Result, samples: list[Sample], filler: Sample) -> dict[str, Any]:
    chosen = max(samples, key=lambda one: (one.agent == MAIN, int(one.loss_mask.sum())), default=None)
    if chosen is None:
        log.warning("session %s has no trainable sample (%s)", result.session_id, result.error or result.status)
        end = filler.prompt_len + 1
        chosen = msgspec.structs.replace(
            filler,
            input_ids=filler.input_ids[:end],
            loss_mask=np.zeros(end, np.uint8),
            logprobs=np.zeros(end, np.float32),
        )
    left_out = sum(int(one.loss_mask.sum()) for one in samples if one is not chosen)
    if left_out:
        log.warning("session %s: %d sampled tokens of other branches are left out", result.session_id, left_out)
    row = ExportRow(sample=chosen)
    return {
        "prompt_ids": chosen.input_ids[: chosen.prompt_len].tolist(),
        "completion_ids": chosen.input_ids[row.response].tolist(),
        "logprobs": row.logprobs()[row.response].tolist(),
        "env_mask": chosen.loss_mask[row.response].tolist(),
        "reward": result.reward,
        "session_id": result.session_id,
        "left_out": left_out,
    }
