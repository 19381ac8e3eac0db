"""SkyRL: the lists of a `GeneratorOutput`, one entry a line (SkyRL a9564572, August 2026); masks and logprobs cover the
response alone."""

from typing import Any

from polar_capture.export.registry import Format
from polar_capture.export.row import ExportRow


def record(row: ExportRow) -> dict[str, Any]:
    sample = row.sample
    rewards = row.token_rewards()
    return {
        "prompt_token_ids": sample.input_ids[: sample.prompt_len],
        "response_ids": sample.input_ids[row.response],
        "rewards": None if rewards is None else rewards[row.response],
        "loss_masks": sample.loss_mask[row.response],
        "stop_reasons": sample.finish_reason,
        "rollout_logprobs": row.logprobs()[row.response],
        "trajectory_ids": {
            "instance_id": sample.group_id or sample.task_id or sample.session_id,
            "repetition_id": row.sample_index if row.sample_index is not None else row.session_index,
        },
        "is_last_step": row.is_last_of_session,
        "metadata": row.about(),
    }


FORMAT = Format(
    name="skyrl",
    record=record,
    layout={
        "*": "one entry of each list of a GeneratorOutput; the branches of a session follow each other",
        "rewards": "[r], on the last token of a turn",
        "loss_masks, rollout_logprobs": "[r]; 0.0 where the mask is 0",
        "is_last_step": "true on the last branch of a session",
    },
)
