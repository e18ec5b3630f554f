"""JSON Schemas generated from the records, and validation faults worded for people."""

from __future__ import annotations

from decimal import Decimal
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from assay.registry import near_miss

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import jsonschema_rs

    from assay.files.json_files import Path


def engine() -> Any:
    """The package that validates JSON by a schema. It loads where something is first validated: it
    takes as long as everything else that grades a run.
    """
    import jsonschema_rs

    return jsonschema_rs


@cache
def json_schema(kind: type) -> dict[str, Any]:
    """The JSON Schema (2020-12) of a record."""
    schema = msgspec.json.schema(kind)
    definition = schema.get("$defs", {}).pop(kind.__name__, {})
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **{k: v for k, v in schema.items() if k != "$ref"},
        **definition,
    }


@cache
def _validator(kind: type) -> Any:
    return engine().Draft202012Validator(json_schema(kind), offline=True)


class ShapeFault(NamedTuple):
    """A place of a tree that breaks its schema, and what is wrong there."""

    path: Path
    message: str
    unknown_key: bool = False
    hinted: bool = False


def schema_faults(kind: type, tree: Any) -> Iterator[ShapeFault]:
    """Each place of the tree that breaks the schema, with what is wrong there and the near miss."""
    yield from _worded(kind, _validator(kind).iter_errors(tree))


def _worded(kind: type, errors: Iterable[jsonschema_rs.ValidationError]) -> Iterator[ShapeFault]:
    for error in errors:
        path = tuple(error.instance_path)
        about: Any = error.kind  # the stubs lack the attributes of each kind
        keyword = about.name
        if keyword == "additionalProperties":
            known = _known_keys(kind, path)
            for name in about.unexpected:
                if name == "weight" and path and path[0] in ("gates", "hard_gates"):
                    yield ShapeFault(
                        (*path, name),
                        "a gate carries no weight: no score can buy it off. Remove the key.",
                    )
                else:
                    hint = near_miss(name, known) or _longer(name, known)
                    hint = hint or _home(kind, path, name) or _all_of(known)
                    message = f"unknown key '{name}'.{hint}"
                    yield ShapeFault((*path, name), message, True, bool(hint))
        elif keyword == "required":
            yield ShapeFault(path, f"the key '{about.property}' is missing.")
        elif keyword == "anyOf" and path and path[0] == "hard_gates":
            yield ShapeFault(
                path,
                (
                    f"a gate is true, false or null, not {_short(error.instance)}; it carries no"
                    " weight and no score."
                ),
            )
        elif keyword == "anyOf":
            # "a list or null": the fault is inside the list, so the branch for null is irrelevant.
            inside = [
                branch
                for branch in about.context
                if not any(e.kind.name == "type" and tuple(e.instance_path) == path for e in branch)
            ]
            kinds = [
                branch[0].kind.types
                for branch in about.context
                if len(branch) == 1 and branch[0].kind.name == "type"
            ]
            if len(inside) == 1:
                yield from _worded(kind, inside[0])
            elif len(kinds) == len(about.context):
                expected = " or ".join(
                    dict.fromkeys(
                        str(name)
                        for types in kinds
                        for name in (types if isinstance(types, list) else [types])
                    )
                )
                described = _at(kind, path).get("description")
                hint = f" Expected: {described}." if described else ""
                yield ShapeFault(path, _other_type(path, expected, error.instance) + hint)
            else:
                yield ShapeFault(path, f"{_short(error.instance)} is not of the shape this takes.")
        elif keyword == "enum":
            options = [str(option) for option in about.options]
            yield ShapeFault(
                path,
                (
                    f"{_short(error.instance)} is not one of"
                    f" {', '.join(options)}.{near_miss(str(error.instance), options)}"
                ),
            )
        elif keyword == "pattern" and about.pattern == r"\S":
            yield ShapeFault(path, "is blank.")
        elif keyword == "type":
            types = about.types
            expected = " or ".join(types) if isinstance(types, list) else str(types)
            yield ShapeFault(path, _other_type(path, expected, error.instance))
        else:
            yield ShapeFault(path, error.message[:200] + ".")


_TYPES = {
    "array": "a list",
    "boolean": "true or false",
    "integer": "a whole number",
    "number": "a number",
    "object": "an object",
    "string": "a string",
}


def _type_words(expected: str) -> str:
    """JSON Schema types in words.

    >>> _type_words("integer or null")
    'a whole number or null'
    """
    return " or ".join(_TYPES.get(name, name) for name in expected.split(" or "))


def _other_type(path: Path, expected: str, value: Any) -> str:
    """The fault of a value of the wrong type; how to write a number that should be a string."""
    text = f"must be {_type_words(expected)}, not {_short(value)}."
    if "string" in expected.split(" or ") and isinstance(value, float | Decimal):
        return f'{text} Write {path[-1] if path else "it"}: "{_short(value)}".'
    return text


def _known_keys(kind: type, path: Path) -> list[str]:
    """The keys that the object at this path may have."""
    definitions = json_schema(kind).get("$defs", {})
    return list(_resolve(_at(kind, path), definitions).get("properties", {}))


def _at(kind: type, path: Path) -> dict[str, Any]:
    """The schema of what is at this path."""
    schema = json_schema(kind)
    definitions = schema.get("$defs", {})
    for part in path:
        schema = _step(schema, part, definitions)
    return schema


def _longer(name: str, known: Iterable[str]) -> str:
    """A question with the keys that have this name as a word, such as `critical_floor` for
    `floor`.
    """
    keys = [f"'{key}'" for key in known if name in key.split("_")]
    return f" Did you mean {' or '.join(keys)}?" if keys else ""


def _home(kind: type, path: Path, name: str) -> str:
    """The sibling object that a misplaced key belongs in, as a hint."""
    for part in _known_keys(kind, path):
        if name in _known_keys(kind, (*path, part)):
            return f" It belongs in `{part}`."
    return ""


def _all_of(known: Sequence[str]) -> str:
    """The keys that exist, if they are few enough to read."""
    return f" The keys are {', '.join(known)}." if 0 < len(known) <= 8 else ""


def _resolve(schema: Any, definitions: dict[str, Any], wanted: str = "object") -> dict[str, Any]:
    """The schema behind references; of several options, the one for the wanted type."""
    while isinstance(schema, dict):
        if "$ref" in schema:
            schema = definitions.get(str(schema["$ref"]).rsplit("/", 1)[-1], {})
        elif "anyOf" in schema:
            options = [_resolve(option, definitions, wanted) for option in schema["anyOf"]]
            schema = next((option for option in options if option.get("type") == wanted), {})
        else:
            return schema
    return {}


def _step(schema: Any, part: str | int, definitions: dict[str, Any]) -> Any:
    if isinstance(part, int):
        return _resolve(schema, definitions, "array").get("items", {})
    resolved = _resolve(schema, definitions)
    properties = resolved.get("properties", {})
    if part in properties:
        return properties[part]
    return resolved.get("additionalProperties") or {}


def _short(value: Any) -> str:
    text = (
        "null" if value is None else str(value).lower() if isinstance(value, bool) else repr(value)
    )
    return text if len(text) <= 60 else text[:57] + "..."
