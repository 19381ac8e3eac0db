"""Each format read back as its trainer reads it: (ids, mask, logprobs) of equal length, logprobs None where there are
none."""

import json

import pyarrow.parquet as pq


def records(path):
    if path.suffix == ".parquet":
        return pq.read_table(path).to_pylist()
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]


def _behind_prompt(prompt, response, mask, logprobs):
    assert len(response) == len(mask) == len(logprobs)
    p = len(prompt)
    return prompt + response, [0] * p + mask, [0.0] * p + logprobs


def openrlhf(r):
    ids, logprobs = r["observation_tokens"], r["rollout_log_probs"]
    mask = [0] * len(ids)
    for start, end in r["action_ranges"]:
        mask[start:end] = [1] * (end - start)
    shifted = r["experience"]
    assert len(shifted["action_mask"]) == len(ids) - 1
    assert shifted["action_mask"] == mask[1:]  # entry i is of token i + 1
    assert shifted["rollout_log_probs"] == logprobs[1:]
    assert shifted["total_length"] == len(ids)
    return ids, mask, logprobs


def slime(r):
    rest = len(r["tokens"]) - r["response_length"]
    return r["tokens"], [0] * rest + r["loss_mask"], [0.0] * rest + r["rollout_log_probs"]


def of_calls(calls):
    """From (prompt, completion, logprobs) of each call of one chain."""
    ids = calls[-1][0] + calls[-1][1]
    mask, values = [0] * len(ids), [0.0] * len(ids)
    for prompt, completion, logprobs in calls:
        assert ids[: len(prompt) + len(completion)] == prompt + completion
        where = slice(len(prompt), len(prompt) + len(completion))
        mask[where], values[where] = [1] * len(completion), logprobs
    return ids, mask, values


def nemo_gym(r):
    items = [item for item in r["response"]["output"] if "generation_token_ids" in item]
    return of_calls([(i["prompt_token_ids"], i["generation_token_ids"], i["generation_log_probs"]) for i in items])


def atif(r):
    metrics = [step["metrics"] for step in r["steps"] if "completion_token_ids" in step.get("metrics", {})]
    return of_calls([(m["prompt_token_ids"], m["completion_token_ids"], m["logprobs"]) for m in metrics])


def trl_sft(r):
    mask = [int(label != -100) for label in r["labels"]]
    assert all(label in (-100, id) for label, id in zip(r["labels"], r["input_ids"], strict=True))
    return r["input_ids"], mask, None


READERS = {
    "trl-grpo": lambda r: _behind_prompt(r["prompt_ids"], r["completion_ids"], r["env_mask"], r["logprobs"]),
    "trl-sft": trl_sft,
    "verl": lambda r: _behind_prompt(r["prompt_ids"], r["response_ids"], r["response_mask"], r["response_logprobs"]),
    "slime": slime,
    "prime-rl": lambda r: (r["token_ids"], [int(m) for m in r["mask"]], r["logprobs"]),
    "skyrl": lambda r: _behind_prompt(r["prompt_token_ids"], r["response_ids"], r["loss_masks"], r["rollout_logprobs"]),
    "openrlhf": openrlhf,
    "nemo-gym": nemo_gym,
    "atif": atif,
    "jsonl": lambda r: (r["input_ids"], r["loss_mask"], r["logprobs"]),
    "parquet": lambda r: (r["input_ids"], r["loss_mask"], r["logprobs"]),
}

SUFFIXES = dict.fromkeys(READERS, ".jsonl") | {"verl": ".parquet", "parquet": ".parquet", "chat": ".jsonl"}


def read(format, path):
    """The rows of a file as (ids, mask, logprobs)."""
    rows = [READERS[format](record) for record in records(path)]
    for ids, mask, logprobs in rows:
        assert len(ids) == len(mask)
        assert logprobs is None or len(logprobs) == len(ids)
        assert set(mask) <= {0, 1}
    return rows


def trained(row):
    """[(id, logprob)] at the masked-in places."""
    ids, mask, logprobs = row
    return [(ids[i], None if logprobs is None else logprobs[i]) for i in range(len(ids)) if mask[i]]
