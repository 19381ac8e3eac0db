"""TRL's GRPO: what a `rollout_func` returns, one sample a line (TRL 1.16, `prompt_ids`, `completion_ids`, `logprobs`,
`env_mask`; other keys reach the reward functions)."""

from typing import Any

from polar_capture.export.registry import Format
from polar_capture.export.row import ExportRow


def record(row: ExportRow) -> dict[str, Any]:
    sample = row.sample
    return {
        "prompt_ids": sample.input_ids[: sample.prompt_len],
        "completion_ids": sample.input_ids[row.response],
        "logprobs": row.logprobs()[row.response],
        "env_mask": sample.loss_mask[row.response],
        "reward": sample.reward,
        **row.about(),
    }


FORMAT = Format(
    name="trl-grpo",
    record=record,
    layout={
        "prompt_ids": "ids of the first prompt, [p]",
        "completion_ids": "all ids behind it, of model and tools, [r]",
        "logprobs": "aligned with completion_ids, [r]; 0.0 where env_mask is 0",
        "env_mask": "1 = sampled and trained, 0 = environment, [r]",
    },
)
