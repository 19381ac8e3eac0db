"""prime-rl: `TrainingSample` with named fields (prime-rl 559b4477, August 2026); every list has the length of
token_ids."""

from typing import Any

from polar_capture.export.registry import Format
from polar_capture.export.row import CallNote, ExportRow


def record(row: ExportRow) -> dict[str, Any]:
    sample = row.sample
    temperatures = [1.0] * len(sample.input_ids)
    for span in sample.turn_spans:
        own = row.notes.get(span.call_id, CallNote()).temperature
        temperatures[span.start : span.end] = [own] * (span.end - span.start)
    found: dict[str, Any] = {
        "token_ids": sample.input_ids,
        "mask": sample.loss_mask == 1,
        "logprobs": row.logprobs(),
        "temperatures": temperatures,
        "env_name": sample.task_id or "polar_capture",
    }
    advantages = row.token_advantages()
    if advantages is not None:
        found["advantages"] = advantages
    return found | {"reward": sample.reward, **row.about()}


FORMAT = Format(
    name="prime-rl",
    record=record,
    layout={
        "mask": "[n] booleans",
        "logprobs": "[n], 0.0 where the mask is false",
        "temperatures": "[n], of the call that sampled the token; 1.0 elsewhere",
        "advantages": "[n], 0.0 where the mask is false; absent where the sample has no advantage",
    },
)
