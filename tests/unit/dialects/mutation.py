"""Fuzzing by mutation: a sound request body with one of its nodes replaced by something else."""

import copy
from typing import Any

from hypothesis import strategies as st

JUNK = (
    st.none()
    | st.booleans()
    | st.integers(-3, 2**64)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=6)
    | st.lists(
        st.none() | st.text(max_size=3) | st.dictionaries(st.text(max_size=3), st.integers(), max_size=1), max_size=2
    )
    | st.dictionaries(st.text(max_size=6), st.integers() | st.text(max_size=3), max_size=2)
)


def nodes(value: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """The paths of all nodes below `value`."""
    found = [path] if path else []
    if isinstance(value, dict):
        for key, item in value.items():
            found += nodes(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            found += nodes(item, (*path, index))
    return found


def mutated(body: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    """`body` with up to three nodes replaced by junk."""
    places = st.lists(st.tuples(st.sampled_from(nodes(body)), JUNK), min_size=1, max_size=3)
    return places.map(lambda changes: _replaced(body, changes))


def _replaced(body: dict[str, Any], changes: list[tuple[tuple[str | int, ...], Any]]) -> dict[str, Any]:
    result: Any = copy.deepcopy(body)
    for path, junk in changes:
        holder = result
        for step in path[:-1]:
            if not (isinstance(holder, dict) and step in holder) and not (
                isinstance(holder, list) and isinstance(step, int) and step < len(holder)
            ):
                break
            holder = holder[step]
        else:
            if isinstance(holder, dict) or (
                isinstance(holder, list) and isinstance(path[-1], int) and path[-1] < len(holder)
            ):
                holder[path[-1]] = junk
    return result
