"""How a rollout can fail, told apart by what is to be done about it."""

from collections.abc import Sequence

from polar_capture.exits import Exit, Failure


class TasksError(Failure):
    """The tasks cannot be used; `problems` has one line for each."""

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = list(problems)
        shown = self.problems[:20]
        more = len(self.problems) - len(shown)
        super().__init__("\n".join([*shown, *([f"… and {more} more"] if more else [])]), Exit.USAGE)


class InfrastructureFault(Exception):
    """Something of ours or below us failed, nothing that the policy did: the sample may be tried again.
    `number` is the attempt's."""

    number = 0


class StageTimeout(Exception):
    """A stage took longer than its limit."""


class EvaluatorFault(Exception):
    """The evaluator gave no judgement. The agent's work is done: only the evaluator may run again."""


class EngineGone(Failure):
    """The engine stayed away for longer than a rollout waits."""
