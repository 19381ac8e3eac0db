"""Tokenizers by a model's name: from a hub (one on loopback), from its cache, from the folder that an engine serves."""

import base64
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from polar_capture import tokenizers
from tests.browser import sessions
from tests.double.process import running
from tests.double.script import Options, Script
from tests.unit.pages.fake_hub import hub
from tests.unit.process.serving import serve

WORDS = {40 + place: f"word{place}" for place in range(30)}
"""The ids that the session of the tests sampled in its calls 1 to 3, and more."""


def whole(folder: Path, words: dict[int, str]) -> bytes:
    """A tokenizer.json whose token `id` is a word with a blank before it, in byte-level spelling."""
    made = Tokenizer(models.WordLevel({f"Ġ{word}": token for token, word in words.items()}, unk_token="?"))
    made.pre_tokenizer, made.decoder = pre_tokenizers.ByteLevel(), decoders.ByteLevel()
    folder.mkdir(parents=True, exist_ok=True)
    made.save(str(folder / "tokenizer.json"))
    return (folder / "tokenizer.json").read_bytes()


def ranks(words: dict[int, str]) -> bytes:
    return b"\n".join(base64.b64encode(f" {word}".encode()) + f" {token}".encode() for token, word in words.items())


def wordpieces(words: dict[int, str]) -> dict[str, bytes]:
    """A model of the time before tokenizer.json, which only transformers can read."""
    lines = [words.get(token, f"[unused{token}]") for token in range(max(words) + 1)]
    lines[:5] = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    config = {"tokenizer_class": "BertTokenizer", "do_lower_case": False}
    return {"vocab.txt": "\n".join(lines).encode(), "tokenizer_config.json": json.dumps(config).encode()}


def show(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """`show s-all --html page.html`, in a process of its own: the hub's library reads its settings once."""
    command = [sys.executable, "-m", "polar_capture", "show", "s-all", "--db", str(folder / "polar.db"), *arguments]
    command += ["--home", str(folder / "home"), "--html", str(folder / "page.html")]
    clean = {name: value for name, value in os.environ.items() if "proxy" not in name.lower() and name[:3] != "HF_"}
    return subprocess.run(
        command,
        env={**clean, "HF_HOME": str(folder / "hf"), **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def shown(folder: Path) -> set[str]:
    page = (folder / "page.html").read_text()
    return {word for word in WORDS.values() if f'" {word}"' in page or f'"{word}"' in page}


def database(folder: Path, *, upstream: str = "http://127.0.0.1:9", model: str = "acme/toy") -> None:
    calls = sessions.eventful()
    for call in calls:
        call.upstream, call.model_served = upstream, model
    sessions.write(folder / "polar.db", {"s-all": calls})


@pytest.mark.parametrize("kind", ["whole", "tiktoken", "wordpieces"])
def test_a_models_name_is_fetched_once_and_then_is_at_hand(tmp_path: Path, kind: str):
    files = {
        "whole": {"tokenizer.json": whole(tmp_path / "made", WORDS), "model.safetensors": b"x" * 1000},
        "tiktoken": {"tiktoken.model": ranks(WORDS), "modeling_acme.py": b"raise SystemExit"},
        "wordpieces": wordpieces(WORDS),
    }[kind]
    database(tmp_path)
    with hub({"acme/toy": files}) as (url, asked):
        first = show(tmp_path, "--tokenizer", "acme/toy", HF_ENDPOINT=url)
        assert first.returncode == 0, first.stderr
        assert len(shown(tmp_path)) >= 9
        assert not [path for path in asked if path.endswith((".safetensors", ".py"))], "only the tokenizer is fetched"
    (tmp_path / "page.html").unlink()
    again = show(tmp_path)  # by the name of the model that the session was served by; the hub is gone, and the engine
    assert again.returncode == 0, again.stderr
    assert "without text" not in again.stderr
    assert len(shown(tmp_path)) >= 9


def test_nothing_is_fetched_that_was_not_asked_for(tmp_path: Path):
    database(tmp_path)
    with hub({"acme/toy": {"tokenizer.json": whole(tmp_path / "made", WORDS)}}) as (url, asked):
        done = show(tmp_path, HF_ENDPOINT=url)
    assert done.returncode == 0
    assert "token ids are shown without text: no engine answers at http://127.0.0.1:9" in done.stderr
    assert asked == []


def test_a_name_that_the_hub_does_not_have_is_said(tmp_path: Path):
    database(tmp_path)
    with hub({}) as (url, _):
        done = show(tmp_path, "--tokenizer", "acme/other", HF_ENDPOINT=url)
    assert done.returncode == 1
    assert "the tokenizer acme/other cannot be loaded" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_folder_of_the_models_name_is_not_mistaken_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    whole(tmp_path / "acme" / "toy", WORDS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    assert tokenizers.at_hand("acme/toy") is None
    assert tokenizers.load("acme/toy").of([40]) == {40: b" word0"}, "named by hand, a folder is a folder"


def test_the_folder_that_an_engine_serves_from_comes_before_its_detokenize(tmp_path: Path):
    whole(tmp_path / "served", WORDS)
    options = Options(model="policy", root=str(tmp_path / "served"))
    with running(Script(options=options)) as engine:
        found, note = tokenizers.find(None, [(engine.url, "policy")])
        assert found is not None
        assert (found.source, note) == (str(tmp_path / "served"), "")
        assert found.of([41, 7]) == {41: b" word1"}
        assert "/detokenize" not in [request.path for request in engine.requests()][1:], "beyond its being there"


def test_an_engine_whose_folder_is_elsewhere_is_asked_for_each_id():
    with running(Script(options=Options(model="policy", root="/models/not/here"))) as engine:
        found, _ = tokenizers.find(None, [(engine.url, "policy")])
    assert found is not None
    assert found.source == f"{engine.url}/detokenize"


def test_a_folder_without_a_tokenizer_is_said(tmp_path: Path):
    with pytest.raises(tokenizers.TokenizerError, match="holds no tokenizer"):
        tokenizers.load(str(tmp_path))
    with pytest.raises(tokenizers.TokenizerError, match="there is no tokenizer at /nowhere"):
        tokenizers.load("/nowhere")


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="this system does not tell what a process has loaded")
def test_a_capturing_proxy_never_loads_a_tokenizer(tmp_path: Path):
    whole(tmp_path / "made", WORDS)
    with running() as engine, serve(engine.url, tmp_path, "--tokenizer", str(tmp_path / "made")) as proxy:
        assert proxy.post().status_code == 200
        loaded = Path(f"/proc/{proxy.process.pid}/maps").read_text()
    assert "/msgspec/" in loaded, "extension modules are seen in it"
    assert not [name for name in ("/tokenizers/", "/tiktoken/", "/torch/") if name in loaded]
