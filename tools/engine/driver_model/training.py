"""Training rows and the training loop. Only answers are learned; the text before them is context."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

import torch

from .agent_text import block
from .chat_format import CONTROL_MARKS, TURN_END, TURN_START
from .lessons import Lesson, Teacher

# The tool's name decides every token after it. At weight 1, one training in four mixed up `bash` and `terminal`.
TOOL_NAME_WEIGHT = 6.0
IGNORED = -100  # cross_entropy's mark for "no target here"


@dataclass(frozen=True)
class Recipe:
    steps: int = 900
    rows: int = 16  # rows of a step
    row_tokens: int = 224  # more than the window of 128, so that what is out of sight is seen to be so
    learning_rate: float = 4e-3
    seed: int = 0


class RowMaker:
    """Cuts lessons into fixed-length rows: random text, the end of a prompt, the answer."""

    def __init__(self, tokenizer: Any, recipe: Recipe) -> None:
        self.tokenizer, self.recipe = tokenizer, recipe
        self.rng, self.teacher = Random(recipe.seed), Teacher(recipe.seed)
        self.plain_ids = range(len(CONTROL_MARKS), len(tokenizer))
        self.background = self._background()

    def batches(self) -> Iterator[tuple[torch.Tensor, torch.Tensor, torch.Tensor]]:
        rows = self.recipe.rows
        while True:  # many lessons at once: the tokenizer then works on both cores
            lessons = [self.teacher.lesson() for _ in range(rows * 16)]
            encoded = self._encode(lessons)
            for first in range(0, len(encoded), rows):
                yield self._batch(encoded[first : first + rows])

    def _encode(self, lessons: list[Lesson]) -> list[tuple[list[int], list[int], list[float]]]:
        prompts = self.tokenizer([lesson.prompt_end for lesson in lessons], add_special_tokens=False)["input_ids"]
        answers = self.tokenizer(
            [lesson.answer for lesson in lessons], add_special_tokens=False, return_offsets_mapping=True
        )
        weights = [
            answer_weights(lesson, spans) for lesson, spans in zip(lessons, answers["offset_mapping"], strict=True)
        ]
        return list(zip(prompts, answers["input_ids"], weights, strict=True))

    def _batch(self, encoded: list[tuple[list[int], list[int], list[float]]]) -> tuple[torch.Tensor, ...]:
        shape = (len(encoded), self.recipe.row_tokens)
        ids = torch.full(shape, self.tokenizer.pad_token_id)
        targets = torch.full(shape, IGNORED)
        weights = torch.ones(shape)
        for row, (prompt, answer, answer_weight) in enumerate(encoded):
            room = self.recipe.row_tokens - len(answer)
            start = (self._lead() + prompt)[-room:]
            end = len(start) + len(answer)
            ids[row, :end] = torch.tensor(start + answer)
            targets[row, len(start) : end] = torch.tensor(answer)
            weights[row, len(start) : end] = torch.tensor(answer_weight)
        return ids, targets, weights

    def _lead(self) -> list[int]:
        """What stands before the part that matters: nothing, agent-like text, or that with noise in it."""
        chance = self.rng.random()
        if chance < 0.15:
            return []
        first = self.rng.randrange(len(self.background) - self.recipe.row_tokens)
        lead = self.background[first : first + self.recipe.row_tokens]
        if chance < 0.4:
            lead = [self.rng.choice(self.plain_ids) if self.rng.random() < 0.3 else token for token in lead]
        return lead

    def _background(self) -> list[int]:
        stray_marks = [f"{TURN_END}\n{TURN_START}{role}\n" for role in ("user", "system", "assistant")]
        texts = [block(self.rng) if self.rng.random() < 0.95 else self.rng.choice(stray_marks) for _ in range(12000)]
        encoded = self.tokenizer(texts, add_special_tokens=False)["input_ids"]
        return [token for ids in encoded for token in ids]


def answer_weights(lesson: Lesson, spans: list[tuple[int, int]]) -> list[float]:
    """The weight of each token of the answer, from the text spans that the tokens cover."""
    if lesson.tool is None:
        return [1.0] * len(spans)
    first = lesson.answer.index(f'"{lesson.tool}"') + 1
    last = first + len(lesson.tool)  # the closing quote counts too: it tells `shell` from `shell_command`
    return [TOOL_NAME_WEIGHT if start <= last and end > first else 1.0 for start, end in spans]


def train(model: Any, tokenizer: Any, recipe: Recipe) -> float:
    """Train in place and return the last loss. Progress goes to stderr."""
    torch.manual_seed(recipe.seed)
    batches = RowMaker(tokenizer, recipe).batches()
    optimizer = torch.optim.AdamW(model.parameters(), lr=recipe.learning_rate, betas=(0.9, 0.98), weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, recipe.learning_rate, total_steps=recipe.steps, pct_start=0.15
    )
    model.train()
    started, loss_now = time.monotonic(), float("nan")
    for step in range(1, recipe.steps + 1):
        ids, targets, weights = next(batches)
        hidden = model.model(input_ids=ids).last_hidden_state[:, :-1]
        learned = targets[:, 1:] != IGNORED
        logits = model.lm_head(hidden[learned])  # the answers' tokens only: a tenth of the rows
        losses = torch.nn.functional.cross_entropy(logits, targets[:, 1:][learned], reduction="none")
        loss = (losses * weights[:, 1:][learned]).mean()
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step % 100 == 0 or step == recipe.steps:
            loss_now = loss.item()
            elapsed = time.monotonic() - started
            print(
                f"driver model: step {step}/{recipe.steps}, loss {loss_now:.3f}, {elapsed:.0f} s",
                file=sys.stderr,
                flush=True,
            )
    model.eval()
    return loss_now
