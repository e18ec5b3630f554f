"""Whether a call keeps the JSON Schema of its tool, and why not.

A tool is `{"name", "description", "parameters": JSON Schema}`. The leaderboard's types ("dict",
"float", "tuple", "any") are read as JSON Schema's. The schema is untrusted: see `records.contract`.
If it is invalid or takes too long to evaluate, the call is undetermined, never valid.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from assay.files.json_files import parse_json
from assay.records.contract import Contract
from assay.records.plain import MAX_DEPTH, beyond_json
from assay.registry import near_miss
from assay.scoring.metrics.calls import WrittenCall

_DIALECT = {
    "dict": "object",
    "float": "number",
    "double": "number",
    "tuple": "array",
    "list": "array",
    "int": "integer",
    "str": "string",
    "bool": "boolean",
}
_SCHEMAS_BY_NAME = ("properties", "patternProperties", "dependentSchemas", "$defs", "definitions")
_SCHEMA_LISTS = ("allOf", "anyOf", "oneOf", "prefixItems")
_SCHEMAS = (
    "items",
    "additionalProperties",
    "unevaluatedProperties",
    "unevaluatedItems",
    "contains",
    "propertyNames",
    "not",
    "if",
    "then",
    "else",
)
_IN_PLACE = {"$ref", "$dynamicRef", "allOf", "anyOf", "oneOf", "not", "if", "dependentSchemas"}
"""Keywords through which other schemas may declare a property."""
_ENCODER = msgspec.json.Encoder(decimal_format="number")


class Validity(NamedTuple):
    """Whether a call is valid, None for undetermined, and why."""

    valid: bool | None
    reason: str


_VALID = Validity(True, "the arguments keep the tool's schema")


def standard_schema(schema: Any, *, depth: int = 0) -> Any:
    """A schema with the leaderboard's types replaced by JSON Schema's, only where a type belongs: a
    parameter may be called "type".

    >>> standard_schema(
    ...     {
    ...         "type": "dict",
    ...         "properties": {
    ...             "type": {"type": "any"},
    ...             "at": {"type": "tuple", "items": {"type": "float"}},
    ...         },
    ...     }
    ... )
    {'type': 'object', 'properties': {'type': {}, 'at': {'type': 'array', 'items': {'type': 'number'}}}}
    """  # noqa: E501
    if not isinstance(schema, dict):
        return schema
    if depth > MAX_DEPTH:
        raise ValueError("the schema nests too deep")
    standard: dict[str, Any] = {}
    for name, value in schema.items():
        if name == "type":
            listed = value if isinstance(value, list) else [value]
            if "any" in listed:
                continue
            standard[name] = (
                [_typed(kind) for kind in value] if isinstance(value, list) else _typed(value)
            )
        elif name in _SCHEMAS_BY_NAME and isinstance(value, dict):
            standard[name] = {
                inner: standard_schema(part, depth=depth + 1) for inner, part in value.items()
            }
        elif name == "items" and isinstance(value, list):  # a tuple in drafts before 2020
            standard["prefixItems"] = [standard_schema(part, depth=depth + 1) for part in value]
        elif name in _SCHEMA_LISTS and isinstance(value, list):
            standard[name] = [standard_schema(part, depth=depth + 1) for part in value]
        elif name in _SCHEMAS:
            standard[name] = standard_schema(value, depth=depth + 1)
        else:
            standard[name] = value
    return standard


def _typed(name: Any) -> Any:
    return _DIALECT.get(name, name) if isinstance(name, str) else name


def check_call(
    call: WrittenCall, tools: Sequence[Mapping[str, Any]], *, closed: bool = False
) -> Validity:
    """Whether a call names a tool and its arguments keep that tool's schema; with `closed`,
    undeclared arguments are invalid.

    >>> from assay.scoring.metrics.calls import WrittenCall
    >>> tool = {
    ...     "name": "add",
    ...     "parameters": {
    ...         "type": "dict",
    ...         "properties": {"a": {"type": "float"}},
    ...         "required": ["a"],
    ...     },
    ... }
    >>> (
    ...     check_call(WrittenCall("add", {"a": 1}), [tool]).valid,
    ...     check_call(WrittenCall("add", {}), [tool]).reason,
    ... )
    (True, 'add: "a" is a required property')
    >>> check_call(WrittenCall("ad", {}), [tool]).reason
    "no tool is named 'ad'. Did you mean 'add'?"
    """
    named = [tool for tool in tools if tool.get("name") == call.name]
    if not named:
        return Validity(
            False,
            "no tool is named"
            f" {call.name!r}.{near_miss(call.name, [str(tool.get('name')) for tool in tools])}",
        )
    if len(named) > 1:
        return Validity(None, f"{len(named)} tools are named {call.name!r}")
    if call.arguments is None:
        return Validity(False, f"{call.name}: the arguments are not a JSON object")
    problem = beyond_json(call.arguments)
    if problem:
        return Validity(False, f"{call.name}: the arguments {problem}")
    return _check(call.name, call.arguments, named[0].get("parameters", {}), closed=closed)


def _check(name: str, arguments: dict[str, Any], schema: Any, *, closed: bool) -> Validity:
    try:
        contract = _contract(_ENCODER.encode(schema), closed)
        problem = contract.problem
    except (ValueError, TypeError, RecursionError) as error:
        problem = str(error)[:160] or type(error).__name__
    if problem:
        return Validity(None, f"the schema of {name!r} is not a usable JSON Schema: {problem}")
    checked = contract.check(arguments)
    if checked.valid:
        return _VALID
    if checked.valid is None or not checked.broken:
        return Validity(
            None,
            f"the arguments of {name!r} could not be checked:"
            f" {checked.problem or 'no place named'}",
        )
    path, message = checked.broken[0]
    place = ".".join(map(str, path))
    return Validity(False, f"{name}{'.' + place if place else ''}: {message}")


@lru_cache(maxsize=1024)
def _contract(text: bytes, closed: bool) -> Contract:
    # imported late: the validator takes as long to load as all the rest, and many runs need none

    schema = standard_schema(parse_json(text))
    if closed and isinstance(schema, dict) and "additionalProperties" not in schema:
        schema = {
            **schema,
            "unevaluatedProperties" if _IN_PLACE & schema.keys() else "additionalProperties": False,
        }
    return Contract(_ENCODER.encode(schema))
