"""A capturing process to be killed: sessions written from several threads, each call's id printed once it is durable,
and a line for each call that is refused, as a client's 503 would be.

python -m tests.crash.load URL SPOOL NAME THREADS
"""

import sys
import threading
import time

import numpy as np

from polar_capture import store
from polar_capture.store.records import StoreUnavailable
from tests.unit.store.build import call


def main(url: str, spool: str, name: str, threads: int) -> None:
    captured = store.open(url, spool=spool or None)
    writer = captured.writer()
    printing = threading.Lock()

    def session(number: int) -> None:
        rng = np.random.default_rng(number)
        prompt, parent = rng.integers(0, 150_000, 2000).tolist(), None
        for seq in range(1_000_000):
            record = call(f"{name}-{number}", seq, prompt, rng.integers(0, 150_000, 40).tolist(), parent)
            try:
                writer.call([record]).result()
            except StoreUnavailable:
                with printing:
                    print("refused", flush=True)
                time.sleep(0.02)  # what a client does with a 503: it asks again
                continue
            with printing:
                print(record.session_id, seq, record.id, flush=True)
            writer.amend(record.id, {"delivered": True})
            prompt, parent = [*prompt, *record.completion_ids, *rng.integers(0, 150_000, 20).tolist()], record

    running = [threading.Thread(target=session, args=(number,), daemon=True) for number in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]))
