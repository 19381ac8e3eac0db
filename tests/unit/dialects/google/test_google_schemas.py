"""Google's schema dialect → JSON Schema."""

from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polar_capture.dialects.google.schemas import json_schema
from polar_capture.faults import CallError


@pytest.mark.parametrize(
    ("schema", "lowered"),
    [
        (
            {"type": "STRING", "format": "enum", "enum": ["OBJECT", "b"]},
            {"type": "string", "format": "enum", "enum": ["OBJECT", "b"]},
        ),
        ({"type": "ARRAY", "items": {"type": "NUMBER"}}, {"type": "array", "items": {"type": "number"}}),
        ({"any_of": [{"type": "STRING"}, {"type": "NULL"}]}, {"anyOf": [{"type": "string"}, {"type": "null"}]}),
        ({"type": "TYPE_UNSPECIFIED", "title": "t"}, {"title": "t"}),
        ({"type": "ARRAY", "minItems": "1", "max_items": "3"}, {"type": "array", "minItems": 1, "maxItems": 3}),
        ({"type": "STRING", "nullable": False}, {"type": "string"}),
        ({"type": "STRING", "nullable": True, "enum": ["a"]}, {"type": ["string", "null"], "enum": ["a", None]}),
        ({"anyOf": [{"type": "STRING"}], "nullable": True}, {"anyOf": [{"type": "string"}, {"type": "null"}]}),
        (
            {"defs": {"X": {"type": "STRING"}}, "ref": "#/$defs/X"},
            {"$defs": {"X": {"type": "string"}}, "$ref": "#/$defs/X"},
        ),
        (
            {"type": "OBJECT", "properties": {"type": {"type": "STRING"}, "any_of": {"type": "INTEGER"}}},
            {"type": "object", "properties": {"type": {"type": "string"}, "any_of": {"type": "integer"}}},
        ),
        ({"type": ["STRING", "null"]}, {"type": ["string", "null"]}),
        ({"type": "OBJECT", "additionalProperties": False}, {"type": "object", "additionalProperties": False}),
        ({"default": {"type": "STRING"}, "const": "STRING"}, {"default": {"type": "STRING"}, "const": "STRING"}),
        (True, True),
    ],
)
def test_lowering(schema: Any, lowered: Any) -> None:
    assert json_schema(schema, "s") == lowered


@pytest.mark.parametrize(
    ("schema", "param"), [("x", "s"), ({"properties": {"a": 1}}, "s.properties.a"), ({"anyOf": [1]}, "s.anyOf[0]")]
)
def test_what_is_no_schema_is_refused(schema: Any, param: str) -> None:
    with pytest.raises(CallError) as refused:
        json_schema(schema, "s")
    assert refused.value.fault.param == param


_NAMES = st.sampled_from(["type", "a", "items", "enum", "nullable"])
_LEAVES = st.sampled_from([{"type": "string"}, {"type": "integer", "minimum": 1}, {"enum": ["OBJECT", 1]}, {}, True])
_SCHEMAS = st.recursive(
    _LEAVES,
    lambda inner: (
        st.builds(lambda p: {"type": "object", "properties": p}, st.dictionaries(_NAMES, inner, max_size=3))
        | st.builds(lambda i: {"type": "array", "items": i}, inner)
        | st.builds(lambda a: {"anyOf": a}, st.lists(inner, min_size=1, max_size=3))
    ),
    max_leaves=12,
)


@given(_SCHEMAS)
def test_json_schema_stays_as_it_is(schema: Any) -> None:
    assert json_schema(schema, "s") == schema


def _raised(schema: Any) -> Any:
    if isinstance(schema, bool):
        return schema
    raised = dict(schema)
    if isinstance(raised.get("type"), str):
        raised["type"] = raised["type"].upper()
    if "properties" in raised:
        raised["properties"] = {k: _raised(v) for k, v in raised["properties"].items()}
    if "items" in raised:
        raised["items"] = _raised(raised["items"])
    if "anyOf" in raised:
        raised["anyOf"] = [_raised(v) for v in raised["anyOf"]]
    return raised


@given(_SCHEMAS)
def test_upper_case_types_become_the_same_json_schema(schema: Any) -> None:
    lowered = json_schema(_raised(schema), "s")
    assert lowered == schema
    jsonschema.Draft202012Validator.check_schema(lowered)
