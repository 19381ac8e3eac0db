"""ATIF 1.8 (Harbor): one trajectory a line. The sampled steps have their ids and logprobs in `metrics`.

Steps are the first call's messages, and for each call of the sample what came new since the one before and the step
that it sampled, with its metrics. Unknown keys are errors in ATIF everywhere but in `extra`.
"""

import datetime
from typing import Any

import msgspec

from polar_capture.export.registry import Format
from polar_capture.export.row import CallNote, ExportRow
from polar_capture.trajectories.rows import Span


def record(row: ExportRow) -> dict[str, Any] | None:
    sample = row.sample
    steps: list[dict[str, Any]] = []
    seen = 0
    tools = None
    for span in sample.turn_spans:
        text = row.text(span.call_id)
        if text is None:
            return None
        for message in text.messages[seen:]:
            if message.get("role") == "tool" and steps and steps[-1]["source"] == "agent":
                _observe(steps[-1], message)
            else:
                steps.append(_step(message, len(steps) + 1))
        steps.append(_step(text.answer, len(steps) + 1) | _sampled(row, span))
        seen, tools = len(text.messages) + 1, text.tools
    model = row.notes.get(sample.turn_spans[-1].call_id, CallNote()).model
    agent: dict[str, Any] = {"name": row.harness or sample.agent, "version": row.harness_version or "unknown"}
    if model is not None:
        agent["model_name"] = model
    if tools:
        agent["tool_definitions"] = tools
    return {
        "schema_version": "ATIF-v1.8",
        "session_id": sample.session_id,
        "trajectory_id": sample.id,
        "agent": agent,
        "steps": steps,
        "extra": {"reward": sample.reward, **row.about()},
    }


def _step(message: dict[str, Any], number: int) -> dict[str, Any]:
    """A message as a step; what only agent steps may have, on them alone."""
    source = {"assistant": "agent", "system": "system", "developer": "system"}.get(str(message.get("role")), "user")
    step: dict[str, Any] = {"step_id": number, "source": source, "message": _text(message.get("content"))}
    if source != "agent":
        return step
    reasoning = message.get("reasoning") or message.get("reasoning_content")
    if reasoning:
        step["reasoning_content"] = reasoning
    calls = message.get("tool_calls") or []
    if calls:
        step["tool_calls"] = [_tool_call(call, place) for place, call in enumerate(calls)]
    return step


def _sampled(row: ExportRow, span: Span) -> dict[str, Any]:
    """What a sampled step has beside its message."""
    note = row.notes.get(span.call_id, CallNote())
    when = datetime.datetime.fromtimestamp(note.started_at, datetime.UTC)
    metrics: dict[str, Any] = {"prompt_tokens": span.start, "completion_tokens": span.end - span.start}
    if span.trained:
        metrics["prompt_token_ids"] = row.sample.input_ids[: span.start]
        metrics["completion_token_ids"] = row.sample.input_ids[span.start : span.end]
        metrics["logprobs"] = row.sample.logprobs[span.start : span.end]
    metrics["extra"] = {"call_id": span.call_id, "policy_version": span.policy_version}
    found = {"timestamp": when.isoformat().replace("+00:00", "Z"), "llm_call_count": 1, "metrics": metrics}
    return found if note.model is None else found | {"model_name": note.model}


def _observe(step: dict[str, Any], message: dict[str, Any]) -> None:
    results = step.setdefault("observation", {"results": []})["results"]
    result: dict[str, Any] = {"content": _text(message.get("content"))}
    known = {call["tool_call_id"] for call in step.get("tool_calls", [])}
    if message.get("tool_call_id") in known:
        result["source_call_id"] = message["tool_call_id"]
    results.append(result)


def _tool_call(call: dict[str, Any], number: int) -> dict[str, Any]:
    function = call.get("function") or {}
    raw = function.get("arguments") or "{}"
    try:
        arguments = msgspec.json.decode(raw) if isinstance(raw, str) else raw
    except msgspec.DecodeError:
        arguments = None
    found = {"tool_call_id": call.get("id") or f"call_{number}", "function_name": function.get("name") or ""}
    if isinstance(arguments, dict):
        return found | {"arguments": arguments}
    return found | {"arguments": {}, "extra": {"raw_arguments": raw}}


def _text(content: Any) -> str:
    if isinstance(content, list):
        return "\n".join(str(part.get("text", f"[{part.get('type')}]")) for part in content if isinstance(part, dict))
    return content or ""


FORMAT = Format(
    name="atif",
    record=record,
    layout={"steps[].metrics": "ids and logprobs of the step's own call; the prompt ids are the whole context"},
)
