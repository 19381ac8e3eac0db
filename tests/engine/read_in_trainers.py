"""Reads a file of `polar-capture export` with the trainer's own classes, as that trainer would.

    python read_in_trainers.py verl|openrlhf|skyrl FILE

Runs where torch and the trainers are. Prints one line of JSON: for each row the trained tokens as [id, logprob] pairs,
read off the tensors that the trainer makes of it; for verl also the advantages that its GRPO gives.
"""

import json
import sys
import typing
from pathlib import Path

import torch
import typing_extensions

# SkyRL's pydantic models want it so on Python < 3.12; nothing else of it depends on the newer Python.
typing.TypedDict = typing_extensions.TypedDict


def pairs(ids, logprobs, mask):
    """[[id, logprob]] of each row at the masked-in places; all three are [rows, n]."""
    return [
        [list(pair) for pair in zip(ids[place][chosen].tolist(), logprobs[place][chosen].tolist(), strict=True)]
        for place, chosen in enumerate(mask)
    ]


def openrlhf(file):
    from openrlhf.trainer.ppo_utils.experience import Experience
    from openrlhf.trainer.ppo_utils.samples_generator import SamplesGenerator

    records = [json.loads(line) for line in Path(file).read_text().splitlines()]
    made = [SamplesGenerator._process_response_into_experience(None, record, max_len=10**6) for record in records]
    for one, record in zip(made, records, strict=True):
        own = record["experience"]
        assert one.action_mask[0].tolist() == own["action_mask"]
        assert one.response_length.tolist() == [own["response_length"]]
        assert one.total_length.tolist() == [own["total_length"]]
    batch = Experience.concat_experiences(made, pad_token_id=0)
    rows = pairs(batch.sequences[:, 1:], batch.rollout_log_probs, batch.action_mask.bool())
    return {"rows": rows, "rewards": batch.rewards.tolist()}


def verl(file):
    import numpy as np
    import pyarrow.parquet as pq
    from verl import DataProto
    from verl.experimental.agent_loop.agent_loop import AgentLoopMetrics, AgentLoopOutput
    from verl.trainer.ppo.core_algos import compute_grpo_outcome_advantage

    records = pq.read_table(file).to_pylist()
    names = ("prompt_ids", "response_ids", "response_mask", "response_logprobs", "reward_score", "num_turns")
    outputs = [
        AgentLoopOutput(**{name: record[name] for name in names}, metrics=AgentLoopMetrics()).as_dict()
        for record in records
    ]

    def padded(name, left=False):
        longest = max(len(output[name]) for output in outputs)
        side = [(longest - len(output[name]), 0) if left else (0, longest - len(output[name])) for output in outputs]
        return torch.stack([torch.nn.functional.pad(o[name], width) for o, width in zip(outputs, side, strict=True)])

    tensors = {"prompts": padded("prompts", left=True)}
    tensors |= {name: padded(name) for name in ("responses", "response_mask", "rollout_log_probs", "rm_scores")}
    batch = DataProto.from_dict(tensors, {"uid": np.array([record["uid"] for record in records], dtype=object)})
    own = batch.batch
    mask = own["response_mask"].bool()
    advantages, _ = compute_grpo_outcome_advantage(
        own["rm_scores"], own["response_mask"], batch.non_tensor_batch["uid"]
    )
    rows = pairs(own["responses"], own["rollout_log_probs"], mask)
    given = [advantages[place][mask[place]].unique().tolist() for place in range(len(batch))]
    return {"rows": rows, "rewards": own["rm_scores"].sum(-1).tolist(), "advantages": given}


def skyrl(file):
    from skyrl.train.dataset.preprocess import convert_prompts_responses_to_batch_tensors
    from skyrl.train.generators.base import GeneratorOutput, TrajectoryID
    from skyrl.train.utils.trainer_utils import validate_generator_output

    class Padding:
        pad_token_id = 0

    records = [json.loads(line) for line in Path(file).read_text().splitlines()]
    for record in records:
        del record["metadata"]
        record["trajectory_ids"] = TrajectoryID(**record["trajectory_ids"])
    output = GeneratorOutput(**{name: [record[name] for record in records] for name in records[0]})
    unknown = set(output) - set(GeneratorOutput.__annotations__)
    assert not unknown, unknown
    validate_generator_output(len(records), output, step_wise=True)
    ids, _, _, rewards, masks, logprobs, _ = convert_prompts_responses_to_batch_tensors(
        Padding(),
        output["prompt_token_ids"],
        output["response_ids"],
        output["rewards"],
        output["loss_masks"],
        output["rollout_logprobs"],
    )
    rows = pairs(ids[:, -masks.shape[1] :], logprobs, masks.bool())
    return {"rows": rows, "rewards": rewards.sum(-1).tolist()}


if __name__ == "__main__":
    print(json.dumps({"verl": verl, "openrlhf": openrlhf, "skyrl": skyrl}[sys.argv[1]](sys.argv[2])))
