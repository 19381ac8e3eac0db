"""Everything of a sample as Arrow lists: what `datasets`, pandas, polars and DuckDB read."""

from polar_capture.export.jsonl import record
from polar_capture.export.registry import Format

FORMAT = Format(
    name="parquet",
    record=record,
    layout={
        "input_ids, loss_mask, logprobs": "[n], aligned; logprobs is null where the mask is 0",
        "turn_spans, breaks": "JSON text",
    },
    parquet_columns={
        "sample_id": "string",
        "strategy": "string",
        "session_id": "string",
        "group_id": "string",
        "task_id": "string",
        "sample_index": "int32",
        "harness": "string",
        "agent": "string",
        "branch": "int32",
        "verdict": "string",
        "delivered_fraction": "float64",
        "prompt_len": "int32",
        "length": "int32",
        "reward": "float64",
        "advantage": "float64",
        "policy_version_min": "int64",
        "policy_version_max": "int64",
        "finish_reason": "string",
        "turn_spans": "json",
        "breaks": "json",
        "input_ids": "list<int32>",
        "loss_mask": "list<int8>",
        "logprobs": "list<float32>",
    },
)
