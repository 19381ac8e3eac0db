#!/usr/bin/env python3
"""Make the tiny model that demo and tests serve with vLLM, in about two minutes on two cores.

    .venv-engine/bin/python tools/engine/make_driver_model.py FOLDER [--steps 900] [--seed 0]

It has Qwen3's architecture, 0.4 M parameters and a vocabulary of its own. What it answers to what is in README.md
beside this file. Nothing is downloaded; the same seed gives the same model on the same machine.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
CONTEXT = 65536  # real agents' prompts take up to 33,000 tokens of this small vocabulary


def sources() -> list[Path]:
    return [HERE / "make_driver_model.py", *sorted((HERE / "driver_model").glob("*.py"))]


def recipe_hash() -> str:
    """Names the model after the code that makes it, so that a change of the code makes a new one."""
    digest = hashlib.sha256()
    for path in sources():
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:12]


def make(folder: Path, steps: int = 900, seed: int = 0, sharpen: float = 2.0) -> None:
    """Train into a folder beside `folder` and rename it at the end, so that `folder` is whole or absent."""
    import torch
    from driver_model.tokenizer import make_tokenizer
    from driver_model.training import Recipe, train
    from transformers import Qwen3Config, Qwen3ForCausalLM

    torch.manual_seed(seed)
    torch.set_num_threads(min(2, os.cpu_count() or 1))
    tokenizer = make_tokenizer(vocabulary=1536, context=CONTEXT, seed=7)
    config = Qwen3Config(
        vocab_size=-(-len(tokenizer) // 64) * 64,
        hidden_size=96,
        intermediate_size=192,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=32,
        max_position_embeddings=CONTEXT,
        # Every layer sees 128 tokens: an answer depends on the last 384 at most, however long the prompt is.
        use_sliding_window=True,
        sliding_window=128,
        max_window_layers=0,
        tie_word_embeddings=True,
        initializer_range=0.06,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    model = Qwen3ForCausalLM(config).float()
    train(model, tokenizer, Recipe(steps=steps, seed=seed))
    with torch.no_grad():
        # Doubles all logits: at temperature 1 the model then draws as it would at 0.5, and breaks no call.
        model.model.norm.weight.mul_(sharpen)
    unfinished = folder.with_name(f"{folder.name}.{os.getpid()}.unfinished")
    unfinished.mkdir(parents=True)
    try:
        tokenizer.save_pretrained(unfinished)
        model.save_pretrained(unfinished)
        shutil.rmtree(folder, ignore_errors=True)
        unfinished.rename(folder)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    size = sum(parameter.numel() for parameter in model.parameters())
    print(f"driver model: {folder}, vocabulary {len(tokenizer)}, {size:,} parameters", file=sys.stderr)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--steps", type=int, default=900)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--sharpen", type=float, default=2.0)
    options = parser.parse_args()
    make(options.folder, options.steps, options.seed, options.sharpen)


if __name__ == "__main__":
    main()
