#!/usr/bin/env python3
"""The learning half of `make grpo`: one GRPO step at a time, in plain torch, on rows of polar-capture's `samples`.

    .venv-engine/bin/python tools/grpo/trainer.py MODEL [--learning-rate 1e-4]

Orders come on stdin and answers go to stdout, one JSON object a line:

    {"do": "check", "rows": FILE}             → {"worst": …, "ratio": …, "tokens": …}
    {"do": "step", "rows": FILE, "save": DIR}  → the same, and {"loss": …, "gradient": …}

A row has input_ids (int), loss_mask (1: sampled by the policy), logprobs (null where the mask is 0) and advantage,
all but the last of equal length. It runs where torch is, and knows nothing of polar-capture.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

# Threads that wait must not spin: vLLM is on the same cores.
os.environ |= {"OMP_WAIT_POLICY": "PASSIVE"}
os.environ |= {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error"}

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

CLIP = 0.2
MAX_NORM = 1.0


class Learner:
    """A float32 policy and its optimiser."""

    def __init__(self, folder: Path, learning_rate: float) -> None:
        self.model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
        self.model.eval()  # no dropout: the ratio is of the very policy that sampled
        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        # With sliding windows alone, what lies further back than they reach together cannot matter: it is left out.
        self.reach = reach(self.model.config)
        self.optimiser = torch.optim.AdamW(self.model.parameters(), lr=learning_rate, weight_decay=0.0)

    def logprobs(self, row: dict[str, Any]) -> tuple[torch.Tensor, torch.Tensor]:
        """Our logprob of each sampled token, with gradient, and the captured one; both (sampled tokens,) float32."""
        mask = torch.tensor(row["loss_mask"])
        places = mask.nonzero().squeeze(1)
        if not len(places) or places[0] == 0:
            raise SystemExit(f"sample {row['id']} has no sampled token, or one with nothing before it")
        begin = 0 if self.reach is None else max(0, int(places[0]) - self.reach)
        ids = torch.tensor(row["input_ids"])[begin:]
        places = places - begin
        # The token at place p is predicted at p - 1; only those rows of the logits are made.
        positions = torch.arange(begin, begin + len(ids))[None]
        hidden = self.model.model(input_ids=ids[None], position_ids=positions).last_hidden_state[0, places - 1]
        own = self.model.lm_head(hidden).float().log_softmax(-1)
        captured = torch.tensor([row["logprobs"][begin + place] for place in places.tolist()], dtype=torch.float32)
        return own.gather(1, ids[places][:, None]).squeeze(1), captured

    def check(self, rows: list[dict[str, Any]]) -> dict[str, float]:
        """How far our logprobs are from the captured ones at most, and the mean importance ratio."""
        with torch.no_grad():
            return compared([self.logprobs(row) for row in rows])

    def step(self, rows: list[dict[str, Any]]) -> dict[str, float]:
        """One step on the whole group: the clipped surrogate, each sampled token with the same weight."""
        self.optimiser.zero_grad()
        tokens = sum(map(sum, (row["loss_mask"] for row in rows)))
        pairs, total = [], 0.0
        for row in rows:
            own, captured = self.logprobs(row)
            ratio = (own - captured).exp()
            advantage = row["advantage"]
            surrogate = torch.minimum(ratio * advantage, ratio.clamp(1 - CLIP, 1 + CLIP) * advantage)
            loss = -surrogate.sum() / tokens
            loss.backward()
            total += loss.item()
            pairs.append((own.detach(), captured))
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), MAX_NORM)
        self.optimiser.step()
        return {**compared(pairs), "loss": total, "gradient": norm.item()}

    def save(self, folder: Path) -> None:
        self.model.save_pretrained(folder)
        self.tokenizer.save_pretrained(folder)


def reach(config: Any) -> int | None:
    """How many tokens back an answer can depend on the prompt: None where any layer attends to all of it."""
    if set(getattr(config, "layer_types", None) or ["full_attention"]) != {"sliding_attention"}:
        return None
    return int(config.num_hidden_layers * config.sliding_window)


def compared(pairs: list[tuple[torch.Tensor, torch.Tensor]]) -> dict[str, float]:
    difference = torch.cat([own - captured for own, captured in pairs])
    return {
        "worst": difference.abs().max().item(),
        "ratio": difference.exp().mean().item(),
        "tokens": difference.numel(),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("--learning-rate", type=float, default=1e-4)
    options = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    answers, sys.stdout = sys.stdout, sys.stderr
    learner = Learner(options.model, options.learning_rate)
    print(json.dumps({"ready": True}), file=answers, flush=True)
    for line in sys.stdin:
        order = json.loads(line)
        rows = [json.loads(text) for text in Path(order["rows"]).read_text().splitlines()]
        told = learner.step(rows) if order["do"] == "step" else learner.check(rows)
        if order.get("save"):
            learner.save(Path(order["save"]))
        print(json.dumps(told), file=answers, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
