"""What `show` draws: a session as a tree of its calls, a call as its numbers and text, a group as a table."""

import json
from collections import defaultdict
from typing import Any

from polar_capture.call_rows import call_rows, conversation_of
from polar_capture.commands.output import cell, console, duration, moment, print_table, printable
from polar_capture.commands.reading import decoded
from polar_capture.store import CodecError, Store
from polar_capture.trajectories.links import link_session

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
    breaks = _breaks(captured, found["id"])
    # A chain of turns is drawn flat, one below the other; only a second continuation of the same call indents.
    waiting = [(row, tree) for row in reversed(below[None])]
    while waiting:
        row, place = waiting.pop()
        branch = place.add(_turn(captured, row, breaks.get(row["id"])))
        later = below[row["id"]]
        waiting += [(other, branch) for other in reversed(later[1:])]
        waiting += [(first, place) for first in later[:1]]
    for reward in found["rewards"]:
        of = f" of call {reward['call_id']}" if reward["call_id"] else ""
        note = f"  {printable(reward['comment'])}" if reward["comment"] else ""
        tree.add(Text(f"reward {reward['name']}{of} = {reward['value']:g}{note}", style="green"))
    console().print(tree)


def _breaks(captured: Store, session_id: str) -> dict[str, str]:
    """Where calls do not continue their predecessors, in words, by call id; {} where arrays are damaged."""
    try:
        with captured.database.read.connect() as connection:
            tree = link_session(call_rows(connection, session_id), lambda call: conversation_of(captured, call))
    except CodecError:
        return {}  # `db check` says which; the narrow columns can be shown all the same
    seqs = {link.row.id: link.row.seq for link in tree.links.values()}
    return {
        link.row.id: f"{b.break_} at token {b.at:,}: {b.tokens:,} tokens of {seqs[b.predecessor]} not in its context"
        for link in tree.links.values()
        if (b := link.broken) is not None
    }


def _turn(captured: Store, row: dict[str, Any], broken: str | None) -> Any:
    from rich.text import Text

    who = "" if row["agent"] == "main" else f" {row['agent']}"
    kind = "" if row["kind"] == "turn" else f" {row['kind']}"
    text = Text(f"{row['seq']:>3}{who}{kind}  ", style="bold")
    tokens = (
        f"{row['prompt_tokens'] or 0:,} prompt ({row['prefix_len']:,} kept) + {row['completion_tokens'] or 0:,} sampled"
    )
    text.append(
        f"{tokens}  {row['finish_reason'] or row['status']}  {duration(row['started_at'], row['finished_at'])}", ""
    )
    if not row["trainable"]:
        text.append(f"  not trainable: {row['reason'] or 'unknown'}", style="red")
    if broken:
        text.append(f"\n     {broken}", style="magenta")
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


def call(captured: Store, found: dict[str, Any]) -> None:
    """Every narrow column that holds something, the ends of the arrays, and the message."""
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
