"""Every harness by every case: how it is scripted, and what each run comes to. A new harness is one `Row`.

A case that a harness does not have is its reason, in words. What a run comes to is an `Ending`: its calls in order, one
word each. `main` is an answered and trainable turn of the main agent, `sub` one of a sub-agent; `main!429` was refused
with that status, `main!aborted` left by the client; `main?reason` was answered and does not train. Helpers' calls are
not in it: a row names them. The words are a regular expression where a client's clock decides.
"""

import enum
from collections.abc import Mapping

import msgspec


class Case(enum.StrEnum):
    """What each harness is put through; `cases.py` says how."""

    TASK = "task"
    """A thought, words and a tool call; a second call; the last words."""
    RESUME = "resume"
    """A second user turn in the same HOME."""
    SUBAGENT = "subagent"
    COMPACTION = "compaction"
    """Tool results fill the engine's window; then comes a second user turn, where it can resume."""
    DROPPED = "dropped"
    """The connection is cut in the middle of the first call."""
    BUSY = "busy"
    """The engine refuses one call with 429 and retry-after."""
    FAILING = "failing"
    """The engine fails one call with 500."""
    OVERFLOW = "overflow"
    """From the second call on the prompt never fits, also when it was made smaller."""
    SILENCE = "silence"
    """The first answer takes 330 s."""
    EGRESS = "egress"
    """Hosts that are no provider's are refused with 403, and then with 404."""


class Ending(msgspec.Struct, frozen=True, kw_only=True):
    """What a run comes to."""

    calls: str
    status: int = 0
    proof: str = "first\n"
    """What the tool has written."""
    breaks: str = ""
    """Why trainable turns do not chain, as `build` records it: an expression as well; "" for a chain that is exact."""
    says: str = ""
    """Words in its output: a run that fails must say why."""


