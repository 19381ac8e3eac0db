"""Pieces of tokens from a tokenizer's file, a tiktoken file, and a running engine."""

import asyncio
import base64
import json
from pathlib import Path

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from polar_capture import tokenizers
from polar_capture.tokenizers import TokenizerError
from tests.double.server import Double

TEXT = "naïve café ☕ 日本語 👍🏽 \x00\x1b tab\tend\n"


def byte_level(folder: Path) -> Tokenizer:
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    made.train_from_iterator(
        [TEXT], trainers.BpeTrainer(vocab_size=280, initial_alphabet=alphabet, special_tokens=["<|end|>"])
    )
    made.save(str(folder / "tokenizer.json"))
    return made


def test_byte_level_pieces_join_to_the_text_byte_by_byte(tmp_path: Path):
    ids = byte_level(tmp_path).encode(TEXT).ids
    pieces = tokenizers.load(str(tmp_path)).of(ids)
    assert b"".join(pieces[token] for token in ids) == TEXT.encode()
    assert tokenizers.load(str(tmp_path / "tokenizer.json")).of([0, 10**6]) == {0: b"<|end|>"}


def test_sentencepiece_pieces_have_blanks_and_bytes(tmp_path: Path):
    vocab = {"▁hello": 0, "<0xE2>": 1, "s": 2, "<unk>": 3}
    made = Tokenizer(models.WordLevel(vocab, unk_token="<unk>"))
    made.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    made.save(str(tmp_path / "tokenizer.json"))
    assert tokenizers.load(str(tmp_path)).of([0, 1, 2]) == {0: b" hello", 1: b"\xe2", 2: b"s"}


def test_a_tiktoken_file_with_its_special_tokens(tmp_path: Path):
    lines = [f"{base64.b64encode(bytes([rank])).decode()} {rank}" for rank in range(256)]
    (tmp_path / "model.tiktoken").write_text("\n".join(lines))
    (tmp_path / "tokenizer_config.json").write_text(
        json.dumps({"added_tokens_decoder": {"300": {"content": "<|end|>"}}})
    )
    assert tokenizers.load(str(tmp_path)).of([255, 300, 999]) == {255: b"\xff", 300: b"<|end|>"}


async def test_an_engine_is_asked_once_for_each_id():
    async with Double() as vllm:
        found, note = await asyncio.to_thread(tokenizers.find, None, [("http://127.0.0.1:9", None), (vllm.url, None)])
        assert found is not None
        pieces = await asyncio.to_thread(found.of, [109, 109, 26, 2])
    assert (note, found.source) == ("", f"{vllm.url}/detokenize")
    assert pieces == {109: b"]", 26: b"\n", 2: b"<|end|>"}


def test_without_tokenizer_and_engine_it_is_said():
    assert tokenizers.find(None, []) == (
        None,
        "token ids are shown without text: no engine is known; --tokenizer names a folder or a model of the hub",
    )
    found, note = tokenizers.find(None, [("http://127.0.0.1:9", "m")])
    assert found is None
    assert "no engine answers at http://127.0.0.1:9" in note


def test_a_file_that_is_no_tokenizer_is_refused(tmp_path: Path):
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(TokenizerError, match="cannot be loaded"):
        tokenizers.load(str(tmp_path))
