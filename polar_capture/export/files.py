"""Files of records: JSON lines and Parquet, in constant memory, there as a whole or not at all."""

import hashlib
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
import numpy as np

from polar_capture.exits import Failure
from polar_capture.export.registry import Format

_LINE_ENDS = ((b"\xc2\x85", b"\\u0085"), (b"\xe2\x80\xa8", b"\\u2028"), (b"\xe2\x80\xa9", b"\\u2029"))
"""Characters that some readers of JSON lines take for an end of line; in JSON they stand in strings only."""

_TOKENS_PER_BATCH = 4_000_000
_encode = msgspec.json.Encoder(enc_hook=lambda value: value.tolist()).encode


class Written(msgspec.Struct):
    """A finished file."""

    size: int
    sha256: str


def line(record: dict[str, Any]) -> bytes:
    """A record as one line of JSON (UTF-8, NaN as null), whatever the reader takes for an end of line."""
    text: bytes = _encode(record)
    if not text.isascii():
        for raw, escaped in _LINE_ENDS:
            text = text.replace(raw, escaped)
    return text + b"\n"


def write(out: Path, format: Format, records: Iterable[dict[str, Any]]) -> Written:
    """Writes the records to `out`, which appears complete, in place of what was there, or stays as it was."""
    with replaced(out) as part:
        if format.parquet_columns is None:
            with open(part, "wb") as file:
                _write_lines(file, records)
        else:
            _write_parquet(part, format.parquet_columns, records)
        return Written(part.stat().st_size, _sha256(part))


@contextmanager
def replaced(out: Path) -> Iterator[Path]:
    """A file beside `out` that becomes `out` when the block ends well, and is removed when it does not."""
    part = out.with_name(f".{out.name}.{os.getpid()}.part")
    try:
        yield part
        with open(part, "rb") as file:
            os.fsync(file.fileno())
        os.replace(part, out)
    finally:
        part.unlink(missing_ok=True)


def _write_lines(file: BinaryIO, records: Iterable[dict[str, Any]]) -> None:
    for record in records:
        file.write(line(record))


def _sha256(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _write_parquet(path: Path, columns: dict[str, str], records: Iterable[dict[str, Any]]) -> None:
    try:
        import pyarrow as pa  # type: ignore[import-untyped]
        import pyarrow.parquet as pq  # type: ignore[import-untyped]
    except ModuleNotFoundError:
        raise Failure("Parquet files need pyarrow: pip install 'polar-capture[datasets]'") from None
    schema = pa.schema([(name, _arrow_type(pa, kind)) for name, kind in columns.items()])
    # A dictionary of token ids costs most of the writing and saves nothing.
    repeated = [name for name, kind in columns.items() if kind == "string"]
    with pq.ParquetWriter(path, schema, compression="zstd", use_dictionary=repeated) as writer:
        for batch in _batches(records):
            arrays = [_column(pa, [r.get(name) for r in batch], kind) for name, kind in columns.items()]
            writer.write_table(pa.Table.from_arrays(arrays, schema=schema))


def _batches(records: Iterable[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    batch: list[dict[str, Any]] = []
    size = 0
    for record in records:
        batch.append(record)
        size += sum(len(value) for value in record.values() if isinstance(value, list | np.ndarray))
        if size >= _TOKENS_PER_BATCH:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _arrow_type(pa: Any, kind: str) -> Any:
    if kind.startswith("list<"):
        return pa.list_(_arrow_type(pa, kind[5:-1]))
    return pa.string() if kind == "json" else pa.type_for_alias(kind)


def _column(pa: Any, values: list[Any], kind: str) -> Any:
    if kind == "json":
        return pa.array([None if value is None else _encode(value).decode() for value in values], pa.string())
    if not kind.startswith("list<"):
        return pa.array(values, _arrow_type(pa, kind))
    inner = np.dtype(kind[5:-1])
    parts = [np.asarray([] if value is None else value, inner) for value in values]
    whole = np.concatenate(parts) if parts else np.empty(0, inner)
    nulls = np.isnan(whole) if whole.dtype.kind == "f" else None
    offsets = np.zeros(len(parts) + 1, np.int32)
    np.cumsum([len(part) for part in parts], out=offsets[1:])
    missing = pa.array([value is None for value in values])
    return pa.ListArray.from_arrays(
        pa.array(offsets), pa.array(whole, _arrow_type(pa, kind[5:-1]), mask=nulls), mask=missing
    )
