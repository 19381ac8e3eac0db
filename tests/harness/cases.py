"""How each case is run: the script of the engine, the proxy, the harness, and what came of it."""

import threading
import time
import urllib.request
from collections.abc import Callable
from urllib.parse import urlsplit

import msgspec

from polar_capture.harnesses import presets
from tests.double.process import Running
from tests.double.script import Script, Step
from tests.double.server import Logged
from tests.harness import scripts
from tests.harness.matrix import Case, Row
from tests.harness.relay import relay
from tests.harness.stage import Ran, staged

TASK = "Please do it."
AGAIN = "And now?"
OVERFLOW = (
    "This model's maximum context length is 65536 tokens. However, you requested 4096 output tokens and your prompt "
    "contains 70000 input tokens, for a total of 74096 tokens. Please reduce the length of the input prompt."
)
TOO_BIG = Step(status=400, error=OVERFLOW)
RETRY_AFTER = 4.0
"""Seconds that the busy engine asks for."""
SILENCE = 330.0
"""Seconds, beyond the limit of every streaming client (facts §7)."""


class Trial(msgspec.Struct):
    """One run of a case; `asked` is what the engine was asked for by it, in order."""

    case: Case
    ran: Ran
    asked: list[Logged] = []


def run(row: Row, case: Case) -> list[Trial]:
    """Run a case. A task is followed by its second user turn, so that there are two trials where it can resume."""
    return _RUNS[case](row)


def tasks(row: Row, *options: str, resume: bool = True) -> list[Trial]:
    with staged(scripts.two_calls(row.harness)) as (stage, _):
        found = [Trial(Case.TASK, stage.run(row.harness, TASK, options=options))]
        if resume and row.has(Case.RESUME):
            found.append(Trial(Case.RESUME, stage.run(row.harness, AGAIN, options=(*options, "--resume"))))
        return found


def subagent(row: Row) -> list[Trial]:
    return _plain(Case.SUBAGENT, row, scripts.with_subagent(row.harness))


def compaction(row: Row) -> list[Trial]:
    fill = row.fill
    with staged(scripts.filling(row.harness, fill.calls, fill.characters), window=fill.window) as (stage, engine):
        ran = stage.run(row.harness, TASK, *fill.arguments)
        if ran.status == 0 and presets.get(row.harness).again:
            ran = stage.run(row.harness, AGAIN, *fill.arguments, options=("--resume",))
        return [Trial(Case.COMPACTION, ran, engine.chats())]


def dropped(row: Row) -> list[Trial]:
    slow = scripts.once(row.harness, delay=6.0)
    script = msgspec.structs.replace(slow, steps=[slow.steps[0], *scripts.once(row.harness).steps])
    with staged(script) as (stage, engine), stage.serving() as proxy, relay(urlsplit(proxy).port or 0) as between:
        cutter = threading.Thread(target=_cut_when_asked, args=(between.cut, engine))
        cutter.start()
        ran = stage.run(row.harness, TASK, proxy=f"http://127.0.0.1:{between.port}")
        cutter.join()
        return [Trial(Case.DROPPED, ran, engine.chats())]


def busy(row: Row) -> list[Trial]:
    step = Step(status=429, error="The engine is currently busy.", headers={"retry-after": f"{RETRY_AFTER:.0f}"})
    return _plain(Case.BUSY, row, scripts.once(row.harness, step))


def failing(row: Row) -> list[Trial]:
    return _plain(Case.FAILING, row, scripts.once(row.harness, Step(status=500, error="it broke")))


def overflow(row: Row) -> list[Trial]:
    script = scripts.once(row.harness, msgspec.structs.replace(TOO_BIG, repeat=10_000))
    return _plain(Case.OVERFLOW, row, script)


def silence(row: Row, seconds: float = SILENCE, *options: str) -> list[Trial]:
    script = scripts.once(row.harness, delay=seconds)
    return _plain(Case.SILENCE, row, script, *options, patience=2 * seconds + 120)


def egress(row: Row) -> list[Trial]:
    """The same task twice: CONNECT to a host that is no provider's is answered 403 as `--egress block` does it, then
    404 in its place."""
    found = []
    for status in (403, 404):
        with staged(scripts.once(row.harness)) as (stage, engine), stage.serving() as proxy:
            with relay(urlsplit(proxy).port or 0, refusal=status) as between:
                ran = stage.run(row.harness, TASK, proxy=f"http://127.0.0.1:{between.port}")
            ran.refused = between.refused
            found.append(Trial(Case.EGRESS, ran, engine.chats()))
    return found


def _plain(case: Case, row: Row, script: Script, *options: str, patience: float = 300) -> list[Trial]:
    with staged(script) as (stage, engine):
        return [Trial(case, stage.run(row.harness, TASK, options=options, patience=patience), engine.chats())]


def _cut_when_asked(cut: Callable[[], int], engine: Running) -> None:
    """Cut the connections while the first real call is being answered: it is logged only when that is over, so the
    engine's own count of running requests tells."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline:
        with opener.open(engine.url + "/metrics", timeout=10) as answer:
            if b"} 1.0" in answer.read():
                time.sleep(1)
                cut()
                return
        time.sleep(0.2)
    raise TimeoutError("the harness never asked")


_RUNS: dict[Case, Callable[[Row], list[Trial]]] = {
    Case.TASK: tasks,
    Case.SUBAGENT: subagent,
    Case.COMPACTION: compaction,
    Case.DROPPED: dropped,
    Case.BUSY: busy,
    Case.FAILING: failing,
    Case.OVERFLOW: overflow,
    Case.SILENCE: silence,
    Case.EGRESS: egress,
}
