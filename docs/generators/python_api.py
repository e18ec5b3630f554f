"""The Python API: what `import assay` offers, from signatures and docstrings."""

from __future__ import annotations

import enum
import inspect
import re
import textwrap
from typing import Any

import msgspec

import assay
from generators.markdown import block, code, page, table


def pages() -> dict[str, str]:
    """The page of the Python API."""
    functions = [name for name in assay.__all__ if inspect.isfunction(getattr(assay, name))]
    kinds = [name for name in assay.__all__ if name not in functions]
    parts = [
        (
            "What `import assay` offers. Everything else is internal and may change. The names load"
            " when they are first used. [Evaluate from Python](../how-to/python.md) is the guide."
        ),
        table(
            ("name", "what it does"),
            [
                (f"[`assay.{name}`](#assay{name.lower()})", _first(getattr(assay, name)))
                for name in (*functions, *kinds)
            ],
        ),
    ]
    for name in functions:
        parts += [
            f"## assay.{name}",
            block(_signature(name), "python"),
            *_doc(getattr(assay, name)),
        ]
    for name in kinds:
        kind = getattr(assay, name)
        parts += [f"## assay.{name}", *_doc(kind), *_members(kind)]
    return {"python.md": page("Python API", *parts)}


def _first(thing: Any) -> str:
    return (inspect.getdoc(thing) or "").split("\n\n")[0]


def _signature(name: str) -> str:
    """The signature over several lines, without the quotes of deferred types."""
    signature = inspect.signature(getattr(assay, name))
    lines, star = [], False
    for one in signature.parameters.values():
        if one.kind is inspect.Parameter.KEYWORD_ONLY and not star:
            star = True
            lines.append("    *,")
        prefix = "*" if one.kind is inspect.Parameter.VAR_POSITIONAL else ""
        star = star or bool(prefix)
        default = "" if one.default is inspect.Parameter.empty else f" = {one.default!r}"
        lines.append(f"    {prefix}{one.name}: {one.annotation}{default},")
    return "\n".join([f"assay.{name}(", *lines, f") -> {signature.return_annotation}"])


def _doc(thing: Any) -> list[str]:
    """A docstring as Markdown: its examples become code blocks."""
    parts = []
    for paragraph in (inspect.getdoc(thing) or "").split("\n\n"):
        if paragraph.startswith(">>>"):
            parts.append(block(paragraph, "pycon"))
        else:
            parts.append(" ".join(textwrap.dedent(paragraph).split()))
    return parts


def _members(kind: type) -> list[str]:
    if issubclass(kind, enum.Enum):
        rows = [(code(f"{kind.__name__}.{one.name}"), one.value) for one in kind]
        return [table(("member", "value"), rows)]
    if issubclass(kind, msgspec.Struct):
        fields = [field.encode_name for field in msgspec.structs.fields(kind)]
        return [f"Fields: {', '.join(map(code, fields))}."]
    if issubclass(kind, tuple):
        return [f"Fields: {', '.join(map(code, kind._fields))}."]
    names = list(re.findall(r"self\.(\w+) =", inspect.getsource(kind.__init__)))
    return [f"Attributes: {', '.join(map(code, names))}."]
