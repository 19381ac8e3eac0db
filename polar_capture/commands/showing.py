"""What `show` draws: a session as a tree of its calls, a call as its numbers and text, a group as a table."""

import json
from collections import defaultdict
from collections.abc import Mapping
from typing import Any, NamedTuple

from polar_capture.call_rows import call_rows, conversation_of
from polar_capture.commands.output import cell, console, duration, moment, print_table, printable
from polar_capture.commands.reading import decoded
from polar_capture.commands.token_strip import least_likely, strip
from polar_capture.store import CodecError, Store
from polar_capture.trajectories.links import link_session

_WORTH_TELLING = 0.05
WIDE = ("request", "chat_request", "message", "prompt_ids", "completion_ids", "logprobs")


def session(captured: Store, found: dict[str, Any]) -> None:
    """The calls under the calls that they continue, where a chain broke and why, and the rewards."""
    from rich.text import Text
    from rich.tree import Tree

    tree = Tree(Text(f"session {found['id']}  {found['status']}  {moment(found['started_at'])}", style="bold"))
    for name in ("task_id", "group_id", "harness"):
        if found[name]:
            tree.add(Text(f"{name.removesuffix('_id')} {found[name]}"))
    below: dict[str | None, list[dict[str, Any]]] = defaultdict(list)
    known = {row["id"] for row in found["calls"]}
    for row in found["calls"]:
        below[row["parent_call_id"] if row["parent_call_id"] in known else None].append(row)
    seen = _seen(captured, found["id"])
    waits = _waits(found["calls"])
    # A chain of turns is drawn flat, one below the other; only a second continuation of the same call indents.
    waiting = [(row, tree) for row in reversed(below[None])]
    while waiting:
        row, place = waiting.pop()
        branch = place.add(_turn(captured, row, waits[row["id"]], seen.get(row["id"], Seen())))
        later = below[row["id"]]
        waiting += [(other, branch) for other in reversed(later[1:])]
        waiting += [(first, place) for first in later[:1]]
    for reward in found["rewards"]:
        of = f" of call {reward['call_id']}" if reward["call_id"] else ""
        note = f"  {printable(reward['comment'])}" if reward["comment"] else ""
        tree.add(Text(f"reward {reward['name']}{of} = {reward['value']:g}{note}", style="green"))
    console().print(tree)


class Seen(NamedTuple):
    """What a call's arrays tell: where it does not continue the call before it, in words, and its mean logprob."""

    broken: str = ""
    mean_logprob: float | None = None


def _seen(captured: Store, session_id: str) -> dict[str, Seen]:
    """By call id; {} where arrays are damaged."""
    try:
        with captured.database.read.connect() as connection:
            tree = link_session(call_rows(connection, session_id), lambda call: conversation_of(captured, call))
    except CodecError:
        return {}  # `db check` says which; the narrow columns can be shown all the same
    seqs = {link.row.id: link.row.seq for link in tree.links.values()}
    found = {}
    for link in tree.links.values():
        b, logprobs = link.broken, link.row.logprobs
        lost = "" if b is None else f"{b.tokens:,} tokens of {seqs[b.predecessor]} not in its context"
        found[link.row.id] = Seen(
            "" if b is None else f"{b.break_} at token {b.at:,}: {lost}",
            float(logprobs.mean()) if logprobs is not None and len(logprobs) else None,
        )
    return found


def _waits(calls: list[dict[str, Any]]) -> dict[str, float]:
    """Seconds before each call, in order, in which the harness was busy with something else than the model."""
    waits, until = {}, None
    for row in calls:
        waits[row["id"]] = max(0.0, row["started_at"] - until) if until is not None else 0.0
        until = max(until or 0.0, row["finished_at"] or row["started_at"])
    return waits


