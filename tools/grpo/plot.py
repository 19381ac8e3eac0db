"""The rewards of a run as a picture: `python tools/grpo/plot.py STEPS.jsonl PLOT.png`, where Pillow is."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from PIL import Image, ImageDraw

WIDTH, HEIGHT, MARGIN = 900, 480, 60
BLUE, GREY, PALE, BLACK = (31, 119, 180), (150, 150, 150), (225, 225, 225), (0, 0, 0)


def draw(steps: list[dict[str, float]], file: Path) -> None:
    """Mean reward of each step (0 to 1) as dots, and its mean over five steps as a line."""
    image = Image.new("RGB", (WIDTH, HEIGHT), "white")
    pen = ImageDraw.Draw(image)
    across = max(len(steps) - 1, 1)

    def place(step: int, reward: float) -> tuple[float, float]:
        return MARGIN + (WIDTH - 2 * MARGIN) * step / across, HEIGHT - MARGIN - (HEIGHT - 2 * MARGIN) * reward

    for tenth in range(0, 11, 2):
        left, right = place(0, tenth / 10), place(across, tenth / 10)
        pen.line([left, right], PALE)
        pen.text((left[0] - 34, left[1] - 6), f"{tenth / 10:.1f}", BLACK)
    for step in range(0, len(steps), max(1, len(steps) // 10)):
        x, y = place(step, 0)
        pen.text((x - 4, y + 8), str(step), BLACK)
    rewards = [step["reward"] for step in steps]
    smooth = [sum(rewards[max(0, i - 4) : i + 1]) / len(rewards[max(0, i - 4) : i + 1]) for i in range(len(rewards))]
    for step, reward in enumerate(rewards):
        x, y = place(step, reward)
        pen.ellipse([x - 4, y - 4, x + 4, y + 4], outline=GREY, width=2)
    if len(smooth) > 1:
        pen.line([place(step, reward) for step, reward in enumerate(smooth)], BLUE, width=3)
    pen.text((MARGIN, 20), "mean reward of each group (dots), over five groups (line)", BLACK)
    pen.text((WIDTH / 2 - 40, HEIGHT - 24), "GRPO step", BLACK)
    image.save(file)


if __name__ == "__main__":
    draw([json.loads(line) for line in Path(sys.argv[1]).read_text().splitlines()], Path(sys.argv[2]))
