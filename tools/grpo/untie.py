"""Gives a model an output layer of its own: `python tools/grpo/untie.py MODEL NEW_FOLDER`, where safetensors is.

vLLM's CPU build keeps a packed copy of a tied output layer, which `reload_weights` leaves as it was (0.32: logprobs
were off by 0.03 after one step). Loaded as a tensor of its own it is replaced like all others.
"""

import json
import shutil
import sys
from pathlib import Path

from safetensors.numpy import load_file, save_file

EMBEDDING, OUTPUT = "model.embed_tokens.weight", "lm_head.weight"


def untie(source: Path, target: Path) -> None:
    shutil.copytree(source, target)
    config = json.loads((target / "config.json").read_text())
    (target / "config.json").write_text(json.dumps(config | {"tie_word_embeddings": False}, indent=2))
    tensors = load_file(target / "model.safetensors")
    tensors.setdefault(OUTPUT, tensors[EMBEDDING].copy())
    save_file(tensors, target / "model.safetensors", metadata={"format": "pt"})


if __name__ == "__main__":
    untie(Path(sys.argv[1]), Path(sys.argv[2]))
