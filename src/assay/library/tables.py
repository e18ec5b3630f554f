"""Every table, list, pattern and constant that can move a verdict, found by walking the modules of
each system.

Nothing is listed by hand, so nothing can be forgotten: every name that a module assigns, every
default of a function and every field of a record counts unless it is excluded below with a reason.
A changed value needs a new version. The code of each module has a digest, without comments,
docstrings and sentences: a changed rule is detected even if no golden input (`fingerprint`) reaches
it, and the author of the change states whether it moves a verdict.
"""

from __future__ import annotations

import ast
import inspect
import json
import os
import pkgutil
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import date, timedelta
from decimal import Context, Decimal
from enum import Enum
from fractions import Fraction
from functools import cache, partial
from hashlib import sha256
from importlib import import_module
from types import FunctionType, ModuleType
from typing import Any, NamedTuple

from msgspec import Struct

from assay.library.families import FAMILIES, RuleSystem

EXCLUDED = {
    "assay.scoring.metrics:MEASURES": (
        "filled when a measure is asked for; each measure is a table in its own module and has a"
        " fingerprint"
    ),
    "assay.records.contract:_processes": "the processes that run now, not a rule",
    "assay.records.contract:_started": "whether they run, not a rule",
    "assay.records.typed:_known": "what was compiled so far, not a rule",
    "assay.records.systems:_vouched": "what the shelf has read so far, not a rule",
    "assay.records.scorecard:SCORING_SYSTEM": "the version itself",
    "assay.records.grade:GRADING_SYSTEM": "the version itself",
    "assay.records.grade:ENGINE": "the versions themselves",
    "assay.tools.versions:SCORING_SYSTEM": "the version itself",
    "assay.tools.versions:GRADING_SYSTEM": "the version itself",
    "assay.tools.versions:CURRENT": "the versions themselves",
    "assay.tools.family:FAMILY": "states the versions themselves",
    "assay.exams.family:FAMILY": "states the versions themselves",
    "assay.exams.versions:SCORING_SYSTEM": "the version itself",
    "assay.exams.versions:GRADING_SYSTEM": "the version itself",
    "assay.exams.versions:CURRENT": "the versions themselves",
}
_WORDS = frozenset(
    [
        "title",
        "description",
        "holds",
        "fix",
        "why",
        "text",
        "says",
        "range",
        "absent",
        "example",
        "examples",
        "source",
        "evidence",
        "reads",
        "doc",
    ]
)
"""Fields of a rule's record that explain it to people and decide nothing."""
_PLAIN = (str, int, float, Decimal, Fraction, timedelta, date)
_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


CODE = ":code"
"""The end of the name of a digest of a module's code."""
RECORDED_WITH = (3, 11)
"""The Python version whose syntax trees were recorded. Others differ, so they don't check code."""


class ModuleValue(NamedTuple):
    """One value of a module."""

    module: str
    name: str
    value: Any

    @property
    def key(self) -> str:
        """`module:NAME`."""
        return f"{self.module}:{self.name}"


def systems() -> dict[tuple[str, str], RuleSystem]:
    """Every system, by the names of its family and itself."""
    return {(name, system.name): system for name in FAMILIES for system in FAMILIES[name].systems}


@cache
def modules() -> dict[str, tuple[str, str]]:
    """Every module of the systems, and the system it belongs to."""
    owners = {prefix: name for name, system in systems().items() for prefix in system.modules}
    owned = {}
    for prefix in owners:
        for name in (prefix, *_inside(prefix)):
            owned[name] = owners[
                max(
                    (owner for owner in owners if name == owner or name.startswith(f"{owner}.")),
                    key=len,
                )
            ]
    return owned


def _inside(package: str) -> list[str]:
    path = getattr(import_module(package), "__path__", None)
    return (
        [] if path is None else [info.name for info in pkgutil.walk_packages(path, f"{package}.")]
    )


