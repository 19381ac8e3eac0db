"""Every harness, for real, through every case of the matrix."""

import os
import threading
import time

import pytest

from polar_capture.harnesses import presets
from tests.harness import cases, matrix
from tests.harness.checks import check
from tests.harness.kept import keep
from tests.harness.matrix import Case

IN_CI = (Case.TASK, Case.SUBAGENT, Case.COMPACTION, Case.DROPPED, Case.BUSY, Case.OVERFLOW)
"""The cases that `make test` runs of the reference harnesses; `make test-harness` runs all."""
TOGETHER = (Case.RESUME, Case.SILENCE)
"""A second user turn belongs to its task; silences are waited for all at once."""

PAIRS = [
    pytest.param(row.harness, case, id=f"{row.harness}-{case}", marks=() if case in IN_CI else pytest.mark.slow)
    for row in matrix.ROWS
    for case in Case
    if case not in TOGETHER and row.has(case)
]


def test_every_harness_has_a_row_and_every_case_an_ending_or_a_reason() -> None:
    assert [row.harness for row in matrix.ROWS] == presets.names()
    for row in matrix.ROWS:
        reasons = [reason for reason in row.cases.values() if isinstance(reason, str)]
        assert all(len(reason.split()) > 3 for reason in reasons)


def checked(row: matrix.Row, trial: cases.Trial, name: str | None = None) -> None:
    """Check a trial, and keep what it showed for the table, good or bad."""
    good = False
    try:
        check(row, trial)
        good = True
    finally:
        keep(row, trial, good, name)


def lost_an_output(trial: cases.Trial) -> bool:
    """Whether Qwen Code's shell has lost what a command wrote, as it does in one run of four: then its context never
    fills, and there is nothing to sum up."""
    return any(b"Output: (empty)" in (call["chat_request"] or b"") for call in trial.ran.calls)


@pytest.mark.parametrize(("harness", "case"), PAIRS)
def test_it_comes_to_its_ending(harness: str, case: Case) -> None:
    row = matrix.row(harness)
    trials = cases.run(row, case)
    for _ in range(2):
        if case is not Case.COMPACTION or not any(map(lost_an_output, trials)):
            break
        trials = cases.run(row, case)
    for trial in trials:
        checked(row, trial)
    if case is Case.EGRESS:
        refused, missing = trials
        assert refused.ran.seconds < missing.ran.seconds + 15, "403 costs more time than 404"
        assert set(refused.ran.refused) == set(missing.ran.refused)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_every_harness_waits_beyond_the_limits_of_clients() -> None:
    """330 s of silence, all at once: waiting costs nothing. Qwen Code is asked on Messages too, where it does not see
    pings."""
    wanted = os.environ.get("POLAR_TEST_HARNESS")
    rows = [row for row in matrix.ROWS if row.has(Case.SILENCE) and wanted in (None, "", row.harness)]
    waiting = [(row, ()) for row in rows] + [(row, ("--dialect", "anthropic")) for row in rows if row.deaf_to_pings]
    failed: list[str] = []

    def wait(row: matrix.Row, options: tuple[str, ...]) -> None:
        try:
            (trial,) = cases.silence(row, cases.SILENCE, *options)
            checked(row, trial, "-".join(("silence", *options[1:])))
        except Exception as error:  # told in the test's own thread
            failed.append(f"{row.harness} {' '.join(options)}: {error!r}")

    threads = [threading.Thread(target=wait, args=pair) for pair in waiting]
    for thread in threads:
        thread.start()
        time.sleep(8)  # each start costs CPU; the waits overlap all the same
    for thread in threads:
        thread.join()
    assert not failed, "\n".join(failed)
