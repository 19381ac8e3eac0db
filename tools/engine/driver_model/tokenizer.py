"""A byte-pair tokenizer of about 1,500 tokens, learned from the lessons' own text."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

from . import chat_format
from .agent_text import block
from .chat_format import CHAT_TEMPLATE, CONTROL_MARKS, PADDING, TURN_END, VISIBLE_MARKS
from .lessons import Teacher

# Words with their leading blank, single digits, runs of symbols, line ends, other white space.
PIECES = r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"


def training_text(seed: int) -> Iterator[str]:
    rng, teacher = Random(seed), Teacher(seed)
    for _ in range(6000):
        yield block(rng)
    for _ in range(1500):
        for text in teacher.lesson()[:2]:
            for mark in CONTROL_MARKS + VISIBLE_MARKS:
                text = text.replace(mark, "")
            yield text


def make_tokenizer(vocabulary: int, context: int, seed: int) -> Any:
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(PIECES), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary - len(VISIBLE_MARKS),
        special_tokens=CONTROL_MARKS,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(training_text(seed), trainer)
    tokenizer.add_tokens([AddedToken(mark, special=False, normalized=False) for mark in VISIBLE_MARKS])
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token=TURN_END,
        pad_token=PADDING,
        model_max_length=context,
        clean_up_tokenization_spaces=False,
    )
    fast.chat_template = CHAT_TEMPLATE
    chat_format.check(fast)
    return fast