def _turn(captured: Store, row: dict[str, Any], waited: float, seen: Seen) -> Any:
    from rich.text import Text

    who = "" if row["agent"] == "main" else f" {row['agent']}"
    kind = "" if row["kind"] == "turn" else f" {row['kind']}"
    text = Text(f"{row['seq']:>3}{who}{kind}  ", style="bold")
    prompt, sampled = row["prompt_tokens"] or 0, row["completion_tokens"] or 0
    text.append(f"{prompt:,} prompt ({row['prefix_len']:,} kept) + {sampled:,} sampled", "")
    if seen.mean_logprob is not None:
        text.append(f", mean logprob {seen.mean_logprob:.3f}", "")
    text.append(f"  {row['finish_reason'] or row['status']}  {duration(row['started_at'], row['finished_at'])}", "")
    if waited >= _WORTH_TELLING:
        text.append(f" after {waited:.1f} s", "cyan")
    if not row["trainable"]:
        text.append(f"  not trainable: {row['reason'] or 'unknown'}", style="red")
    if seen.broken:
        text.append(f"\n     {seen.broken}", style="magenta")
    for warning in row["warnings"] or []:
        text.append(f"  {warning}", style="yellow")
    text.append(f"\n     {row['id']}", style="dim")
    said = row["error"] or _said(decoded(captured.body(row["id"], "message")))
    if said:
        text.append(f"\n     {printable(said)}")
    return text


def _said(message: Any, width: int = 100) -> str:
    """A sampled message in one line."""
    if not isinstance(message, dict):
        return ""
    content = message.get("content")
    parts = [content if isinstance(content, str) else json.dumps(content, ensure_ascii=False) if content else ""]
    for call in message.get("tool_calls") or []:
        function = call.get("function") or call
        parts.append(f"→ {function.get('name')}({function.get('arguments')})")
    line = " ".join(" ".join(parts).split())
    return line if len(line) <= width else line[: width - 1] + "…"


def call(captured: Store, found: dict[str, Any], pieces: Mapping[int, bytes] | None = None) -> None:
    """Every narrow column that holds something, the ends of the arrays, the unlikeliest tokens, and the message.
    `pieces` are the texts of what was sampled, where they are known."""
    rows = [
        (name, moment(value) if name.endswith("_at") else cell(value))
        for name, value in found.items()
        if name not in WIDE and value not in (None, [], {})
    ]
    for name in ("prompt_ids", "completion_ids", "logprobs"):
        values = found[name]
        rows.append((name, "none" if values is None else f"[{len(values)}] {_ends(values)}"))
    if found["logprobs"]:
        rows.append(("mean logprob", f"{sum(found['logprobs']) / len(found['logprobs']):.4f}"))
    print_table(["column", "value"], rows)
    sampled = found["completion_ids"]
    if sampled and pieces is not None:
        console().print(strip(sampled, found["logprobs"], pieces))
    unlikely = least_likely(sampled or [], found["logprobs"], pieces)
    if unlikely:
        columns = ["sampled token", "id", "text", "logprob", "probability"]
        print_table(columns, unlikely, numeric=[columns[0], *columns[3:], "id"])
    if found["message"] is not None:
        console().print(printable(json.dumps(found["message"], indent=2, ensure_ascii=False)))


def _ends(values: list[Any], keep: int = 8) -> str:
    texts = [f"{value:.4g}" if isinstance(value, float) else str(value) for value in values]
    return " ".join(texts if len(texts) <= 2 * keep else [*texts[:keep], "…", *texts[-keep:]])


def group(captured: Store, found: dict[str, Any]) -> None:
    """The group's numbers, and its sessions with their rewards."""
    print_table(["group", *SHARED], [[found["group_id"], *(found[name] for name in SHARED)]], numeric=SHARED[1:])
    print_table(
        ["session", "sample", "status", "reward", "turns", "trainable", "sampled"],
        [
            [
                row["session_id"],
                row["sample_index"],
                row["status"],
                row["reward"],
                row["turns"],
                row["trainable_calls"],
                row["completion_tokens"],
            ]
            for row in found["members"]
        ],
        numeric=["sample", "reward", "turns", "trainable", "sampled"],
    )


SHARED = ["task_id", "sessions", "rewarded", "reward_mean", "reward_variance", "turns", "completion_tokens"]
