"""Logprobs for the few clients that ask to see them."""

import math
from typing import Any

import msgspec

from polar_capture.chat import Choice


def logprobs_result(choice: Choice, top: int | None) -> dict[str, Any]:
    """`avgLogprobs` and `logprobsResult` of a candidate; {} where nobody asked or the engine gave none."""
    if top is None or choice.logprobs_content is None:
        return {}
    entries = msgspec.json.decode(choice.logprobs_content)
    chosen = [_told(entry) for entry in entries]
    for told, token_id in zip(chosen, choice.token_ids or [], strict=False):
        told["tokenId"] = token_id
    result: dict[str, Any] = {"chosenCandidates": chosen}
    if top:
        result["topCandidates"] = [
            {"candidates": [_told(entry) for entry in (one.get("top_logprobs") or [])[:top]]} for one in entries
        ]
    values = [told["logProbability"] for told in chosen]
    average = math.fsum(values) / len(values) if values else 0.0
    return {"avgLogprobs": average, "logprobsResult": result}


def _told(entry: dict[str, Any]) -> dict[str, Any]:
    return {"token": entry.get("token", ""), "logProbability": entry.get("logprob", 0.0)}
