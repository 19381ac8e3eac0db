"""Google's schema dialect (OpenAPI 3.0 with upper-case types) → JSON Schema, which itself stays as it is."""

from typing import Any

from polar_capture.dialects.json_body import wrong_type

_TYPES = {"STRING", "NUMBER", "INTEGER", "BOOLEAN", "ARRAY", "OBJECT", "NULL"}
_ONE = ("items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames", "unevaluatedItems")
_MANY = ("anyOf", "allOf", "oneOf", "prefixItems", "items")
_NAMED = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_COUNTS = ("minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties")
_SNAKE = {
    "any_of": "anyOf",
    "prefix_items": "prefixItems",
    "additional_properties": "additionalProperties",
    "property_ordering": "propertyOrdering",
    "min_items": "minItems",
    "max_items": "maxItems",
    "min_length": "minLength",
    "max_length": "maxLength",
    "min_properties": "minProperties",
    "max_properties": "maxProperties",
    "defs": "$defs",
    "ref": "$ref",
}


def json_schema(value: Any, param: str) -> Any:
    """One schema, at any depth. Booleans are schemas too. Raises CallError for what is no schema."""
    if isinstance(value, bool):
        return value
    if not isinstance(value, dict):
        raise wrong_type(value, param, "a schema object")
    given: dict[str, Any] = value
    schema = {_SNAKE.get(name, name): item for name, item in given.items()}
    order = schema.pop("propertyOrdering", None)
    for name in _ONE:
        if isinstance(schema.get(name), dict):
            schema[name] = json_schema(schema[name], f"{param}.{name}")
    for name in _MANY:
        if isinstance(schema.get(name), list):
            schema[name] = [json_schema(item, f"{param}.{name}[{k}]") for k, item in enumerate(schema[name])]
    for name in _NAMED:
        if isinstance(schema.get(name), dict):
            schema[name] = {key: json_schema(item, f"{param}.{name}.{key}") for key, item in schema[name].items()}
    for name in _COUNTS:
        count = schema.get(name)
        if isinstance(count, str) and count.isascii() and count.isdigit():
            schema[name] = int(count)  # int64 is a string in protobuf's JSON
    _lower_type(schema)
    _allow_null(schema)
    if isinstance(order, list) and isinstance(schema.get("properties"), dict):
        schema["properties"] = _ordered(schema["properties"], order)
    return schema


def _lower_type(schema: dict[str, Any]) -> None:
    kind = schema.get("type")
    if isinstance(kind, list):
        schema["type"] = [item.lower() if isinstance(item, str) and item in _TYPES else item for item in kind]
    elif isinstance(kind, str) and kind in _TYPES:
        schema["type"] = kind.lower()
    elif kind == "TYPE_UNSPECIFIED":
        del schema["type"]


def _allow_null(schema: dict[str, Any]) -> None:
    """`nullable` is OpenAPI's; grammar engines know only the type null."""
    nullable = schema.pop("nullable", None)
    if nullable is not True:
        return
    kind = schema.get("type")
    if isinstance(kind, str) and kind != "null":
        schema["type"] = [kind, "null"]
    elif isinstance(kind, list) and "null" not in kind:
        schema["type"] = [*kind, "null"]
    if isinstance(schema.get("anyOf"), list):
        schema["anyOf"] = [*schema["anyOf"], {"type": "null"}]
    if isinstance(schema.get("enum"), list) and None not in schema["enum"]:
        schema["enum"] = [*schema["enum"], None]


def _ordered(properties: dict[str, Any], order: list[Any]) -> dict[str, Any]:
    """Properties in the order that the client wants them generated in."""
    first = {name: properties[name] for name in order if isinstance(name, str) and name in properties}
    return first | {name: item for name, item in properties.items() if name not in first}
