"""The description of each field of a record, read from the docstring under it in the source.

A published JSON Schema has the same texts as `description`, so that an editor shows them.
"""

from __future__ import annotations

import ast
import inspect
import sys
from functools import cache
from typing import Any

import msgspec

from assay.records.schemas import json_schema


@cache
def field_descriptions(kind: type) -> dict[str, str]:
    """The docstring under each field of a record, by the field's name in JSON.

    >>> from assay.records.evidence import Tally
    >>> field_descriptions(Tally)
    {'passed': 'How many passed.', 'total': 'How many there are.'}
    """
    texts: dict[str, str] = {}
    for part in reversed(kind.__mro__):
        if part.__module__.startswith("assay."):
            texts |= _of_class(part)
    fields = msgspec.structs.fields(kind)
    return {field.encode_name: texts[field.name] for field in fields if field.name in texts}


def _of_class(kind: type) -> dict[str, str]:
    tree = _classes(kind.__module__)[kind.__qualname__]
    return {
        declared.target.id: " ".join(text.value.value.split())
        for declared, text in zip(tree.body, tree.body[1:], strict=False)
        if isinstance(declared, ast.AnnAssign)
        and isinstance(declared.target, ast.Name)
        and isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
        and isinstance(text.value.value, str)
    }


@cache
def _classes(module: str) -> dict[str, ast.ClassDef]:
    """The classes of a module by their names."""
    tree = ast.parse(inspect.getsource(sys.modules[module]))
    return {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}


def struct_kinds(kind: type) -> dict[str, type]:
    """A record and every record nested in it, by class name."""
    kinds: dict[str, type] = {}

    def walk(info: Any) -> None:
        if isinstance(info, msgspec.inspect.StructType):
            if info.cls.__name__ not in kinds:
                kinds[info.cls.__name__] = info.cls
                for field in info.fields:
                    walk(field.type)
            return
        for name in ("types", "item_type", "item_types", "value_type", "type"):
            inner = getattr(info, name, None)
            for part in inner if isinstance(inner, tuple) else (inner,):
                if isinstance(part, msgspec.inspect.Type):
                    walk(part)

    walk(msgspec.inspect.type_info(kind))
    return kinds


@cache
def described_schema(kind: type) -> dict[str, Any]:
    """The JSON Schema of a record, with the description of every field."""
    schema = json_schema(kind)
    kinds = struct_kinds(kind)
    definitions = {
        name: _described(part, kinds.get(name)) for name, part in schema.get("$defs", {}).items()
    }
    whole = _described(schema, kind)
    return {**whole, "$defs": definitions} if definitions else whole


def _described(schema: dict[str, Any], kind: type | None) -> dict[str, Any]:
    if kind is None or "properties" not in schema:
        return schema
    texts = field_descriptions(kind)
    described = {
        name: {**field, **({"description": texts[name]} if name in texts else {})}
        for name, field in schema["properties"].items()
    }
    whole = {**schema, "properties": described}
    if "description" in schema:
        whole["description"] = " ".join(schema["description"].split())
    return whole
