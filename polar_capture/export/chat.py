"""Chat messages for SFT that tokenises by itself: the last call's conversation with its answer.

The text is what the engine was sent and what it gave back; whether a tokenizer makes the sampled ids of it again is
not known. Use `trl-sft` where the exact tokens matter.
"""

from typing import Any

from polar_capture.export.registry import Format
from polar_capture.export.row import ExportRow


def record(row: ExportRow) -> dict[str, Any] | None:
    text = row.text(row.sample.turn_spans[-1].call_id)
    if text is None:
        return None
    found: dict[str, Any] = {"messages": [*text.messages, text.answer]}
    if text.tools:
        found["tools"] = text.tools
    return found | {"reward": row.sample.reward, **row.about()}


FORMAT = Format(
    name="chat",
    record=record,
    layout={"messages": "the last call's messages and the sampled one, as Chat Completions has them"},
    needs_reward=False,
)
