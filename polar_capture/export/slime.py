"""slime: `Sample` as its `to_dict` writes it (slime 624b824a, August 2026). `loss_mask` and `rollout_log_probs` cover
the response alone."""

from typing import Any

from polar_capture.export.registry import Format
from polar_capture.export.row import ExportRow


def record(row: ExportRow) -> dict[str, Any]:
    sample = row.sample
    versions = [
        str(span.policy_version) for span in sample.turn_spans if span.trained and span.policy_version is not None
    ]
    return {
        "group_index": row.group_index,
        "index": row.index,
        "rollout_id": row.session_index,
        "prompt": "",
        "tokens": sample.input_ids,
        "response": "",
        "response_length": len(sample.input_ids) - sample.prompt_len,
        "label": None,
        "reward": sample.reward,
        "loss_mask": sample.loss_mask[row.response],
        "rollout_log_probs": row.logprobs()[row.response],
        "weight_versions": list(dict.fromkeys(versions)),
        "status": "truncated" if sample.finish_reason == "length" else "completed",
        "remove_sample": False,
        "session_id": sample.session_id,
        "metadata": row.about(),
        "train_metadata": None,
    }


FORMAT = Format(
    name="slime",
    record=record,
    layout={
        "tokens": "[n]",
        "loss_mask": "[response_length], the last ones of tokens",
        "rollout_log_probs": "[response_length], 0.0 where the mask is 0",
        "prompt, response": "empty: tokens are the truth, no tokenizer was used",
        "rollout_id": "numbers the session within this file; branches of one session share it",
    },
)
