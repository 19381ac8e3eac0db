"""Token ids as text, for people's eyes only: never on the capture path, and nothing that is trained on depends on it.

A piece is the bytes of one token: a token may hold a part of a character only.
"""

import json
import logging
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import requests

log = logging.getLogger("polar_capture")

PieceOf = Callable[[int], bytes | None]
_AT_ONCE = 8
_SECONDS = (2.0, 10.0)
"""To connect, and to answer: an engine that is away must not hold a person up."""
_FILES = [
    "tokenizer.json", "tokenizer_config.json", "*.tiktoken", "tiktoken.model", "tokenizer.model", "spiece.model",
    "vocab.json", "merges.txt", "vocab.txt",
]  # fmt: skip
"""What of a model is a tokenizer: https://huggingface.co/docs/transformers/main_classes/tokenizer"""


class TokenizerError(Exception):
    """No text can be had for token ids; the message says why and what to do."""


class Pieces:
    """The pieces of a vocabulary. `source` says where they come from."""

    def __init__(self, source: str, piece_of: PieceOf, *, at_once: int = 1) -> None:
        self.source = source
        self._piece_of = piece_of
        self._at_once = at_once

    def of(self, ids: Iterable[int]) -> dict[int, bytes]:
        """The bytes of each distinct id; ids that the vocabulary does not have are left out. Raises TokenizerError."""
        wanted = sorted(set(ids))
        if self._at_once == 1:
            found = [self._piece_of(token) for token in wanted]
        else:
            with ThreadPoolExecutor(self._at_once) as pool:
                found = list(pool.map(self._piece_of, wanted))
        return {token: piece for token, piece in zip(wanted, found, strict=True) if piece is not None}


def load(name: str) -> Pieces:
    """The tokenizer of a folder or file (tokenizer.json, *.tiktoken, tiktoken.model), or of a model on the Hugging Face
    hub, which is downloaded where its cache does not have it (HF_HOME, HF_ENDPOINT, HF_HUB_OFFLINE are heeded). No code
    of a model is run. Raises TokenizerError."""
    path = Path(name).expanduser()
    try:
        if path.exists():
            return _of_path(name, path)
        if path.is_absolute() or name.startswith("."):
            raise TokenizerError(f"there is no tokenizer at {name}")
        return _of_path(name, _snapshot(name, local=False))
    except ImportError as error:
        raise TokenizerError(f"{error}: pip install 'polar-capture[tokenizer]'") from error
    except TokenizerError:
        raise
    except Exception as error:  # tokenizers raises bare Exception for a bad file
        raise TokenizerError(f"the tokenizer {name} cannot be loaded: {error}") from error


def at_hand(model: str | None) -> Pieces | None:
    """A served model's own tokenizer where this machine has it: in the hub's cache by its name, or in the folder that
    it is served from. Nothing is downloaded, and a name never means a folder of the working directory."""
    if not model:
        return None
    try:
        if Path(model).is_absolute():
            return _of_path(model, Path(model)) if Path(model).is_dir() else None
        return _of_path(model, _snapshot(model, local=True))
    except ImportError:
        return None  # polar-capture[tokenizer] is not installed
    except Exception as error:  # no such entry, no such name, a bad file: the engine knows it all
        log.debug("no tokenizer of %s at hand: %s", model, error)
        return None


def of_engine(url: str, model: str | None) -> Pieces:
    """The vocabulary of a running vLLM, asked id by id (POST /detokenize).

    A part of a character comes back as U+FFFD. Raises TokenizerError when the engine does not answer.
    """
    session = _session()
    address = url.rstrip("/") + "/detokenize"

    def piece(token: int) -> bytes | None:
        asked: dict[str, Any] = {"tokens": [token], **({"model": model} if model else {})}
        try:
            answer = session.post(address, json=asked, timeout=_SECONDS)
            if answer.status_code == 400:
                return None
            answer.raise_for_status()
            return str(answer.json()["prompt"]).encode("utf-8", "replace")
        except (requests.RequestException, KeyError, ValueError) as error:
            raise TokenizerError(f"{address} does not answer: {error}") from error

    piece(0)
    return Pieces(address, piece, at_once=_AT_ONCE)