class ModuleText(NamedTuple):
    """What the text of a module defines, and the digest of its code."""

    assigned: tuple[str, ...]
    digest: str


@cache
def _read(name: str) -> ModuleText:
    """The names that a module itself defines, without its imports, and the digest of its code."""
    tree = ast.parse(_source(name))
    assigned: dict[str, None] = {}
    for node in _statements(tree.body):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            assigned[node.name] = None
        elif isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            assigned |= dict.fromkeys(
                part.id
                for target in targets
                for part in ast.walk(target)
                if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)
            )
    return ModuleText(tuple(assigned), code_digest(tree))


def _statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a module, without those inside its functions and classes."""
    for node in body:
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            for part in (node, *getattr(node, "handlers", ())):
                for field in ("body", "orelse", "finalbody"):
                    yield from _statements(getattr(part, field, []))


def tables(module: str) -> Iterator[ModuleValue]:
    """The current values of one module."""
    held: ModuleType = import_module(module)
    for name in _read(module).assigned:
        if f"{module}:{name}" in EXCLUDED or not hasattr(held, name) or name.startswith("__"):
            continue
        value = getattr(held, name)
        if isinstance(value, type):
            yield from (
                ModuleValue(module, f"{name}.{part}", inner)
                for part, inner in _class_values(value)
                if f"{module}:{name}.{part}" not in EXCLUDED
            )
        elif isinstance(value, FunctionType) or hasattr(value, "__wrapped__"):
            defaults = _defaults(value)
            if defaults:
                yield ModuleValue(module, f"{name}()", defaults)
        elif plain(value) is not _OPAQUE:
            yield ModuleValue(module, name, value)


def _class_values(kind: type) -> Iterator[tuple[str, Any]]:
    """The data of a class: members, types and defaults of fields, defaults of methods, literals."""
    if issubclass(kind, Enum):
        yield "members", {member.name: member.value for member in kind}
        return
    if issubclass(kind, Struct) and kind.__annotations__:
        yield (
            "fields",
            {**kind.__annotations__, "": [plain(default) for default in kind.__struct_defaults__]},
        )
    elif getattr(kind, "_field_defaults", None):
        yield "fields", dict(kind._field_defaults)  # type: ignore[attr-defined]
    for name, value in vars(kind).items():
        if isinstance(value, FunctionType | staticmethod | classmethod):
            defaults = _defaults(getattr(value, "__func__", value))
            if (defaults and not name.startswith("__")) or (defaults and name == "__init__"):
                yield f"{name}()", defaults
        elif (
            not name.startswith("_")
            and not isinstance(value, type)
            and not callable(value)
            and type(value).__name__ in _LITERAL
        ):
            yield name, value


_LITERAL = (
    "int",
    "str",
    "float",
    "bool",
    "tuple",
    "list",
    "dict",
    "set",
    "frozenset",
    "Decimal",
    "Fraction",
    "Pattern",
)


def _defaults(function: Any) -> list[Any]:
    function = inspect.unwrap(function)
    defaults = [
        *(getattr(function, "__defaults__", None) or ()),
        *(getattr(function, "__kwdefaults__", None) or {}).items(),
    ]
    return [
        plain(value)
        for value in defaults
        if value is not None
        and not (isinstance(value, tuple) and len(value) == 2 and value[1] is None)
    ]


_OPAQUE = ["opaque"]


def plain(value: Any, depth: int = 0) -> Any:
    """A value as JSON; functions, encoders and the like are opaque, and only the digest of the code
    covers them.
    """
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, Enum):
        return [value.name, plain(value.value, depth + 1)]
    if isinstance(value, _PLAIN):
        # the install path isn't part of a rule
        return f"{type(value).__name__}:{value}".replace(_PACKAGE, "assay")
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, type):
        return f"type:{value.__name__}"
    if isinstance(value, Context):
        return [value.prec, value.rounding]
    if isinstance(value, re.Pattern):
        return [
            value.pattern if isinstance(value.pattern, str) else value.pattern.hex(),
            value.flags,
        ]
    if depth > 12:
        return _OPAQUE
    if isinstance(value, Mapping):
        return [[plain(key, depth + 1), plain(inner, depth + 1)] for key, inner in value.items()]
    if isinstance(value, set | frozenset):
        return sorted((plain(inner, depth + 1) for inner in value), key=_digest)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return [
            plain(inner, depth + 1)
            for name, inner in zip(value._fields, value, strict=True)
            if name not in _WORDS
        ]
    if isinstance(value, list | tuple):
        return [plain(inner, depth + 1) for inner in value]
    if isinstance(value, partial):
        return [plain(value.args, depth + 1), plain(value.keywords, depth + 1)]
    if getattr(type(value), "__module__", "") == "typing" or type(value).__name__ in (
        "UnionType",
        "GenericAlias",
    ):
        return repr(value)
    if not callable(value) or type(value).__module__.startswith("assay."):
        fields = _fields(value)
        if fields:
            return [
                type(value).__name__,
                *([name, plain(inner, depth + 1)] for name, inner in fields if name not in _WORDS),
            ]
    return _OPAQUE


def _fields(value: Any) -> list[tuple[str, Any]]:
    if not type(value).__module__.startswith("assay."):
        return []
    if isinstance(value, Struct):
        return [(name, getattr(value, name)) for name in value.__struct_fields__]
    names: Iterable[str] = (
        vars(value) if hasattr(value, "__dict__") else getattr(type(value), "__slots__", ())
    )
    return [(name, getattr(value, name)) for name in names if hasattr(value, name)]


def _digest(tree: Any) -> str:
    return sha256(json.dumps(tree, default=repr).encode()).hexdigest()[:16]


def of_module(module: str) -> dict[str, str]:
    """The digest of each current value of a module, by `module:NAME`, and that of its code."""
    digests = {table.key: _digest(plain(table.value)) for table in tables(module)}
    return (
        digests | {f"{module}{CODE}": _read(module).digest}
        if sys.version_info[:2] == RECORDED_WITH
        else digests
    )


def code_digest(tree: ast.Module) -> str:
    """The digest of a module's syntax tree without comments, docstrings, and sentences that people
    read.
    """
    parts: list[str] = []
    _shape(tree, parts.append)
    return sha256("".join(parts).encode()).hexdigest()[:16]


def _shape(node: Any, write: Callable[[str], None]) -> None:
    """Write a syntax tree as text: the name of each node, and its fields."""
    if isinstance(node, ast.Constant):
        is_sentence = isinstance(node.value, str) and " " in node.value
        write(repr(" " if is_sentence else repr(node.value)))
    elif isinstance(node, ast.AST):
        write(f"['{type(node).__name__}'")
        for name in node._fields:
            write(", ")
            _shape(getattr(node, name), write)
        write("]")
    elif isinstance(node, list):
        start = "["
        for part in node:
            if not _is_docstring(part):
                write(start)
                _shape(part, write)
                start = ", "
        write("]" if start == ", " else "[]")
    else:
        write(repr(node))


def _is_docstring(node: Any) -> bool:
    """Whether this is a string as a statement."""
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


@cache
def _source(module: str) -> str:
    with open(str(import_module(module).__file__), encoding="utf-8") as stream:
        return stream.read()


def of_system(family: str, system: str) -> dict[str, str]:
    """The digest of every value of one system, by name."""
    digests: dict[str, str] = {}
    for module, owner in modules().items():
        if owner == (family, system):
            digests |= of_module(module)
    data = systems()[family, system].data
    folder = os.path.join(_PACKAGE, *data.split("/"))
    for name in sorted(os.listdir(folder)) if data else ():
        with open(os.path.join(folder, name), "rb") as stream:
            text = stream.read()
        if name != "rules.json":  # its rules are values of the modules that read it
            value = json.loads(text) if name.endswith(".json") else text.decode()
            digests[f"{data}/{name}"] = _digest(value)
    return digests
