"""`--reward-cmd`: run an evaluator once the agent is dead, and read one number from what it says."""

import math
import subprocess
from collections.abc import Mapping
from typing import Any

import msgspec

from polar_capture.exits import Failure
from polar_capture.launch import shell_status

CANNOT_JUDGE = 126
"""From this status on (not executable, not found, killed by a signal) the evaluator itself failed: no reward at all."""


class Judgement(msgspec.Struct, frozen=True):
    """What an evaluator said. `value` is finite."""

    value: float
    comment: str | None = None


def judge(command: str, environ: Mapping[str, str]) -> Judgement:
    """Run `command` in the shell and read its judgement; its stderr is the user's. Raises Failure if there is none."""
    done = subprocess.run(command, shell=True, env=dict(environ), stdout=subprocess.PIPE, text=True, errors="replace")
    return read(done.stdout, shell_status(done.returncode))


def read(stdout: str, status: int) -> Judgement:
    """First match wins: stdout is JSON with `reward`; its last line is such JSON or a number; the exit status
    (0 gives 1.0, others 0.0). Raises Failure for a number that is not finite and for an evaluator that could not run.
    """
    lines = [line.strip() for line in stdout.splitlines() if line.strip()]
    for text in (stdout, lines[-1] if lines else ""):
        value = _decode(text)
        if isinstance(value, dict) and "reward" in value:
            comment = value.get("comment")
            return Judgement(_finite(value["reward"]), None if comment is None else str(comment))
        if isinstance(value, int | float):
            return Judgement(_finite(value))
    if lines and lines[-1].lower().lstrip("+-") in ("nan", "inf", "infinity"):
        raise Failure(f"the reward command said {lines[-1]}: a reward is a finite number; none was recorded")
    if status >= CANNOT_JUDGE:
        raise Failure(f"the reward command could not judge (status {status}): no reward was recorded")
    return Judgement(1.0 if status == 0 else 0.0)


def _decode(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError):
        pass
    try:
        return float(text) if text and text.lower().lstrip("+-")[:1] in "0123456789." else None
    except ValueError:
        return None


def _finite(value: object) -> float:
    if not isinstance(value, int | float) or not math.isfinite(value):
        raise Failure(f"the reward command said {value!r}: a reward is a finite number; none was recorded")
    return float(value)
