"""One optimiser step of the real TRL on a file of `polar-capture export --format trl-grpo`.

    python trl_step.py EXPORT.jsonl MODEL_FOLDER

Runs where TRL and torch are. TRL's own forward pass gives the logprob of each exported token; the step counts only when
they agree with the exported ones (status 1 otherwise). Prints one line of JSON: the largest difference, the loss, how
many parameters moved.
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

TOLERANCE = 1e-3


class CheckedTrainer(GRPOTrainer):
    """GRPO that compares the exported logprobs with its own before each loss."""

    worst = 0.0
    compared = 0

    def _compute_loss(self, model, inputs):
        ids = torch.cat([inputs["prompt_ids"], inputs["completion_ids"]], dim=1)
        attention = torch.cat([inputs["prompt_mask"], inputs["completion_mask"]], dim=1)
        with torch.no_grad():
            keep = inputs["completion_ids"].size(1)
            own = self._get_per_token_logps_and_entropies(model, ids, attention, keep)[0]
        trained = (inputs["completion_mask"] * inputs["tool_mask"]).bool()
        difference = (own - inputs["sampling_per_token_logps"]).abs()[trained]
        self.worst = max(self.worst, difference.max().item())
        self.compared += int(trained.sum())
        return super()._compute_loss(model, inputs)


def main(export: str, folder: str) -> int:
    rows = list(load_dataset("json", data_files=export, split="train"))
    groups = {}
    for row in rows:
        groups.setdefault(row["group_id"], []).append(row)
    size = len(rows) // len(groups)

    def replay(prompts, trainer):
        members = {group: iter(found) for group, found in groups.items()}
        chosen = [next(members[prompt]) for prompt in prompts]
        return {
            name: [row[name] for row in chosen]
            for name in ("prompt_ids", "completion_ids", "logprobs", "env_mask", "reward")
        }

    def recorded(prompts, completions, reward, **_):
        return reward

    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    before = [parameter.detach().clone() for parameter in model.parameters()]
    with tempfile.TemporaryDirectory() as out:
        prompts = Path(out) / "prompts.jsonl"
        prompts.write_text("".join(json.dumps({"prompt": group}) + "\n" for group in groups))
        settings = GRPOConfig(
            output_dir=out,
            per_device_train_batch_size=len(rows),
            num_generations=size,
            max_steps=1,
            learning_rate=1e-3,
            temperature=1.0,
            beta=0.01,
            use_cpu=True,
            bf16=False,
            report_to="none",
            save_strategy="no",
            logging_steps=1,
            gradient_checkpointing=False,
        )
        trainer = CheckedTrainer(
            model=model,
            reward_funcs=recorded,
            args=settings,
            train_dataset=load_dataset("json", data_files=str(prompts), split="train"),
            processing_class=AutoTokenizer.from_pretrained(folder),
            rollout_func=replay,
        )
        loss = trainer.train().training_loss
    moved = sum(int(not torch.equal(old, new)) for old, new in zip(before, model.parameters(), strict=True))
    told = {"worst": trainer.worst, "compared": trainer.compared, "loss": loss, "moved": moved, "rows": len(rows)}
    print(json.dumps(told))
    return 0 if trainer.worst <= TOLERANCE and trainer.compared and moved else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