class Fill(msgspec.Struct, frozen=True, kw_only=True):
    """How a context is filled: so many tool calls with so many characters of output, in a window of so many tokens."""

    calls: int
    characters: int = 18_000
    window: int = 65_536
    arguments: tuple[str, ...] = ()
    """More arguments for the harness."""


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One harness. `cases` holds what is not `USUAL`: another ending, or why it does not have the case."""

    harness: str
    cases: Mapping[Case, Ending | str] = {}
    fill: Fill = Fill(calls=3)
    sides: frozenset[str] = frozenset()
    """The helpers that it calls, by agent."""
    obeys_retry_after: bool = False
    deaf_to_pings: bool = False
    """On Messages it does not see pings: its silence there is another case."""

    def ending(self, case: Case) -> Ending:
        """What is expected. Raises LookupError, whose words say why the harness does not have the case."""
        found = self.cases.get(case, USUAL[case])
        if isinstance(found, str):
            raise LookupError(found)
        return found

    def has(self, case: Case) -> bool:
        return not isinstance(self.cases.get(case), str)


USUAL: Mapping[Case, Ending] = {
    Case.TASK: Ending(calls="main main main", proof="first\nsecond\n"),
    Case.RESUME: Ending(calls="main main main main", proof="first\nsecond\n"),
    Case.SUBAGENT: Ending(calls="main sub sub main", proof="sub\n"),
    Case.COMPACTION: Ending(calls="main( main)+", proof="first\n" * 3, breaks="compaction"),
    Case.DROPPED: Ending(calls="main!aborted main main"),
    Case.BUSY: Ending(calls="main main!429 main"),
    Case.FAILING: Ending(calls="main main!502 main"),
    Case.OVERFLOW: Ending(calls="main main!400", status=1, says="maximum context length"),
    Case.SILENCE: Ending(calls="main main"),
    Case.EGRESS: Ending(calls="main main"),
}

_STOPPED = "polar_capture has stopped session"
_NO_SUBAGENTS = "it has no sub-agents of its own"

ROWS: tuple[Row, ...] = (
    Row(
        harness="claude-code",
        obeys_retry_after=True,
        fill=Fill(calls=3, characters=21_000),
        cases={
            Case.COMPACTION: Ending(calls="main( main){6}", proof="first\n" * 3, breaks="history_edited compaction"),
            Case.OVERFLOW: Ending(calls="main( main!400)+", status=1, says="prompt is too long"),
        },
    ),
    Row(
        harness="codex",
        obeys_retry_after=True,
        fill=Fill(calls=3, window=57_000),
        cases={
            Case.COMPACTION: Ending(calls="main( main){4,5}", proof="first\n" * 3, breaks="new_conversation"),
            # It does not wait for a sub-agent by itself: the model asks it to.
            Case.SUBAGENT: Ending(calls="main main( main)* sub( main| sub)+", proof="sub\n"),
            Case.OVERFLOW: Ending(calls="main main!400", status=1, says="ran out of room"),
        },
    ),
    Row(
        harness="qwen-code",
        obeys_retry_after=True,
        deaf_to_pings=True,
        sides=frozenset({"aux:helper"}),
        fill=Fill(calls=3, window=80_000),
        cases={
            # A resumed process builds its first message anew (facts §5).
            Case.RESUME: Ending(calls="main main main main", proof="first\nsecond\n", breaks="new_conversation"),
            # Its sub-agent works in the background where the main agent is quicker.
            Case.SUBAGENT: Ending(calls="main( main)? sub sub main", proof="sub\n"),
            Case.COMPACTION: Ending(
                calls="main( main){5}", proof="first\n" * 3, breaks="new_conversation new_conversation"
            ),
            Case.OVERFLOW: Ending(calls="main( main!400){3}", status=1, says="maximum context length"),
        },
    ),
    Row(
        harness="pi",
        fill=Fill(calls=6),
        cases={
            Case.SUBAGENT: _NO_SUBAGENTS,
            Case.COMPACTION: Ending(calls="main( main){8}", proof="first\n" * 6, breaks="compaction compaction"),
            # It says nothing and ends well: what `run` says is all there is.
            Case.OVERFLOW: Ending(calls="main main!400", says="the last turn failed: This model's maximum context"),
        },
    ),
    Row(
        harness="gemini-cli",
        sides=frozenset({"aux:router"}),
        fill=Fill(calls=6),
        cases={
            Case.RESUME: Ending(calls="main main main main", proof="first\nsecond\n", breaks=".+"),
            # A sub-agent that ends without its tool for that is asked once more.
            Case.SUBAGENT: Ending(calls="main sub sub( sub)? main", proof="sub\n"),
            # It sums up between user turns only, by its own estimate of a window of a million tokens.
            Case.COMPACTION: Ending(
                calls="main( main)+ main!400", status=1, proof="first\n" * 5, says="maximum context length"
            ),
        },
    ),
    Row(
        harness="opencode",
        obeys_retry_after=True,
        sides=frozenset({"aux:title"}),
        fill=Fill(calls=5),
        cases={
            Case.COMPACTION: Ending(calls="main( main){8}", proof="first\n" * 5, breaks="compaction compaction"),
            Case.OVERFLOW: Ending(
                calls="main( main!400 main)+( main!400)+",
                status=1,
                breaks="new_conversation new_conversation( retry)+",
                says=_STOPPED,
            ),
        },
    ),
    Row(
        harness="copilot",
        obeys_retry_after=True,
        fill=Fill(calls=5, characters=16_000),
        cases={
            # It sums up beside its next turns, and leaves that call where the run ends before.
            Case.COMPACTION: Ending(
                calls="main( main| main!aborted| main!400)+",
                proof="first\n" * 5,
                breaks="history_edited( compaction){0,2}",
            ),
            Case.OVERFLOW: Ending(calls="main( main!400)+", status=1, says=_STOPPED),
        },
    ),
    Row(
        harness="mini-swe-agent",
        fill=Fill(calls=8, characters=9_000, window=32_768),
        cases={
            Case.RESUME: "it cannot go on with an earlier run",
            Case.SUBAGENT: _NO_SUBAGENTS,
            Case.COMPACTION: Ending(calls="main( main)+ main!400", status=1, proof="first\n" * 7, says="too long"),
            Case.OVERFLOW: Ending(calls="main main!400", status=1, says="too long"),
        },
    ),
    Row(
        harness="aider",
        obeys_retry_after=True,
        sides=frozenset({"aux:helper"}),
        # It sums up what earlier runs said, beyond so many tokens of it.
        fill=Fill(calls=1, arguments=("--max-chat-history-tokens", "16")),
        cases={
            Case.TASK: Ending(calls="main", proof="first\nsecond\n"),
            Case.RESUME: Ending(calls="main main", proof="first\nsecond\n" * 2, breaks="new_conversation"),
            Case.SUBAGENT: _NO_SUBAGENTS,
            Case.COMPACTION: Ending(
                calls="main( main)+", proof="first\nsecond\n", breaks="compaction.*new_conversation"
            ),
            Case.DROPPED: Ending(calls="main!aborted main"),
            Case.BUSY: Ending(calls="main!429 main"),
            Case.FAILING: Ending(calls="main!502 main"),
            # It ends well whatever happened: `run` tells that nothing was captured.
            Case.OVERFLOW: Ending(calls="main!400", status=3, proof="", says="maximum context length"),
            Case.SILENCE: Ending(calls="main"),
            Case.EGRESS: Ending(calls="main"),
        },
    ),
    Row(
        harness="openhands",
        fill=Fill(calls=6),
        cases={
            Case.COMPACTION: Ending(
                calls="main( main){5} main!400( main){3}", proof="first\n" * 6, breaks="compaction history_edited"
            ),
            # It takes a 502 as final, says nothing, and ends well.
            Case.FAILING: Ending(calls="main main!502", says="the last turn failed: it broke"),
            Case.OVERFLOW: Ending(calls="main( main!400| main)+", breaks="new_conversation.*", says=_STOPPED),
        },
    ),
)


REFERENCE = ("claude-code", "codex", "qwen-code", "pi")
"""The four that CI runs; the others are one `make test-harness` away."""

ALL = tuple(row.harness for row in ROWS)


def row(harness: str) -> Row:
    """The row of this harness."""
    return next(row for row in ROWS if row.harness == harness)
