"""Compare a sample's logprobs with those that an engine gives the same ids now. Pure: the engine's answer comes in."""

from typing import Any

import msgspec
import numpy as np

from polar_capture.trajectories.rows import Float32Array, Sample


class Worst(msgspec.Struct, frozen=True):
    """The token with the largest difference, and the ids around it."""

    sample_id: str
    at: int
    call_id: str
    token: int
    stored: float
    rescored: float
    before: list[int]
    after: list[int]

    @property
    def difference(self) -> float:
        return abs(self.stored - self.rescored)


class Rescored(msgspec.Struct):
    """The comparison of one sample: tokens compared, mean and largest absolute difference in nats."""

    sample_id: str
    tokens: int
    mean: float
    worst: Worst | None


def prompt_logprobs(answer: dict[str, Any], ids: list[int]) -> Float32Array:
    """The logprob of each id given those before it, float32 [n], NaN for the first, from an answer of /v1/completions
    with `prompt_logprobs: 0` to these ids. ValueError where the answer does not fit the ids."""
    choices = answer.get("choices") or [{}]
    entries = choices[0].get("prompt_logprobs") or answer.get("prompt_logprobs")
    if not isinstance(entries, list) or len(entries) != len(ids):
        size = len(entries) if isinstance(entries, list) else "no"
        raise ValueError(f"the engine gave {size} prompt_logprobs for {len(ids)} ids")
    values = np.full(len(ids), np.nan, np.float32)
    for place in range(1, len(ids)):
        entry = (entries[place] or {}).get(str(ids[place]))
        if entry is None:
            raise ValueError(f"the engine gave no logprob for id {ids[place]} at token {place}")
        values[place] = entry["logprob"]
    return values


def compare(sample: Sample, rescored: Float32Array, around: int = 8) -> Rescored:
    """Stored against re-scored logprobs on the trained tokens."""
    where = np.flatnonzero(sample.loss_mask)
    if not len(where):
        return Rescored(sample.id, 0, 0.0, None)
    differences = np.abs(sample.logprobs[where].astype(np.float64) - rescored[where])
    differences[np.isnan(differences)] = np.inf
    at = int(where[int(differences.argmax())])
    span = next(span for span in sample.turn_spans if span.start <= at < span.end)
    worst = Worst(
        sample_id=sample.id,
        at=at,
        call_id=span.call_id,
        token=int(sample.input_ids[at]),
        stored=float(sample.logprobs[at]),
        rescored=float(rescored[at]),
        before=sample.input_ids[max(0, at - around) : at].tolist(),
        after=sample.input_ids[at + 1 : at + 1 + around].tolist(),
    )
    return Rescored(sample.id, len(where), float(differences.mean()), worst)
