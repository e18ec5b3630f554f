"""Schemas that contradict themselves: a value that meets one keyword breaks another, so no call can
be right.

Each schema object is looked at by itself. What only two of them together rule out, such as two
branches of `allOf`, is not found.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from assay.families.tools.rules.rule import SchemaFindings, shown

_SIZES = (
    ("string", "minLength", "maxLength"),
    ("array", "minItems", "maxItems"),
    ("array", "minContains", "maxContains"),
    ("object", "minProperties", "maxProperties"),
)
_BOUNDS = (
    ("minimum", "maximum", False),
    ("minimum", "exclusiveMaximum", True),
    ("exclusiveMinimum", "maximum", True),
    ("exclusiveMinimum", "exclusiveMaximum", True),
)
"""The pairs of a lowest and a highest number, and whether they may not be equal either."""
_NUMBERS = ("number", "integer")
_BY_NAME = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")
_SINGLE = (
    "items",
    "additionalProperties",
    "unevaluatedProperties",
    "unevaluatedItems",
    "propertyNames",
    "contains",
    "then",
    "else",
)


def check(schema: dict[str, Any], path: str, findings: SchemaFindings) -> None:
    """Report each contradiction in the schema of an input. Unknown names in its own `required` are
    left to `required-unknown`.
    """
    stack: list[tuple[dict[str, Any], str]] = [(schema, path)]
    while stack:
        node, where = stack.pop()
        for message in (*_sizes(node), *_bounds(node), *_required(node, root=node is schema)):
            findings.add("schema-contradicts", where, message)
        _check_values(node, where, findings)
        stack += reversed(list(_inner(node, where)))


def _inner(node: dict[str, Any], where: str) -> Iterator[tuple[dict[str, Any], str]]:
    for key in _BY_NAME:
        named = node.get(key)
        for name, child in named.items() if isinstance(named, dict) else ():
            if isinstance(child, dict):
                yield child, f"{where}.{key}.{name}"
    for key in _LISTS:
        listed = node.get(key)
        for index, child in enumerate(listed) if isinstance(listed, list) else ():
            if isinstance(child, dict):
                yield child, f"{where}.{key}[{index}]"
    for key in _SINGLE:
        if isinstance(node.get(key), dict):
            yield node[key], f"{where}.{key}"


def _types(node: dict[str, Any]) -> list[str]:
    """The types that a schema names; empty if it takes any."""
    kind = node.get("type")
    return [
        type_name
        for type_name in (kind if isinstance(kind, list) else [kind])
        if isinstance(type_name, str)
    ]


def _may_be(node: dict[str, Any], *kinds: str) -> bool:
    types = _types(node)
    return not types or any(kind in types for kind in kinds)


def _number(value: object) -> int | float | Decimal | None:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return None
    return value


def _sizes(node: dict[str, Any]) -> Iterator[str]:
    for kind, least, most in _SIZES:
        low, high = _number(node.get(least)), _number(node.get(most))
        if low is not None and high is not None and low > high and _may_be(node, kind):
            yield f"{least} {shown(low)} is more than {most} {shown(high)}."


def _bounds(node: dict[str, Any]) -> Iterator[str]:
    if not _may_be(node, *_NUMBERS):
        return
    for least, most, apart in _BOUNDS:
        low, high = _number(node.get(least)), _number(node.get(most))
        if low is not None and high is not None and (low > high or (apart and low == high)):
            yield f"no number meets both {least} {shown(low)} and {most} {shown(high)}."


def _required(node: dict[str, Any], *, root: bool) -> Iterator[str]:
    listed, known = node.get("required"), node.get("properties")
    names = [name for name in listed if isinstance(name, str)] if isinstance(listed, list) else []
    if not _may_be(node, "object"):
        return
    properties = known if isinstance(known, dict) else {}
    closed = node.get("additionalProperties") is False and not node.get("patternProperties")
    for name in names:
        if properties.get(name) is False:
            yield f"{name[:80]!r} is required, and no value of it is allowed."
        elif closed and not root and name not in properties:
            yield f"{name[:80]!r} is required, and additional properties are not allowed."
    most = _number(node.get("maxProperties"))
    if most is not None and len(set(names)) > most:
        yield f"{len(set(names))} properties are required, and maxProperties is {shown(most)}."
    least = _number(node.get("minProperties"))
    if closed and least is not None and least > len(properties):
        yield f"minProperties is {shown(least)}, and there are {len(properties)} properties."


def _check_values(node: dict[str, Any], where: str, findings: SchemaFindings) -> None:
    """Check that `const` and the values of `enum` have the type given next to them."""
    types = _types(node)
    if types and "const" in node and not _has_type(node["const"], types):
        message = f"const {shown(node['const'])} is not of the type {' or '.join(types)}."
        findings.add("schema-contradicts", where, message)
    values = node.get("enum")
    if not isinstance(values, list):
        return
    if not values:
        findings.add("schema-contradicts", where, "enum lists no value.")
    other = [value for value in values if types and not _has_type(value, types)]
    if other:
        message = f"enum lists {shown(other[0])}, which is not of the type {' or '.join(types)}."
        rule = "schema-contradicts" if len(other) == len(values) else "enum-value-refused"
        findings.add(rule, where, message)


def _has_type(value: object, types: list[str]) -> bool:
    if isinstance(value, bool):
        return "boolean" in types
    if value is None:
        return "null" in types
    if isinstance(value, int | float | Decimal):
        whole = isinstance(value, int) or value == Decimal(value).to_integral_value()
        return "number" in types or ("integer" in types and whole)
    kinds: dict[type, str] = {str: "string", list: "array", dict: "object"}
    return kinds.get(type(value), "") in types