def find(name: str | None, upstreams: Iterable[tuple[str, str | None]]) -> tuple[Pieces | None, str]:
    """The tokenizer that was named; else that of the model which these engines (URL, model's name) serve, where it is
    at hand; else the first engine that answers. And a line for people where there is none. Raises TokenizerError for a
    named one that cannot be loaded."""
    if name:
        return load(name), ""
    tried = []
    for url, model in upstreams:
        found = at_hand(model)
        if found is not None:
            return found, ""
        try:
            asked = of_engine(url, model)
        except TokenizerError:
            tried.append(url)
            continue
        return at_hand(_served_from(url, model)) or asked, ""
    where = f"no engine answers at {', '.join(tried)}" if tried else "no engine is known"
    return None, f"token ids are shown without text: {where}; --tokenizer names a folder or a model of the hub"


def _served_from(url: str, model: str | None) -> str | None:
    """Folder or hub name of an engine's model, where it is not the name under which it is served (GET /v1/models)."""
    try:
        listed = _session().get(url.rstrip("/") + "/v1/models", timeout=_SECONDS).json()["data"]
        roots = [str(entry["root"]) for entry in listed if entry.get("root") and model in (None, entry.get("id"))]
    except (requests.RequestException, KeyError, TypeError, ValueError, AttributeError):
        return None  # another server than vLLM
    return roots[0] if roots and roots[0] != model else None


def _session() -> requests.Session:
    session = requests.Session()
    session.trust_env = False  # an agent's HTTPS_PROXY is not for this
    return session


def _snapshot(name: str, *, local: bool) -> Path:
    from huggingface_hub import snapshot_download

    return Path(snapshot_download(name, allow_patterns=_FILES, local_files_only=local))


def _of_path(name: str, path: Path) -> Pieces:
    """The tokenizer in a folder, or a file of one."""
    whole, ranks = _first(path, "tokenizer.json"), _first(path, "*.tiktoken", "tiktoken.model")
    if whole is not None:
        from tokenizers import Tokenizer

        return _of_backend(name, Tokenizer.from_file(str(whole)))
    if ranks is not None:
        return _of_ranks(name, ranks)
    if path.is_dir() and any(_first(path, pattern) for pattern in _FILES if pattern != "tokenizer_config.json"):
        from transformers import AutoTokenizer

        converted = AutoTokenizer.from_pretrained(path, local_files_only=True, trust_remote_code=False)
        return _of_backend(name, converted.backend_tokenizer)
    raise TokenizerError(f"{name} holds no tokenizer: neither tokenizer.json nor a tiktoken or SentencePiece file")


def _first(path: Path, *patterns: str) -> Path | None:
    for pattern in patterns:
        if path.is_file() and path.match(pattern):
            return path
        found = sorted(path.glob(pattern)) if path.is_dir() else []
        if found:
            return found[0]
    return None


def _of_backend(name: str, backend: Any) -> Pieces:
    kinds = json.dumps(json.loads(backend.to_str()).get("decoder"))
    added = {token: str(entry.content).encode() for token, entry in backend.get_added_tokens_decoder().items()}
    alphabet = _byte_alphabet() if '"ByteLevel"' in kinds else None

    def piece(token: int) -> bytes | None:
        if token in added:
            return added[token]
        text = backend.id_to_token(token)
        if text is None:
            return None
        if alphabet is not None:
            return b"".join(alphabet.get(character, character.encode()) for character in text)
        if len(text) == 6 and text.startswith("<0x") and text.endswith(">"):  # SentencePiece's byte fallback
            return bytes([int(text[3:5], 16)])
        return text.replace("\u2581", " ").encode()

    return Pieces(name, piece)


def _of_ranks(name: str, path: Path) -> Pieces:
    from tiktoken.load import load_tiktoken_bpe

    pieces = {rank: piece for piece, rank in load_tiktoken_bpe(str(path)).items()}
    settings = path.with_name("tokenizer_config.json")
    if settings.is_file():
        special = json.loads(settings.read_text()).get("added_tokens_decoder", {})
        pieces.update({int(token): entry["content"].encode() for token, entry in special.items()})
    return Pieces(name, pieces.get)


def _byte_alphabet() -> dict[str, bytes]:
    """GPT-2's printable stand-ins for bytes: printable Latin-1 stands for itself, the rest follows from U+0100 on."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    rest = [byte for byte in range(256) if byte not in plain]
    return {chr(byte): bytes([byte]) for byte in plain} | {
        chr(256 + place): bytes([byte]) for place, byte in enumerate(rest)
    }
