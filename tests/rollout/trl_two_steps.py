"""Two steps of TRL's real GRPOTrainer whose rollouts are polar-capture's.

    python trl_two_steps.py MODEL DB HOME PROXY AGENT…

Runs where torch and TRL are (Python 3.11); the proxy is another process. Leaves told.json beside the database: what
TRL was given, the largest difference between its own logprobs and the captured ones in each step, how many parameters
moved.
"""

import json
import os
import sys
import tempfile
from pathlib import Path

os.environ |= {"TRL_EXPERIMENTAL_SILENCE": "1", "HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error"}

import torch
from datasets import load_dataset
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import GRPOConfig, GRPOTrainer

from polar_capture.rollout.trl import recorded_reward, rollout_func

TASKS = [
    {"id": "a", "prompt": "turns 2, flip", "evaluator": "grep -qx north proof.txt"},
    {"id": "b", "prompt": "turns 1, flip", "evaluator": "grep -qx south proof.txt"},
]


class CheckedTrainer(GRPOTrainer):
    """GRPO that compares the captured logprobs with its own before each loss."""

    def __init__(self, **settings):
        super().__init__(**settings)
        self.worst = []

    def _compute_loss(self, model, inputs):
        ids = torch.cat([inputs["prompt_ids"], inputs["completion_ids"]], dim=1)
        attention = torch.cat([inputs["prompt_mask"], inputs["completion_mask"]], dim=1)
        with torch.no_grad():
            own = self._get_per_token_logps_and_entropies(model, ids, attention, inputs["completion_ids"].size(1))[0]
        trained = (inputs["completion_mask"] * inputs["tool_mask"]).bool()
        self.worst.append((own - inputs["sampling_per_token_logps"]).abs()[trained].max().item())
        return super()._compute_loss(model, inputs)


def main(folder: str, db: str, home: str, proxy: str, *agent: str) -> None:
    given = []
    own = rollout_func(TASKS, db=db, home=home, proxy=proxy, command=agent, parallel=2)

    def rollout(prompts, trainer):
        columns = own(prompts, trainer)
        given.append({name: columns[name] for name in ("session_id", "reward", "left_out")})
        given[-1]["trained"] = [sum(mask) for mask in columns["env_mask"]]
        return columns

    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    before = [parameter.detach().clone() for parameter in model.parameters()]
    with tempfile.TemporaryDirectory() as out:
        prompts = Path(out) / "prompts.jsonl"
        prompts.write_text("".join(json.dumps({"prompt": task["prompt"]}) + "\n" for task in TASKS))
        settings = GRPOConfig(
            output_dir=out,
            per_device_train_batch_size=4,
            num_generations=4,
            max_steps=2,
            learning_rate=1e-4,
            temperature=1.0,
            use_cpu=True,
            bf16=False,
            report_to="none",
            save_strategy="no",
            logging_steps=1,
            gradient_checkpointing=False,
            remove_unused_columns=False,
        )
        trainer = CheckedTrainer(
            model=model,
            reward_funcs=recorded_reward,
            args=settings,
            train_dataset=load_dataset("json", data_files=str(prompts), split="train"),
            processing_class=AutoTokenizer.from_pretrained(folder),
            rollout_func=rollout,
        )
        trainer.train()
        history = [entry["reward"] for entry in trainer.state.log_history if "reward" in entry]
    moved = sum(int(not torch.equal(old, new)) for old, new in zip(before, model.parameters(), strict=True))
    told = {"given": given, "worst": trainer.worst, "moved": moved, "steps": trainer.state.global_step}
    Path(db).with_name("told.json").write_text(json.dumps(told | {"rewards": history}))


if __name__ == "__main__":
    main(*sys.argv[1:])
