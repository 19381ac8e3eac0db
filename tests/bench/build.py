"""How fast samples are built and exported, beside tokenising every prompt again and comparing.

    python -m tests.bench.build [--sessions 100] [--turns 30] [--prompt 99000] [--long]

Sessions grow as agents' do: half of the tokens of the median prompt are there at the first turn, the rest comes turn
by turn with 458 sampled ones each. Prints one line a measurement; --long adds the one session of 10,000 calls of 100k
tokens.
"""

import argparse
import resource
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from polar_capture import builds, exports, store
from polar_capture.store.records import CallRecord, SessionRecord
from polar_capture.trajectories.rows import CallRow
from polar_capture.trajectories.samples import build_session

SAMPLED = 458
VOCABULARY = 150_000


def turns(seed: int, count: int, prompt: int) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray, int]]:
    """(prompt ids, completion ids, logprobs, how many of the prompt the turn before gave) of each turn; the median
    prompt has `prompt` tokens."""
    random = np.random.default_rng(seed)
    step = max(prompt // count, SAMPLED + 1)
    context = random.integers(0, VOCABULARY, prompt - step * count // 2).astype(np.int32)
    before = 0
    for _ in range(count):
        completion = random.integers(0, VOCABULARY, SAMPLED).astype(np.int32)
        yield context, completion, -random.random(SAMPLED).astype(np.float32), before
        before = len(context) + SAMPLED
        result = random.integers(0, VOCABULARY, step - SAMPLED).astype(np.int32)
        context = np.concatenate((context, completion, result))


def fill(captured: store.Store, sessions: int, count: int, prompt: int) -> int:
    """Writes the sessions; returns the prompt tokens of all calls."""
    writer = captured.writer()
    total = 0
    for number in range(sessions):
        session = f"s{number}"
        writer.session(SessionRecord(id=session, started_at=float(number), group_id=f"g{number // 8}"))
        done = None
        for seq, (ids, completion, logprobs, before) in enumerate(turns(number, count, prompt)):
            total += len(ids)
            record = CallRecord(
                id=f"{session}-{seq}", session_id=session, seq=seq, dialect="anthropic", host="api.anthropic.com",
                path="/v1/messages", status="ok", trainable=True, streamed=True, started_at=float(seq),
                parent_call_id=f"{session}-{seq - 1}" if seq else None, prefix_len=before, prompt_ids=ids,
                completion_ids=completion, logprobs=logprobs, completion_tokens=SAMPLED, finish_reason="stop",
                policy_version=1,
            )  # fmt: skip
            done = writer.call([record])
        assert done is not None
        done.result(600)
        captured.add_reward(session, float(number % 2))
    return total


def peak() -> float:
    """Largest resident memory of this process so far, in GB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def told(what: str, tokens: int, seconds: float) -> None:
    print(f"{what:46} {tokens / seconds / 1e6:9.2f} M tokens/s   {seconds:8.2f} s   peak {peak():.2f} GB", flush=True)


def measure(sessions: int, count: int, prompt: int) -> None:
    with tempfile.TemporaryDirectory() as folder, store.open(Path(folder) / "bench.db") as captured:
        total = fill(captured, sessions, count, prompt)
        print(f"{sessions} sessions of {count} turns, {total / 1e6:.0f} M prompt tokens, median prompt {prompt}")
        begin = time.process_time()
        report = builds.build(captured)
        told("build (CPU, prompt tokens)", total, time.process_time() - begin)
        assert all(s.verdicts == {"exact": 1} and s.delivered_fraction == 1.0 for s in report.sessions)
        for format in ("parquet", "jsonl"):
            begin = time.process_time()
            manifest = exports.export(captured, Path(folder) / f"out.{format}", exports.ExportOptions(format=format))
            told(f"export {format} (CPU, sample tokens)", manifest.tokens, time.process_time() - begin)
    naive(count, prompt)


def naive(count: int, prompt: int) -> None:
    """One session the other way: tokenise the text of each prompt again and compare the lists of ids."""
    from tokenizers import Tokenizer

    found = sorted(Path(".cache/models").glob("*/tokenizer.json"))
    if not found:
        print("naive: no tokenizer at hand; `make engine` makes one")
        return
    tokenizer = Tokenizer.from_file(str(found[0]))
    words = tokenizer.decode(list(range(300, 900)))
    per_text = len(tokenizer.encode(words).ids)
    total, before = 0, [0]
    begin = time.process_time()
    for turn in range(3):
        text = words * ((prompt // 2 + turn * (prompt // count)) // per_text)
        ids = tokenizer.encode(text).ids
        total += len(ids)
        assert ids[: len(before) - 1] == before[:-1] or turn == 0
        before = ids
    told("naive: tokenise again and compare", total, time.process_time() - begin)


def long_session(calls: int = 10_000, tokens: int = 100_000) -> None:
    """One session of many calls of ~100k tokens each, from the tails that the store keeps."""
    random = np.random.default_rng(7)

    def rows() -> Iterator[CallRow]:
        ids, kept = random.integers(0, VOCABULARY, tokens).astype(np.int32), 0
        for number in range(calls):
            yield CallRow(
                id=f"c{number}", session_id="s", seq=number, base_call_id=f"c{number - 1}" if number else None,
                base_len=kept, prompt_ids=ids, completion_ids=random.integers(0, VOCABULARY, 20).astype(np.int32),
                logprobs=np.full(20, -0.5, np.float32),
            )  # fmt: skip
            kept += len(ids) + 20
            ids = random.integers(0, VOCABULARY, 20).astype(np.int32)

    begin = time.process_time()
    built = build_session("s", rows())
    total = sum(link.place.prompt_len for link in built._tree.links.values())
    told(f"{calls} calls of one session, built from tails", total, time.process_time() - begin)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sessions", type=int, default=100)
    parser.add_argument("--turns", type=int, default=30)
    parser.add_argument("--prompt", type=int, default=99_000)
    parser.add_argument("--long", action="store_true")
    chosen = parser.parse_args()
    measure(chosen.sessions, chosen.turns, chosen.prompt)
    if chosen.long:
        long_session()


if __name__ == "__main__":
    main()
