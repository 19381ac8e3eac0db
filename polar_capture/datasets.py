"""Rows for trainers: one SQL statement over a captured database, as a list of dicts with plain Python lists in it.

from polar_capture import datasets
rows = datasets.load("polar.db", "SELECT input_ids, loss_mask, logprobs, advantage FROM training_samples")
"""

import json
import os
from typing import Any

import sqlalchemy as sa

from polar_capture import store
from polar_capture.store.escaping import unescape
from polar_capture.store.models import Base

_COLUMNS = [column for table in Base.metadata.tables.values() for column in table.columns]
_BOOLEANS = {column.name for column in _COLUMNS if isinstance(column.type, sa.Boolean)}
_TEXTS = {column.name for column in _COLUMNS if isinstance(column.type, sa.String)}


def load(db: str | os.PathLike[str], sql: str) -> list[dict[str, Any]]:
    """The rows of a read-only statement by column name, equal on SQLite and PostgreSQL.

    Arrays and JSON columns are lists and dicts on both (SQLite keeps them as text), whatever a query names them;
    booleans are True and False under their own names. DatabaseError for a database or a statement that can't be used.
    """
    with store.open(db, create=False) as captured:
        columns, rows = captured.sql(sql)
    return [{name: _plain(name, value) for name, value in zip(columns, row, strict=True)} for row in rows]


def _plain(name: str, value: Any) -> Any:
    if isinstance(value, str):
        if name not in _TEXTS and value[:1] in ("[", "{"):
            try:
                return json.loads(value)
            except ValueError:
                pass
        return unescape(value)
    if name in _BOOLEANS and value is not None:
        return bool(value)
    return value
