"""What the engine says in each scenario, what the client asks, and what it must be told. One table for all SDKs."""

from typing import Any

import msgspec

from tests.double.script import Step

TEXT = "  Odd\u2028 spacing,\t👩‍👩‍👧 e\u0301 \x00 \\u0068 </s> \r\n and a tail of blanks  \n " * 12
THOUGHTS = "\nHm… \u2029let me\x0b think.  " * 9
ARGUMENTS = '{ "path":"\\u0068\\/ 👍\\u0000", "depth":1.50,\n "all":[true,null,{"z":1,"a":2}]}'
PARALLEL = ('{"path":"a"}', '{"path":"b"}', "{}")
STRUCTURED = '{"ok": true, "count": 3}'
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"ok": {"type": "boolean"}, "count": {"type": "integer"}},
    "required": ["ok", "count"],
    "additionalProperties": False,
}
PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {"path": {"type": "string"}, "depth": {"type": "number"}},
}
USAGE = {
    "prompt_tokens": 1200,
    "completion_tokens": 34,
    "total_tokens": 1234,
    "prompt_tokens_details": {"cached_tokens": 1008},
    "completion_tokens_details": {"reasoning_tokens": 7},
}


class Asked(msgspec.Struct, frozen=True):
    """What a client asks. `scenario` stands in the user's message, where the engine reads it; `mark` stands behind it
    and tells one request from another in the engine's log."""

    scenario: str
    mark: str = ""
    tools: bool = False
    structured: bool = False
    stop: list[str] = []
    max_tokens: int = 4096

    @property
    def prompt(self) -> str:
        return f"<scenario>{self.scenario}</scenario>{self.mark}"


class Told(msgspec.Struct):
    """What a client was told. `calls` are (name, arguments): the raw string where the dialect has one, else the value.

    `stop` is the dialect's own word; `ids` are every id in the answer.
    """

    text: str
    thinking: str
    calls: list[tuple[str, Any]]
    stop: str
    usage: tuple[int, int, int, int]
    """prompt, completion, of the prompt cached, of the completion reasoning (0 where the dialect can't say)."""
    ids: list[str]
    call_ids: list[str] = []
    stop_sequence: str | None = None


class Scenario(msgspec.Struct, frozen=True):
    """`finish` is the engine's finish reason."""

    step: Step
    asked: Asked
    finish: str = "stop"

    @property
    def raw_calls(self) -> list[tuple[str, str]]:
        return [(call["name"], call["arguments"]) for call in self.step.tool_calls]


def _ls(*arguments: str) -> list[dict[str, Any]]:
    return [{"name": "ls", "arguments": text} for text in arguments]


def _scenario(name: str, step: Step, finish: str = "stop", **asked: Any) -> Scenario:
    return Scenario(msgspec.structs.replace(step, usage=USAGE), Asked(name, **asked), finish)


SCENARIOS = {
    "text": _scenario("text", Step("Hello there.")),
    "odd": _scenario("odd", Step(TEXT, reasoning=THOUGHTS)),
    "tool": _scenario("tool", Step(TEXT, reasoning=THOUGHTS, tool_calls=_ls(ARGUMENTS)), "tool_calls", tools=True),
    "parallel": _scenario("parallel", Step(None, tool_calls=_ls(*PARALLEL)), "tool_calls", tools=True),
    "structured": _scenario("structured", Step(STRUCTURED, reasoning="A number."), structured=True),
    "stop": _scenario("stop", Step("Up to here ", stop_reason="END"), stop=["END"]),
    "length": _scenario("length", Step("Half of a", reasoning=THOUGHTS, finish_reason="length"), "length"),
    "late": _scenario("late", Step(TEXT, reasoning=THOUGHTS, delay=1.2)),
}
"""Scenario → what is said. `late` comes after the header grace, so its stream is opened before anything is known."""

OVERFLOW = (
    "This model's maximum context length is 65536 tokens. However, you requested 0 output tokens and your prompt "
    "contains 70000 input tokens, for a total of 70000 tokens. Please reduce the length of the input prompt or the "
    "number of requested output tokens."
)

FAULTS = {
    "overflow": Step(status=400, error=OVERFLOW),
    "broken": Step(status=500, error="the engine died", delay=1.2),
    "busy": Step(status=503, error="The engine is currently busy.", headers={"retry-after": "7"}),
    "slow": Step(delay=120),
}

STOPS: dict[str, dict[str, str]] = {
    "chat": {"stop": "stop", "length": "length", "tool_calls": "tool_calls", "sequence": "stop"},
    "messages": {
        "stop": "end_turn",
        "length": "max_tokens",
        "tool_calls": "tool_use",
        "sequence": "stop_sequence",
    },
    "responses": {"stop": "completed", "length": "incomplete", "tool_calls": "completed", "sequence": "completed"},
    "google": {"stop": "STOP", "length": "MAX_TOKENS", "tool_calls": "STOP", "sequence": "STOP"},
}
"""Client → the engine's finish reason (`sequence`: a stop string) → the dialect's word."""


def answer(body: dict[str, Any]) -> Step | None:
    """The step of the scenario that the last message names; None for a request that names none."""
    last = msgspec.json.encode((body.get("messages") or [{}])[-1]).decode()
    _, found, rest = last.partition("<scenario>")
    if not found:
        return None
    name = rest.partition("</scenario>")[0]
    return FAULTS[name] if name in FAULTS else SCENARIOS[name].step
