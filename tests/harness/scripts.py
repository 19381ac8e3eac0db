"""What the scripted model says to each harness: a thought, words and calls of that harness's own tools."""

from collections.abc import Callable
from typing import Any

from tests.double.script import Rule, Script, Step, When

THOUGHT = "\nFirst a look  around.\n\n- then on  "
WORDS = "I run it.  "
LAST = "All done."
SUBTASK = "SUBTASK-SEVEN"
"""Stands in a sub-agent's prompt alone."""

Tool = tuple[str, Callable[[str], dict[str, Any]]]

SHELL: dict[str, Tool] = {
    "claude-code": ("Bash", lambda command: {"description": "Append a line", "command": command}),
    "codex": ("exec_command", lambda command: {"yield_time_ms": 9000, "cmd": command}),
    "qwen-code": ("run_shell_command", lambda command: {"is_background": False, "command": command}),
    "pi": ("bash", lambda command: {"timeout": 60, "command": command}),
    "gemini-cli": ("run_shell_command", lambda command: {"description": "Append", "command": command}),
    "opencode": ("bash", lambda command: {"description": "Append a line", "command": command}),
    "copilot": ("bash", lambda command: {"description": "Append a line", "command": command}),
    "mini-swe-agent": ("bash", lambda command: {"command": command}),
    "openhands": ("terminal", lambda command: {"summary": "append", "security_risk": "LOW", "command": command}),
}
"""Each harness's shell tool, with keys not in the order of its schema: clients reorder them."""

SPAWN: dict[str, Tool] = {
    "claude-code": (
        "Agent",
        lambda prompt: {
            "description": "A part",
            "prompt": prompt,
            "subagent_type": "general-purpose",
            "run_in_background": False,
        },
    ),
    "codex": ("collaboration__spawn_agent", lambda prompt: {"task_name": "part", "message": prompt}),
    "qwen-code": (
        "agent",
        lambda prompt: {"description": "A part", "prompt": prompt, "subagent_type": "general-purpose"},
    ),
    "gemini-cli": ("invoke_agent", lambda prompt: {"agent_name": "generalist", "prompt": prompt}),
    "opencode": ("task", lambda prompt: {"description": "A part", "prompt": prompt, "subagent_type": "general"}),
    "copilot": (
        "task",
        lambda prompt: {"name": "part", "description": "A part", "prompt": prompt, "agent_type": "general-purpose"},
    ),
    "openhands": (
        "task",
        lambda prompt: {"security_risk": "LOW", "description": "A part", "prompt": prompt, "subagent_type": "default"},
    ),
}
"""The tool by which a harness starts a sub-agent; those that are not here have none."""

SUMMARY = "SUMMARY: the line is written."
"""What the model says of a history that it sums up."""

_ANSWER = '{"title": "%s", "reasoning": "easy", "complexity_score": 10}'
HELPER = Rule(When(has_tools=False), Step(content=_ANSWER % "A task"))
"""Titles and routers ask without tools; one answer does for all, and for the proxy's own probe."""

PROBE = Rule(When(last_contains='"content":"hi"'), Step())
"""The proxy's own probe alone."""

EDIT = "Here it is.\n\nproof.txt\n```\n<<<<<<< SEARCH\n=======\nfirst\nsecond\n>>>>>>> REPLACE\n```\n"
"""aider has no tools: it applies such blocks."""

SUBMIT = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
"""How mini-swe-agent is told that the task is done."""


def shell(harness: str, command: str, **step: Any) -> Step:
    """A turn that calls the harness's shell tool."""
    name, arguments = SHELL[harness]
    return Step(**{"content": None, "tool_calls": [{"name": name, "arguments": arguments(command)}], **step})


def ending(harness: str) -> list[Step]:
    """The turns that end a run."""
    return [shell(harness, SUBMIT, content="It is done.")] if harness == "mini-swe-agent" else []


def two_calls(harness: str) -> Script:
    """A turn with thought, words and a tool call, a second one with a call, and the last words."""
    if harness == "aider":
        first = Rule(When(contains="SEARCH/REPLACE"), Step(content=EDIT, reasoning=THOUGHT))
        return Script(rules=[first])
    steps = [
        shell(harness, "echo first >> proof.txt", content=WORDS, reasoning=THOUGHT),
        shell(harness, "echo second >> proof.txt", reasoning="One more."),
        *ending(harness),
    ]
    return Script(steps=steps, rules=[HELPER], default=Step(content=LAST, reasoning="That was it."))


def once(harness: str, *faults: Step, **first: Any) -> Script:
    """A turn with a tool call, then the `faults`, and the last words. aider ends with the turn that edits: its faults
    come first."""
    if harness == "aider":
        return Script(steps=[*faults, Step(content=EDIT.replace("second\n", ""), **first)], rules=[PROBE])
    steps = [shell(harness, "echo first >> proof.txt", reasoning=THOUGHT, **first), *faults, *ending(harness)]
    return Script(steps=steps, rules=[HELPER], default=Step(content=LAST))


def filling(harness: str, calls: int, characters: int) -> Script:
    """Tool calls whose results fill the context. The last words are a summary as well, for whoever asks for one."""
    summary = Step(content=SUMMARY)
    if harness == "aider":
        return Script(steps=[Step(content=EDIT)], rules=[PROBE], default=summary)
    steps = [shell(harness, _line_and_numbers(number, characters)) for number in range(calls)]
    helper = Rule(HELPER.when, Step(content=_ANSWER % SUMMARY))
    return Script(steps=[*steps, *ending(harness)], rules=[helper], default=summary)


def _line_and_numbers(number: int, characters: int) -> str:
    """A command that is another one each time: some harnesses stop a model that repeats itself."""
    return f"echo first >> proof.txt; seq -f '{number} %06.0f' 1 {characters // 9} | paste -sd' ' | fold -w 90"


def with_subagent(harness: str) -> Script:
    """The main agent starts a sub-agent, which calls the shell; both say their last words."""
    name, arguments = SPAWN[harness]
    spawn = Step(content=None, reasoning=THOUGHT, tool_calls=[{"name": name, "arguments": arguments(SUBTASK)}])
    steps = [spawn]
    if harness == "codex":  # it does not wait by itself
        wait = {"name": "collaboration__wait_agent", "arguments": {"timeout_ms": 20000}}
        steps.append(Step(content=None, tool_calls=[wait]))
    sub = Rule(When(last_contains=SUBTASK, last_role="user"), shell(harness, "echo sub >> proof.txt"))
    return Script(steps=steps, rules=[HELPER, sub], default=Step(content=LAST))
