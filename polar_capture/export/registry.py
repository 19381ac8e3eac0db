"""The formats by name. A new one is a new file with `FORMAT` in it and its line here."""

import importlib
from collections.abc import Callable
from typing import Any

import msgspec

from polar_capture.export.row import ExportRow

MODULES = {
    "trl-grpo": "trl_grpo",
    "trl-sft": "trl_sft",
    "verl": "verl",
    "slime": "slime",
    "prime-rl": "prime_rl",
    "skyrl": "skyrl",
    "openrlhf": "openrlhf",
    "nemo-gym": "nemo_gym",
    "atif": "atif",
    "chat": "chat",
    "jsonl": "jsonl",
    "parquet": "parquet",
}


class Format(msgspec.Struct, frozen=True, kw_only=True):
    """One training format."""

    name: str
    record: Callable[[ExportRow], dict[str, Any] | None]
    """A sample as the format's record: plain values, lists, dicts. None where the sample can't be one, for want of
    text."""
    layout: dict[str, str]
    """What the fields mean where one could be mistaken: shapes, shifts, fill values. Stands in the manifest."""
    parquet_columns: dict[str, str] | None = None
    """Column → type (`string`, `int32`, `int64`, `float32`, `float64`, `bool`, `json`, `list<…>`) for a Parquet file;
    None for JSON lines."""
    needs_reward: bool = True
    """Samples without a reward are left out by default; SFT formats take any."""


def get(name: str) -> Format:
    """The format of that name; KeyError for an unknown one."""
    module = importlib.import_module(f"polar_capture.export.{MODULES[name]}")
    found = module.FORMAT
    assert isinstance(found, Format)
    return found
