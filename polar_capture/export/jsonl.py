"""Everything of a sample as it is stored, one a line."""

from typing import Any

from polar_capture.export.registry import Format
from polar_capture.export.row import ExportRow


def record(row: ExportRow) -> dict[str, Any]:
    sample = row.sample
    return {
        **row.about(),
        "reward": sample.reward,
        "finish_reason": sample.finish_reason,
        "delivered_fraction": sample.delivered_fraction,
        "prompt_len": sample.prompt_len,
        "length": len(sample.input_ids),
        "turn_spans": [span.as_json() for span in sample.turn_spans],
        "breaks": [record.as_json() for record in sample.breaks],
        "input_ids": sample.input_ids,
        "loss_mask": sample.loss_mask,
        "logprobs": sample.logprobs,
    }


FORMAT = Format(
    name="jsonl",
    record=record,
    layout={"input_ids, loss_mask, logprobs": "[n], aligned; logprobs is null where the mask is 0"},
)
