"""What a run has captured, in numbers and in words for people."""

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from polar_capture.environment import BASE_URL_VARIABLES


class Facts(msgspec.Struct):
    """Counts over the calls of one session; `captured` are the turns that have prompt and completion ids."""

    calls: int = 0
    turns: int = 0
    captured: int = 0
    trainable: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    reasons: Counter[str] = msgspec.field(default_factory=Counter)
    warnings: Counter[str] = msgspec.field(default_factory=Counter)
    errors: list[str] = []
    """Texts of failed calls, in order, each once."""
    last_error: str | None = None
    """Why the last turn failed; None where it was answered."""


def count(calls: Iterable[Mapping[str, Any]]) -> Facts:
    """Facts of rows with kind, trainable, reason, warnings, error, prompt_tokens, completion_tokens and has_ids."""
    facts = Facts()
    for call in calls:
        facts.calls += 1
        facts.turns += call["kind"] == "turn"
        facts.captured += call["kind"] == "turn" and bool(call["has_ids"])
        facts.trainable += bool(call["trainable"])
        facts.prompt_tokens += call["prompt_tokens"] or 0
        facts.completion_tokens += call["completion_tokens"] or 0
        facts.warnings.update(call["warnings"] or [])
        if call["reason"]:
            facts.reasons[call["reason"]] += 1
        if call["error"] and call["error"] not in facts.errors:
            facts.errors.append(call["error"])
        if call["kind"] == "turn":
            facts.last_error = call["error"]
    return facts


def lines(session: str, facts: Facts, database: str, *, named: bool) -> list[str]:
    """The summary that `run` prints. `named`: the database is not the default one, so that commands have to name it."""
    result = [
        f"session {session}: {_number(facts.calls, 'call')} ({_number(facts.turns, 'turn')}), "
        f"{facts.prompt_tokens:,} prompt + {facts.completion_tokens:,} sampled tokens, {facts.trainable} trainable"
    ]
    if facts.reasons:
        result.append(f"not trainable: {_counted(facts.reasons)}")
    if facts.last_error:
        # Some agents say nothing of it, and end well (Pi, aider, OpenHands).
        result.append(f"the last turn failed: {facts.last_error[:300]}")
    if facts.warnings:
        result.append(f"warnings: {_counted(facts.warnings)}")
    option = f" --db {database}" if named else ""
    result.append(f"database: {database}; to look further: polar-capture show {session}{option}")
    return result


def why_nothing(facts: Facts, environ: Mapping[str, str], log: Path | None) -> str:
    """Why a harness that ended well left no turn with token ids, as far as one can tell."""
    if facts.calls:
        text = f"{_number(facts.calls, 'call')} came through the proxy, but no turn has token ids"
        text += f" ({_counted(facts.reasons)})" if facts.reasons else ""
        text += "".join(f"\n  the engine or the proxy said: {error[:300]}" for error in facts.errors[:3])
    else:
        text = "no model call came through the proxy. That usually happens when the harness"
        causes = [
            "ignores HTTPS_PROXY (some programs read only a setting of their own, or need a newer Node)",
            "does not trust the CA (its runtime reads another variable than those that `polar-capture env` sets)",
            "has a base URL, a NO_PROXY or another proxy in its own settings file, so that calls go elsewhere",
            "talks to a host that is not on the list of providers (add it with --provider-host HOST)",
            "made no call at all (it wanted a login, or a question answered; look at its own output)",
        ]
        text += "".join(f"\n  - {cause}" for cause in causes)
    for name in BASE_URL_VARIABLES:
        if environ.get(name):
            text += f"\n  seen here: {name}={environ[name]} is set: a harness that follows it may bypass the proxy"
    if log is not None:
        for line in tls_failures(log):
            text += f"\n  seen in the proxy's log: {line}"
        text += f"\n  the proxy's log: {log}"
    return text


def tls_failures(log: Path, keep: int = 3) -> list[str]:
    """The last lines of a proxy's log that tell of a client which does not trust the CA."""
    try:
        text = log.read_text(errors="replace")
    except OSError:
        return []
    marks = ("certificate", "TLS handshake", "unknown ca")
    return [line.strip() for line in text.splitlines() if any(mark in line for mark in marks)][-keep:]


def _counted(counter: Mapping[str, int]) -> str:
    return ", ".join(f"{name} ×{number}" for name, number in sorted(counter.items()))


def _number(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
