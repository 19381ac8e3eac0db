"""The table `samples`: rows in and out as arrays, JSON text on SQLite, int4[] and float4[] by COPY on PostgreSQL."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec
import numpy as np
import sqlalchemy as sa

from polar_capture.store.database import Database
from polar_capture.store.models import Sample as SampleModel
from polar_capture.trajectories.rows import BreakRecord, Sample, Span

TABLE: sa.Table = SampleModel.__table__  # type: ignore[assignment]
COLUMNS = [column.name for column in TABLE.columns]
_FETCHED = 16
"""Samples in memory at once while reading: a sample of 100k tokens takes some 20 MB as Python lists."""
_PER_TRANSACTION = 64_000_000
"""Bytes of arrays after which a writing transaction ends, so that the capture's own writer never waits for long."""


def write_session(database: Database, strategy: str, session_id: str, samples: Iterable[Sample]) -> int:
    """Replaces the session's rows of this strategy; returns how many there are now."""
    written = 0
    first = True
    for chunk in _chunks(samples):
        with database.write.begin() as connection:
            if first:
                _delete(connection, strategy, session_id)
            _insert(connection, chunk)
        first = False
        written += len(chunk)
    return written


def _chunks(samples: Iterable[Sample]) -> Iterator[list[Sample]]:
    """Lists of samples for one transaction each; the first may be empty."""
    chunk: list[Sample] = []
    size = 0
    for sample in samples:
        chunk.append(sample)
        size += 9 * len(sample.input_ids)
        if size >= _PER_TRANSACTION:
            yield chunk
            chunk, size = [], 0
    yield chunk


def _delete(connection: sa.Connection, strategy: str, session_id: str) -> None:
    connection.execute(sa.delete(TABLE).where(TABLE.c.strategy == strategy, TABLE.c.session_id == session_id))


def _insert(connection: sa.Connection, samples: Sequence[Sample]) -> None:
    names = ", ".join(COLUMNS)
    if connection.dialect.name == "sqlite":
        marks = ", ".join("?" * len(COLUMNS))
        rows = [tuple(_values(sample)) for sample in samples]
        if rows:
            connection.exec_driver_sql(f"INSERT INTO samples ({names}) VALUES ({marks})", rows)
        return
    driver = connection.connection.driver_connection
    assert driver is not None
    with driver.cursor() as cursor, cursor.copy(f"COPY samples ({names}) FROM STDIN") as copy:
        for sample in samples:
            *narrow, ids, mask, logprobs = _values(sample)
            # JSON's [1,null] is PostgreSQL's {1,null}.
            copy.write_row([*narrow, *("{" + array[1:-1] + "}" for array in (ids, mask, logprobs))])


def _values(sample: Sample) -> list[Any]:
    low, high = sample.policy_versions
    own = {
        "policy_version_min": low,
        "policy_version_max": high,
        "length": len(sample.input_ids),
        "turn_spans": _text([span.as_json() for span in sample.turn_spans]),
        "breaks": _text([record.as_json() for record in sample.breaks]),
        "input_ids": _text(sample.input_ids.tolist()),
        "loss_mask": _text(sample.loss_mask.tolist()),
        "logprobs": _text(nullable(sample)),
    }
    return [own[name] if name in own else getattr(sample, name) for name in COLUMNS]


def nullable(sample: Sample) -> list[float | None]:
    """Logprobs as a list [n], None where the mask is 0."""
    values: list[float | None] = [None] * len(sample.logprobs)
    for span in sample.turn_spans:
        if span.trained:
            values[span.start : span.end] = sample.logprobs[span.start : span.end].tolist()
    return values


def _text(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def read_samples(connection: sa.Connection, ids: Sequence[str]) -> Iterator[Sample]:
    """The samples with these ids, in that order, a few in memory at a time; ids that are not there are left out."""
    for begin in range(0, len(ids), _FETCHED):
        part = ids[begin : begin + _FETCHED]
        marks = ", ".join(f":id{i}" for i in range(len(part)))
        # Raw text, so that SQLite's JSON is decoded once and by msgspec.
        query = sa.text(f"SELECT {', '.join(COLUMNS)} FROM samples WHERE id IN ({marks})")
        found = {
            row["id"]: row for row in connection.execute(query, {f"id{i}": x for i, x in enumerate(part)}).mappings()
        }
        for id in part:
            if id in found:
                yield _sample(found[id])


def _sample(row: sa.RowMapping) -> Sample:
    values = {name: row[name] for name in COLUMNS if name not in ("length", "policy_version_min", "policy_version_max")}
    values["turn_spans"] = [span(item) for item in _decoded(row["turn_spans"])]
    values["breaks"] = [break_record(item) for item in _decoded(row["breaks"])]
    values["input_ids"] = _array(row["input_ids"], np.int32)
    values["loss_mask"] = _digits(row["loss_mask"])
    values["logprobs"] = _array(row["logprobs"], np.float32)
    return Sample(**values)


def _digits(value: str | list[Any]) -> Any:
    """A mask as uint8: JSON text of single digits is its own array."""
    if isinstance(value, str):
        text = np.frombuffer(value.encode(), np.uint8)[1:-1]
        if (text[1::2] == ord(",")).all() and ((text[::2] >= ord("0")) & (text[::2] <= ord("9"))).all():
            return text[::2] - np.uint8(ord("0"))
    return _array(value, np.uint8)


def _array(value: str | list[Any], dtype: type[np.generic]) -> Any:
    """Numbers as an array of the dtype, null as NaN. ValueError for whole numbers that it can't hold.

    JSON text is read without a Python object for each number, which is three times as fast.
    """
    if np.issubdtype(dtype, np.floating):
        if isinstance(value, str):
            return np.fromstring(value[1:-1].replace("null", "nan"), dtype, sep=",")
        return np.array(value, dtype)
    wide = np.fromstring(value[1:-1], np.int64, sep=",") if isinstance(value, str) else np.array(value, np.int64)
    limits = np.iinfo(dtype)  # type: ignore[type-var]
    if len(wide) and not (limits.min <= wide.min() and wide.max() <= limits.max):
        raise ValueError(f"a number from {wide.min()} to {wide.max()} does not fit into {np.dtype(dtype).name}")
    return wide.astype(dtype)


def _decoded(value: Any) -> Any:
    return msgspec.json.decode(value) if isinstance(value, str | bytes) else value


def span(item: dict[str, Any]) -> Span:
    """A span from its JSON; one without `trained` (written by others) counts as trained."""
    return Span(**{"trained": True, "policy_version": None} | item)


def break_record(item: dict[str, Any]) -> BreakRecord:
    """A break from its JSON."""
    return BreakRecord(item["call_id"], item["break"], item["at"], item["tokens"], item.get("predecessor", ""))
