"""OpenRLHF: an executor's result for one sample, and the shifted masks of the `Experience` that is made of it.

`observation_tokens`, `action_ranges` and `rollout_log_probs` are aligned with the tokens, [n]. In an Experience
`action_mask` and `rollout_log_probs` have n − 1 entries, and entry i speaks of the token at i + 1: `experience` holds
them so, to be used without another shift.
"""

from typing import Any

from polar_capture.export.registry import Format
from polar_capture.export.row import ExportRow


def record(row: ExportRow) -> dict[str, Any]:
    sample = row.sample
    logprobs = row.logprobs()
    ranges = [[span.start, span.end] for span in sample.turn_spans if span.trained]
    return {
        "prompt": "",
        "label": None,
        "observation_tokens": sample.input_ids,
        "action_ranges": ranges,
        "rollout_log_probs": logprobs,
        "reward": sample.reward,
        "scores": sample.reward,
        "truncated": sample.finish_reason == "length",
        "extra_logs": {},
        "experience": {
            "action_mask": sample.loss_mask[1:],
            "rollout_log_probs": logprobs[1:],
            "response_length": ranges[-1][1] - ranges[0][0],
            "total_length": len(sample.input_ids),
        },
        "metadata": row.about(),
    }


FORMAT = Format(
    name="openrlhf",
    record=record,
    layout={
        "observation_tokens": "[n]",
        "action_ranges": "[start, end) in observation_tokens",
        "rollout_log_probs": "[n], aligned, 0.0 outside the ranges",
        "experience.response_length": "from the first to the last trained token",
        "experience.action_mask, experience.rollout_log_probs": "SHIFTED by one, [n-1]: entry i is of token i + 1",
    },
)
