"""What the engine is asked of sampling: always explicit, so that what was sampled with is what is recorded.

A parameter that is left out is filled in by vLLM from the model's generation_config.json (temperature 0.6, top_k 20,
…), and nobody would know: so every one is sent, with the value that leaves the model's distribution alone.
"""

from collections.abc import Mapping
from typing import Any

from polar_capture.chat import Sampling

NEUTRAL: Mapping[str, float | int] = {
    "temperature": 1.0,
    "top_p": 1.0,
    "top_k": 0,  # off; vLLM takes -1 as well
    "min_p": 0.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
    "repetition_penalty": 1.0,
}
"""The values under which the sampled distribution is the model's own."""


def explicit(asked: Sampling, overrides: Mapping[str, float | int]) -> dict[str, Any]:
    """The sampling fields of the request body: overrides, else what the client asked, else neutral.

    Also the record in `calls.sampling`. Keys are vLLM's; seed, stop, logit_bias, max_tokens and n only where set.
    """
    fields: dict[str, Any] = {}
    for name, neutral in NEUTRAL.items():
        value = overrides.get(name, getattr(asked, name))
        fields[name] = neutral if value is None else value
    if fields["top_k"] == -1:
        fields["top_k"] = 0
    for name in ("seed", "max_tokens"):
        value = overrides.get(name, getattr(asked, name))
        if value is not None:
            fields[name] = value
    if asked.stop:
        fields["stop"] = asked.stop
    if asked.logit_bias:
        fields["logit_bias"] = asked.logit_bias
    if asked.n != 1:
        fields["n"] = asked.n
    return fields


def shaped(sampling: Mapping[str, Any], logprobs_mode: str | None) -> bool:
    """Whether the recorded logprobs are not those of the distribution that was sampled from.

    vLLM's default mode, raw_logprobs, is the log-softmax before temperature, top_k, top_p, min_p, penalties and
    logit_bias; processed_logprobs is after them. An unknown mode (None) counts as raw.
    """
    if logprobs_mode is not None and logprobs_mode.startswith("processed"):
        return False
    return bool(sampling.get("logit_bias")) or any(
        sampling.get(name, value) != value for name, value in NEUTRAL.items()
    )
