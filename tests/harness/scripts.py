"""What the scripted model says to each harness: a thought, words and a tool call of that harness's own shell tool."""

from typing import Any

from tests.double.script import Rule, Script, Step, When

THOUGHT = "\nFirst a look  around.\n\n- then on  "
WORDS = "I run it.  "

SHELL = {
    "claude-code": ("Bash", lambda command: {"command": command, "description": "Append a line"}),
    "codex": ("exec_command", lambda command: {"cmd": command}),
    "qwen-code": ("run_shell_command", lambda command: {"is_background": False, "command": command}),
    "pi": ("bash", lambda command: {"command": command}),
    "gemini-cli": ("run_shell_command", lambda command: {"description": "Append", "command": command}),
    "opencode": ("bash", lambda command: {"description": "Append a line", "command": command}),
    "copilot": ("bash", lambda command: {"description": "Append a line", "command": command}),
    "mini-swe-agent": ("bash", lambda command: {"command": command}),
    "openhands": ("terminal", lambda command: {"summary": "append", "security_risk": "LOW", "command": command}),
}
"""Each harness's shell tool and its arguments, keys not in the order of the schema."""

HELPER = Rule(When(has_tools=False), Step(content='{"title": "A task", "reasoning": "easy", "complexity_score": 10}'))
"""Titles and routers ask without tools; one answer does for all."""

EDIT = "Here it is.\n\nproof.txt\n```\n<<<<<<< SEARCH\n=======\nfirst\nsecond\n>>>>>>> REPLACE\n```\n"
"""aider has no tools: it applies such blocks."""

SUBMIT = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"


def call(harness: str, command: str) -> dict[str, Any]:
    """A call of the harness's shell tool."""
    name, arguments = SHELL[harness]
    return {"name": name, "arguments": arguments(command)}


def two_calls(harness: str) -> Script:
    """A turn with thought, words and a tool call, a second one with a call, and the final words."""
    if harness == "aider":
        return Script(steps=[Step(content=EDIT, reasoning=THOUGHT)], default=Step(content="Nothing more to do."))
    steps = [
        Step(content=WORDS, reasoning=THOUGHT, tool_calls=[call(harness, "echo first >> proof.txt")]),
        Step(content=None, reasoning="One more.", tool_calls=[call(harness, "echo second >> proof.txt")]),
    ]
    if harness == "mini-swe-agent":
        steps.append(Step(content="It is done.", tool_calls=[call(harness, SUBMIT)]))
    return Script(steps=steps, rules=[HELPER], default=Step(content="All done.", reasoning="That was it."))
