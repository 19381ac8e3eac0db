"""Pre-tokenised SFT for TRL and any Hugging Face trainer: `input_ids` and `labels` (TRL 1.16 uses labels as they
are)."""

from typing import Any

from polar_capture.export.registry import Format
from polar_capture.export.row import ExportRow


def record(row: ExportRow) -> dict[str, Any]:
    return {"input_ids": row.sample.input_ids, "labels": row.labels().tolist(), **row.about()}


FORMAT = Format(
    name="trl-sft",
    record=record,
    layout={"labels": "unshifted, [n]: labels[i] is input_ids[i] where it trains, else -100; the model shifts"},
    needs_reward=False,
)
