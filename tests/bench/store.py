"""What the store takes in room and time, beside JSON text and plain int32 in the same run.

    python -m tests.bench.store [--sessions 10000] [--turns 30] [--no-postgres]

Three tables: the size of a 60-turn Claude-shaped session; its writing and reading; the views over many sessions.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import sqlalchemy as sa
from rich.console import Console
from rich.table import Table

from polar_capture import store
from polar_capture.store import codec, upkeep
from polar_capture.store import operations as ops
from polar_capture.store.models import Call, Session
from polar_capture.store.records import CallRecord
from tests.bench.claude_session import Turn, records, turns
from tests.postgres import new_database

MEGA = 1e6


def best(work: Callable[[], object], times: int = 15, clock: Callable[[], float] = time.perf_counter) -> float:
    """The least milliseconds of several runs: other programs only ever add to it."""
    taken = []
    for _ in range(times):
        begun = clock()
        work()
        taken.append(clock() - begun)
    return min(taken) * 1e3


def cpu(work: Callable[[], object]) -> float:
    """`best` in CPU of the process: what it takes on a machine that does nothing else."""
    return best(work, 30, time.process_time)


def plain_sizes(calls: list[Turn]) -> dict[str, float]:
    """Megabytes of the same session as others keep it."""
    arrays = [(call.prompt_ids, call.completion_ids, call.logprobs) for call in calls]
    bodies = sum(len(call.request) + len(call.chat_request) + len(call.message) for call in calls)
    packed = sum(len(codec.pack_ids(codec.as_int32(ids))) for *both, _ in arrays for ids in both)
    packed += sum(len(codec.pack_logprobs(logprobs)) for *_, logprobs in arrays)
    return {
        "JSON text: arrays": sum(len(json.dumps(part)) for call in arrays for part in call) / MEGA,
        "int32/float32: arrays": sum(4 * len(part) for call in arrays for part in call) / MEGA,
        "zstd of int32, each in full: arrays": packed / MEGA,
        "the client's bodies as they come": sum(len(call.request) for call in calls) / MEGA,
        "all bodies as they come": bodies / MEGA,
    }


def as_the_gateway_gives(calls: list[Turn], session: str) -> list[CallRecord]:
    """Records with arrays instead of lists: the gateway has converted the ids once already."""
    made = records(session, calls)
    for record in made:
        record.prompt_ids = np.array(record.prompt_ids, np.int32)
        record.completion_ids = np.array(record.completion_ids, np.int32)
    return made


def write_cpu(captured: store.Store, calls: list[Turn], name: str, runs: int = 8) -> float:
    """CPU milliseconds a turn of the whole process: each turn packed and committed before the next one comes, as in a
    session, and told to be delivered. Of each turn the least of several runs counts."""
    writer = captured.writer()
    least = [float("inf")] * len(calls)
    for run in range(runs):
        for turn, record in enumerate(as_the_gateway_gives(calls, f"{name}-{run}")):
            begun = time.process_time()
            writer.call([record]).result(60)
            writer.amend(record.id, {"delivered": True, "attempt": 0})
            least[turn] = min(least[turn], time.process_time() - begun)
        writer.amend(record.id, {}).result(60)
    return sum(least) * 1e3 / len(least)


def alone(url: object, calls: list[Turn]) -> float:
    """`write_cpu` in an empty database."""
    with store.open(url, spool=Path(tempfile.mkdtemp())) as captured:
        return write_cpu(captured, calls, "alone")


def one_session(console: Console, folder: Path, postgres: bool) -> None:
    """Size, writing and reading of the 60-turn session."""
    calls = turns()
    path = folder / "one.db"
    made = as_the_gateway_gives(calls, "one")
    with store.open(path) as captured:
        for record in made:
            captured.writer().call([record]).result()
    size = path.stat().st_size / MEGA
    title = f"{len(calls)} turns, {len(calls[0].prompt_ids):,} to {len(calls[-1].prompt_ids):,} prompt tokens"
    table = Table("kept as", "MB", "against the store", title=title)
    table.add_row("the store: SQLite file, everything in it (target 0.7)", f"{size:.3f}", "1")
    for name, megabytes in plain_sizes(calls).items():
        table.add_row(name, f"{megabytes:.2f}", f"{megabytes / size:.0f}x")
    console.print(table)

    last = made[-1].id
    prompt = calls[-1].prompt_ids
    array, text = np.array(prompt, np.int32), json.dumps(prompt)
    table = Table("work", "CPU, ms", "target", title="writing and reading that session")
    table.add_row("write a turn, SQLite", f"{alone(folder / 'cpu.db', calls):.2f}", "1.5")
    if postgres:
        table.add_row("write a turn, the client's part, PostgreSQL", f"{alone(new_database(), calls):.2f}", "")
    with store.open(path) as captured:
        console.print(checked(captured))
        first = cpu(lambda: (codec.forget_links(), captured.tokens(last)))
        table.add_row("tokens of the last turn, no link of its chain seen before", f"{first:.2f}", "3")
        table.add_row(
            "tokens of the last turn, after the turn before it", f"{cpu(lambda: captured.tokens(last)):.2f}", "3"
        )
        store.tokens(last, path)
        table.add_row(
            "the same by polar_capture.store.tokens(call)", f"{cpu(lambda: store.tokens(last, path)):.2f}", "3"
        )
        everything = cpu(lambda: (codec.forget_links(), list(captured.session_tokens("one"))))
        table.add_row("tokens of all turns, one pass", f"{everything:.1f}", "")
        table.add_row("request body of the last turn", f"{cpu(lambda: captured.body(last, 'request')):.1f}", "")
        table.add_row("every column of the last turn", f"{cpu(lambda: captured.call(last)):.1f}", "")
    table.add_section()
    table.add_row("JSON text of the last prompt, written", f"{cpu(lambda: json.dumps(prompt)):.2f}", "")
    table.add_row("JSON text of the last prompt, read", f"{cpu(lambda: json.loads(text)):.2f}", "")
    table.add_row("plain int32 of the last prompt, and its SHA-256", f"{cpu(lambda: plain(prompt)):.2f}", "")
    table.add_row("zstd of the last prompt in full", f"{cpu(lambda: codec.pack_ids(array)):.2f}", "")
    console.print(table)


def plain(ids: list[int]) -> bytes:
    """A prompt as plain int32, hashed as the store does."""
    return codec.prompt_hash(codec.as_int32(ids))


def fill(captured: store.Store, sessions: int, length: int) -> None:
    """Many short calls by bulk insert: what matters here is their number."""
    ids = codec.as_int32(range(300))
    packed, logprobs = codec.pack_ids(ids), codec.pack_logprobs([-0.5] * 300)
    body = codec.pack_body(np.random.default_rng(0).bytes(1500))
    shared = {
        "agent": "main",
        "kind": "turn",
        "dialect": "anthropic",
        "host": "api.anthropic.com",
        "path": "/v1/messages",
    }
    shared |= {"status": "ok", "trainable": True, "streamed": True, "delivered": True, "sampling": {"temperature": 1.0}}
    shared |= {
        "prompt_ids": packed,
        "completion_ids": packed,
        "request": body,
        "logprobs": logprobs,
        "prompt_sha256": codec.prompt_hash(ids),
        "upstream_ms": 5.0,
    }
    for begin in range(0, sessions, 200):
        numbers = range(begin, min(begin + 200, sessions))
        with captured.database.write.begin() as connection:
            rows = [
                {"id": f"s{n:06d}", "group_id": f"g{n // 8}", "started_at": float(n), "status": "completed"}
                for n in numbers
            ]
            connection.execute(sa.insert(Session.__table__), [{**row, "metadata": {}} for row in rows])
            calls = [
                {
                    **shared,
                    "id": f"c{n:06d}-{seq:03d}",
                    "session_id": f"s{n:06d}",
                    "seq": seq,
                    "started_at": n + seq / 100,
                    "finished_at": n + seq / 100 + 0.5,
                    "prompt_tokens": 300,
                    "completion_tokens": 300,
                }
                for n in numbers
                for seq in range(length)
            ]
            connection.execute(sa.insert(Call.__table__), calls)
            for n in numbers:
                reward = {"id": f"r{n}", "session_id": f"s{n:06d}", "value": float(n % 2), "created_at": 1.0}
                ops.apply(connection, [ops.InsertReward(reward)])


def rate(captured: store.Store, name: str, calls: list[Turn]) -> float:
    """Calls a second through the writer, the 60-turn session submitted at once; the best of several runs."""
    rates = []
    for run in range(5):
        made = as_the_gateway_gives(calls, f"{name}-{run}")
        begun = time.perf_counter()
        for future in [captured.writer().call([record]) for record in made]:
            future.result(60)
        rates.append(len(made) / (time.perf_counter() - begun))
    return max(rates)


def checked(captured: store.Store) -> str:
    """What `db check` says of all of it."""
    begun = time.perf_counter()
    wrong = sum(finding.level == "error" for finding in upkeep.check(captured))
    (calls,) = captured.sql("SELECT COUNT(*) FROM calls")[1][0]
    return f"db check: {calls:,} calls, {wrong} errors, {time.perf_counter() - begun:.0f} s"


def many_sessions(console: Console, url: object, name: str, sessions: int, length: int) -> None:
    """The views and the writer over a large database."""
    calls = turns()
    with store.open(url, spool=Path(tempfile.mkdtemp())) as captured:
        rate(captured, "warm", calls)
        empty = rate(captured, "empty", calls), write_cpu(captured, calls, "cpu-empty")
        fill(captured, sessions, length)
        if not captured.database.is_sqlite:
            upkeep.vacuum(captured)  # autovacuum does it within the minute; the visibility map makes the index enough
        full = rate(captured, "full", calls), write_cpu(captured, calls, "cpu-full")
        table = Table("work", "ms", "CPU here, ms", "target", title=f"{name}: {sessions:,} sessions x {length} turns")
        one = "SELECT * FROM session_summary WHERE session_id = 's000077'"
        works: list[tuple[str, Callable[[], object], str]] = [
            ("session_summary, all rows", lambda: captured.sql("SELECT * FROM session_summary"), "1000"),
            ("the latest 50 sessions", lambda: captured.sessions(limit=50), ""),
            ("one session's summary", lambda: captured.sql(one), ""),
            ("group_summary, all rows", lambda: captured.sql("SELECT * FROM group_summary"), ""),
            ("a session's calls", lambda: captured.calls("s000077"), ""),
        ]
        for work, run, target in works:  # PostgreSQL's own CPU is not here: what counts there is the first column
            table.add_row(work, f"{best(run, 5):.1f}", f"{best(run, 3, time.process_time):.1f}", target)
        console.print(table)
        table = Table("capture", "empty", f"with {sessions * length:,} calls", title=f"{name}: what its size changes")
        table.add_row(
            "calls a second through the writer", *(f"{calls_a_second:.0f}" for calls_a_second, _ in (empty, full))
        )
        table.add_row("CPU of a turn, ms", *(f"{milliseconds:.2f}" for _, milliseconds in (empty, full)))
        console.print(table)
        console.print(checked(captured))


def main() -> None:
    """Prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, default=10_000)
    parser.add_argument("--turns", type=int, default=30)
    parser.add_argument("--no-postgres", action="store_true")
    options = parser.parse_args()
    console = Console(width=100)
    with tempfile.TemporaryDirectory() as folder:
        one_session(console, Path(folder), not options.no_postgres)
        many_sessions(console, Path(folder) / "many.db", "SQLite", options.sessions, options.turns)
        if not options.no_postgres:
            many_sessions(console, new_database(), "PostgreSQL", options.sessions, options.turns)


if __name__ == "__main__":
    main()
