"""A rollout for people's eyes: a live table on a terminal, a line a group elsewhere."""

import time
from collections.abc import Iterable

from rich.console import Group as Stack
from rich.table import Table
from rich.text import Text

from polar_capture.rollout.progress import Board, Group, Result

SHOWN = 20
"""Rows of the live table; the groups at work come first."""


def live(board: Board) -> Stack:
    """The table and the line below it, as they are now."""
    table = Table(box=None, pad_edge=False)
    for column in ("task", "done", "prepare", "run", "evaluate", "mean reward", "passed"):
        table.add_column(column, justify="left" if column == "task" else "right")
    order = sorted(board.stages, key=lambda task_id: _rank(board, task_id))
    for task_id in order[:SHOWN]:
        stages = list(board.stages[task_id].values())
        results = board.results[task_id]
        table.add_row(
            Text(task_id),
            f"{stages.count('done')}/{board.samples}",
            *(str(stages.count(stage) or "") for stage in ("prepare", "run", "evaluate")),
            _number(mean(results)),
            _share(results),
        )
    more = [Text(f"… and {len(order) - SHOWN} more tasks")] if len(order) > SHOWN else []
    nodes = [Text(text) for text in node_lines(board)]
    return Stack(table, *more, *nodes, Text(total(board)))


def node_lines(board: Board) -> list[str]:
    """What each node of a cluster has done."""
    return [
        f"node {node.id[:8]}: {node.finished} finished, {node.running} at work"
        + ("" if node.alive else f"; it died with {node.lost} at work, which were made again elsewhere")
        for node in board.nodes
    ]


def _rank(board: Board, task_id: str) -> int:
    stages = set(board.stages[task_id].values())
    return 2 if stages == {"done"} else 1 if stages == {"waiting"} else 0


def total(board: Board) -> str:
    """Everything in one line."""
    counts = board.counts()
    results = board.all_results
    seconds = max(time.monotonic() - board.started, 1e-3)
    parts = [
        f"{counts['done']}/{sum(counts.values())} samples",
        f"{counts['prepare'] + counts['run'] + counts['evaluate']} at work",
        f"passed {_share(results) or '-'}",
        f"mean reward {_number(mean(results)) or '-'}",
        f"{board.tokens / seconds:.0f} tokens/s",
        f"{seconds:.0f} s",
    ]
    parts += [f"{board.earlier} from an earlier start"] if board.earlier else []
    parts += [f"{board.retries} tried again"] if board.retries else []
    return ", ".join(parts)


def line(group: Group) -> str:
    """One finished group in a line."""
    faults = sorted({result.error.splitlines()[0] for result in group.results if result.error})
    said = f"{group.group_id}: {len(group.results)} samples, mean reward {_number(group.mean) or '-'}"
    said += f", passed {_share(group.results) or '-'}"
    spans = {(r.policy_version_min, r.policy_version_max) for r in group.results if r.policy_version_max is not None}
    mixed = sum(low != high for low, high in spans)
    said += f", {mixed} across policy versions" if mixed else ""
    return said + "".join(f"\n  {fault}" for fault in faults[:5])


def mean(results: Iterable[Result]) -> float | None:
    known = [result.reward for result in results if result.reward is not None]
    return sum(known) / len(known) if known else None


def _share(results: Iterable[Result]) -> str:
    """How many of the rewarded samples passed: a reward of 1 or more."""
    known = [result.reward for result in results if result.reward is not None]
    return f"{sum(reward >= 1.0 for reward in known)}/{len(known)}" if known else ""


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"
