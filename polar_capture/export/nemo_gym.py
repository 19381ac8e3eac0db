"""NeMo Gym: one rollout a line, Responses items with the tokens of a model call on its last item (NeMo Gym 07d6b0d0).

A call that does not train in this sample has items without tokens. `prompt_token_ids` repeats the whole context at each
call: the format is made so.
"""

from typing import Any

from polar_capture.export.registry import Format
from polar_capture.export.row import CallText, ExportRow
from polar_capture.trajectories.rows import Span


def record(row: ExportRow) -> dict[str, Any] | None:
    sample = row.sample
    output: list[dict[str, Any]] = []
    seen = 0
    for span in sample.turn_spans:
        text = row.text(span.call_id)
        if text is None:
            return None
        output += _results(text.messages[seen:] if seen else [])
        seen = len(text.messages) + 1
        output += _items(row, span, text)
    first = row.text(sample.turn_spans[0].call_id)
    return {
        "_ng_rollout_id": sample.id,
        "responses_create_params": {
            "input": [] if first is None else first.messages,
            "tools": [] if first is None or not first.tools else first.tools,
        },
        "response": {"id": sample.id, "object": "response", "output": output},
        "reward": sample.reward,
        "mask_sample": False,
        "_ng_token_capture": {"delivered_fraction": sample.delivered_fraction, "verdict": sample.verdict},
        "metadata": row.about(),
    }


def _items(row: ExportRow, span: Span, text: CallText) -> list[dict[str, Any]]:
    """The items of one model call; the last one has its tokens."""
    answer = text.answer
    items: list[dict[str, Any]] = []
    reasoning = answer.get("reasoning") or answer.get("reasoning_content")
    if reasoning:
        summary = [{"type": "summary_text", "text": reasoning}]
        items.append({"type": "reasoning", "id": f"rs_{span.call_id}", "summary": summary})
    calls = answer.get("tool_calls") or []
    if answer.get("content") or not calls:
        content: list[dict[str, Any]] = [
            {"type": "output_text", "text": answer.get("content") or "", "annotations": []}
        ]
        message = {"type": "message", "id": f"msg_{span.call_id}", "role": "assistant", "status": "completed"}
        items.append(message | {"content": content})
    for number, call in enumerate(calls):
        function = call.get("function") or {}
        items.append(
            {
                "type": "function_call",
                "id": f"fc_{span.call_id}_{number}",
                "call_id": call.get("id"),
                "name": function.get("name"),
                "arguments": function.get("arguments"),
                "status": "completed",
            }
        )
    if span.trained:
        sample = row.sample
        items[-1] |= {
            "prompt_token_ids": sample.input_ids[: span.start],
            "generation_token_ids": sample.input_ids[span.start : span.end],
            "generation_log_probs": sample.logprobs[span.start : span.end],
        }
    return items


def _results(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What came between two calls: tool results as outputs, other messages as they are."""
    return [
        {"type": "function_call_output", "call_id": message.get("tool_call_id"), "output": message.get("content")}
        if message.get("role") == "tool"
        else {"type": "message", "role": message.get("role"), "content": message.get("content")}
        for message in messages
    ]


FORMAT = Format(
    name="nemo-gym",
    record=record,
    layout={
        "response.output[]": "the last item of each model call has prompt_token_ids [p], generation_token_ids [c] and "
        "generation_log_probs [c], the context of the call as it was sampled",
    },
)
