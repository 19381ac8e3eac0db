"""verl: the fields of an AgentLoopOutput with the non-tensor fields of its batch, ready to be padded into a DataProto
(verl b178a3cd, January 2026)."""

from typing import Any

from polar_capture.export.registry import Format
from polar_capture.export.row import ExportRow


def record(row: ExportRow) -> dict[str, Any]:
    sample = row.sample
    rewards = row.token_rewards()
    return {
        "prompt_ids": sample.input_ids[: sample.prompt_len],
        "response_ids": sample.input_ids[row.response],
        "response_mask": sample.loss_mask[row.response],
        "response_logprobs": row.logprobs()[row.response],
        "rm_scores": None if rewards is None else rewards[row.response],
        "reward_score": sample.reward,
        "num_turns": len(sample.turn_spans),
        "uid": sample.group_id if sample.group_id is not None else sample.session_id,
        "data_source": "polar_capture",
        "extra_info": {"index": row.index, **row.about()},
    }


FORMAT = Format(
    name="verl",
    record=record,
    layout={
        "prompt_ids": "[p]; left-pad for DataProto's prompts",
        "response_ids": "[r], model and tool tokens; right-pad for responses, response_mask and rollout_log_probs",
        "response_mask": "[r], 1 = sampled and trained",
        "response_logprobs": "[r], 0.0 where the mask is 0; DataProto calls it rollout_log_probs",
        "rm_scores": "[r], the reward on the last trained token",
        "uid": "the group: what GRPO compares",
        "extra_info": "JSON text",
    },
    parquet_columns={
        "prompt_ids": "list<int32>",
        "response_ids": "list<int32>",
        "response_mask": "list<int32>",
        "response_logprobs": "list<float32>",
        "rm_scores": "list<float32>",
        "reward_score": "float64",
        "num_turns": "int32",
        "uid": "string",
        "data_source": "string",
        "extra_info": "json",
    },
)
