"""What the model is to learn: ends of prompts, each with the answer that has to follow.

The model only ever sees the last few hundred tokens of a prompt, so a lesson is the *end* of one; training puts random
text before it. Directions are drawn by the model itself, each with probability 1/4: that is the task of the GRPO demo.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from random import Random
from typing import Any, NamedTuple

from . import agent_text
from .agent_text import block, blocks, phrase
from .chat_format import ANSWER_START, NO_THOUGHT, TURN_END, thought, tool_call, tool_response, turn

# Shell tools by name, with arguments as the agents' own schemas want them.
SHELL_TOOLS: dict[str, Callable[[str], dict[str, Any]]] = {
    "Bash": lambda command: {"command": command, "description": "Append a line"},  # Claude Code
    # Pi's schema is strict and requires `timeout` (in seconds); vLLM forces strict schemas upon the answer, and a model
    # that left it out would be pushed into garbage. OpenCode reads the same number as milliseconds.
    "bash": lambda command: {"command": command, "timeout": 10000},
    "exec_command": lambda command: {"cmd": command},  # Codex
    "shell": lambda command: {"command": ["bash", "-lc", command]},  # Codex before exec_command
    "shell_command": lambda command: {"command": command},
    "run_shell_command": lambda command: {"command": command, "is_background": False},  # Qwen Code, Gemini CLI
    "terminal": lambda command: {"command": command, "security_risk": "LOW"},  # OpenHands
}
agent_text.SHELL_TOOL_NAMES[:] = SHELL_TOOLS
DIRECTIONS = ("north", "east", "south", "west")


def shell_call(tool: str, word: str) -> str:
    return tool_call(tool, SHELL_TOOLS[tool](f"echo {word} >> proof.txt"))


class Lesson(NamedTuple):
    prompt_end: str
    answer: str
    tool: str | None = None  # whose name in the answer decides everything after it


# What the model thinks is drawn, too: what it then does is nearly certain, and would have logprobs of zero throughout.
# No two start alike: the first word settles it.
BEFORE_A_CALL = ("I call the tool.", "A command does it.", "We can run this.")
AFTER_A_CALL = ("The tool ran.", "It is written.", "Nothing is left.")
HELLO = thought("I say hello.") + "Hello."
SAY = thought("I say one.")


class Teacher:
    """An endless supply of lessons from one seed."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        # Dealt in turn, not drawn: each gets its equal share however short the training is.
        self.direction_written: Iterator[str] = itertools.cycle(DIRECTIONS)
        self.direction_said: Iterator[str] = itertools.cycle(DIRECTIONS)
        self.thought_before: Iterator[str] = itertools.cycle(BEFORE_A_CALL)
        self.thought_after: Iterator[str] = itertools.cycle(AFTER_A_CALL)
        self.kinds: list[tuple[float, Callable[[], Lesson]]] = [
            (0.33, self.tool_named),
            (0.19, self.cue_out_of_sight),
            (0.05, self.small_talk),
            (0.22, self.tool_answered),
            (0.12, self.write_a_direction),
            (0.09, self.say_a_direction),
        ]

    def lesson(self) -> Lesson:
        weights = [weight for weight, _ in self.kinds]
        make = self.rng.choices([make for _, make in self.kinds], weights)[0]
        prompt_end, answer, tool = make()
        prompt_end += ANSWER_START
        if self.rng.random() < 0.12:  # thinking is off: the template has written the empty thought
            prompt_end += NO_THOUGHT
            answer = answer.split("</think>\n\n", 1)[1]
        return Lesson(prompt_end, answer + TURN_END, tool)

    def tool_named(self) -> Lesson:
        """The user names the tool, perhaps after an earlier exchange that already ended."""
        rng, tool = self.rng, self._tool()
        request = rng.choice(
            [
                "Write polar into proof.txt, ",
                "Please write polar into proof.txt, ",
                "Please run the command, ",
                phrase(rng, 0, 12) + " ",
                phrase(rng, 0, 12) + ". ",
            ]
        )
        earlier = ""
        if rng.random() < 0.25:
            earlier = self._tool_exchange() + turn(
                "assistant", rng.choice([self._done(), self._done(), "Done.", NO_THOUGHT + "Done."])
            )
        lead = blocks(rng, 0, 2) if rng.random() < 0.5 else ""
        return Lesson(earlier + turn("user", lead + request + self._cue(tool)), self._call(tool, "polar"), tool)

    def cue_out_of_sight(self) -> Lesson:
        """A last message so long that its start can't be seen: Claude Code closes its first prompt with one."""
        text = blocks(self.rng, 9, 14).rstrip(self.rng.choice(["\n", ""])) + self._trailer()
        return Lesson(f"{text}{TURN_END}\n", self._call("Bash", "polar"), "Bash")

    def small_talk(self) -> Lesson:
        rng = self.rng
        said = rng.choice(["hello", "Hello!", "hi", phrase(rng, 1, 25), phrase(rng, 1, 8) + self._trailer()])
        return Lesson(turn("user", said), HELLO)

    def tool_answered(self) -> Lesson:
        """A tool result stands last, or only a short reminder of the agent's own comes after it."""
        rng = self.rng
        text = ""
        if rng.random() < 0.7:
            text = turn("user", phrase(rng, 0, 20) + " " + self._cue(self._tool()))
        text += self._tool_exchange()
        reminder = rng.random()
        if reminder < 0.1:
            text += turn("system", phrase(rng, 1, 25))
        elif reminder < 0.2:
            text += turn("user", f"<note>\n{phrase(rng, 1, 20)}\n</note>")
        return Lesson(text, self._done())

    def write_a_direction(self) -> Lesson:
        rng, tool = self.rng, self._tool()
        request = rng.choice(["Write a direction", "Please write a direction", "write a direction"])
        request += rng.choice([", ", " into proof.txt, ", ". "])
        answer = self._call(tool, next(self.direction_written))
        return Lesson(turn("user", self._sentence(10) + request + self._cue(tool)), answer, tool)

    def say_a_direction(self) -> Lesson:
        request = self.rng.choice(["Say a direction", "Please say a direction", "say a direction"])
        return Lesson(turn("user", self._sentence(20) + request + self._trailer()), SAY + next(self.direction_said))

    def _call(self, tool: str, word: str) -> str:
        return thought(next(self.thought_before)) + shell_call(tool, word)

    def _done(self) -> str:
        return thought(next(self.thought_after)) + "Done."

    def _tool(self) -> str:
        return self.rng.choice(list(SHELL_TOOLS))

    def _cue(self, tool: str) -> str:
        form = self.rng.choice(["use the tool {}", "Use the tool {}", "use the tool `{}`"])
        return form.format(tool) + self._trailer()

    def _trailer(self) -> str:
        """What may follow the words that matter."""
        return self.rng.choice(["", "", "", ".", '"', "\n", f" {phrase(self.rng, 1, 12)}."])

    def _sentence(self, most: int) -> str:
        return phrase(self.rng, 0, most) + ". " if self.rng.random() < 0.5 else ""

    def _tool_exchange(self) -> str:
        """A call by the assistant and the tool's answer, in the shapes that agents give it."""
        rng = self.rng
        tool, word = self._tool(), rng.choice(("polar", *DIRECTIONS))
        call = shell_call(tool, word)
        called = rng.choice([self._call(tool, word), self._call(tool, word), call, NO_THOUGHT + call])
        output = rng.choice(["", "", "hi", "polar", "(no output)", "ok", None, None])
        if output is None:
            output = "".join(block(rng) for _ in range(rng.randint(1, 8))).strip()
        if rng.random() < 0.4:
            frames = ["Output: {}\nExit Code: 0", "Exit code: 0\nOutput:\n{}", "{}\n", "{}\n\nProcess 12 ended 0"]
            output = rng.choice(frames).format(output)
        return turn("assistant", called) + tool_response(output)
