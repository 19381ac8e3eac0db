#!/usr/bin/env python3
"""The driver model with five more special tokens, for templates that mark roles in other ways than ChatML.

    .venv-engine/bin/python tests/engine/roles_model.py DRIVER FOLDER

The markers of the next role also end a generation, as GLM's do.
"""

import json
import sys
from pathlib import Path

MARKS = ["<|begin|>", "<|system|>", "<|user|>", "<|assistant|>", "<|observation|>"]
ENDS = ["<|im_end|>", "<|user|>", "<|observation|>"]


def main(driver: Path, folder: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    torch.manual_seed(0)
    torch.set_num_threads(1)
    tokenizer = AutoTokenizer.from_pretrained(driver)
    tokenizer.add_special_tokens({"additional_special_tokens": MARKS})
    model = AutoModelForCausalLM.from_pretrained(driver, dtype=torch.float32)
    model.resize_token_embeddings(-(-len(tokenizer) // 64) * 64, mean_resizing=False)
    tokenizer.save_pretrained(folder)
    model.save_pretrained(folder)
    settings = folder / "generation_config.json"
    known = json.loads(settings.read_text())
    known["eos_token_id"] = [tokenizer.convert_tokens_to_ids(mark) for mark in ENDS]
    settings.write_text(json.dumps(known))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
