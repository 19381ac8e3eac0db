"""Counters of the running proxy in Prometheus' text exposition format 0.0.4
(https://prometheus.io/docs/instrumenting/exposition_formats/)."""

from collections.abc import Mapping
from typing import Any

from polar_capture.gateway import Gateway
from polar_capture.outcomes import Reason
from polar_capture.policy import Policy

_COUNTERS = {
    "calls_ok": ("polar_calls_total", 'status="ok"'),
    "calls_error": ("polar_calls_total", 'status="error"'),
    "calls_aborted": ("polar_calls_total", 'status="aborted"'),
    "limited": ("polar_limited_calls_total", ""),
    "refused": ("polar_refused_requests_total", ""),
    "internal_errors": ("polar_internal_errors_total", ""),
    "retries_joined": ("polar_retries_joined_total", ""),
    "delivered": ("polar_answers_total", 'delivered="true"'),
    "undelivered": ("polar_answers_total", 'delivered="false"'),
    "continuation_exact": ("polar_continuations_total", 'outcome="exact"'),
    "continuation_fork": ("polar_continuations_total", 'outcome="fork"'),
    "continuation_root": ("polar_continuations_total", 'outcome="root"'),
    "prompt_tokens": ("polar_prompt_tokens_total", ""),
    "completion_tokens": ("polar_completion_tokens_total", ""),
}


def exposition(gateway: Gateway, writer: Mapping[str, Any], policy: Policy) -> str:
    """All metrics as text. Token counts are in tokens, gauges are numbers of calls or rows."""
    lines: list[str] = []
    typed: set[str] = set()
    for key, (metric, labels) in _COUNTERS.items():
        if metric not in typed:
            typed.add(metric)
            lines.append(f"# TYPE {metric} counter")
        lines.append(f"{metric}{{{labels}}} {gateway.counts[key]}" if labels else f"{metric} {gateway.counts[key]}")
    metric = "polar_untrainable_calls_total"
    lines.append(f"# TYPE {metric} counter")
    lines += [f'{metric}{{reason="{reason}"}} {gateway.untrainable[reason]}' for reason in Reason]
    for metric, seconds in (
        ("polar_call_seconds_total", gateway.call_seconds),
        ("polar_engine_seconds_total", gateway.engine_seconds),
    ):
        lines += [f"# TYPE {metric} counter", f"{metric} {seconds:.6f}"]
    states = list(gateway.chains.table)
    gauges = {
        "polar_calls_running": gateway.running,
        "polar_sessions_in_memory": len(states),
        "polar_sessions_running": sum(state.running > 0 for state in states),
        "polar_paused": int(policy.paused),
        "polar_policy_version": policy.current.version,
    } | {f"polar_store_{name}": value for name, value in writer.items() if isinstance(value, int | float)}
    for metric, value in gauges.items():
        lines += [f"# TYPE {metric} gauge", f"{metric} {value}"]
    return "\n".join(lines) + "\n"
