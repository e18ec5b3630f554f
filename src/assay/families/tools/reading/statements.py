"""The statements of a module's top level: what each declares, mentions and does."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from assay.families.tools.reading import effects
from assay.families.tools.reading.tree import FUNCTIONS, cursor, name_of, text

if TYPE_CHECKING:
    from tree_sitter import Node

NAMES = "[(identifier) (shorthand_property_identifier)] @name"
WRITES = ""
"""Is among the names that a statement mentions where it could change what it does not name: a
built-in that every object inherits from.
"""
_VALUES = frozenset(("string", "number", "true", "false", "null", "undefined", "regex"))


class TopStatement(NamedTuple):
    """One statement of the top level."""

    start: int
    end: int
    strip: int
    """Where the code begins after `export` or `export default`; equal to `start` where nothing is
    to be stripped.
    """
    is_default: bool
    declares: frozenset[str]
    is_declaration: bool
    is_inert: bool
    """It only gives a name to a function or to a literal: evaluating it does nothing."""
    node: Node


def statement_of(outer: Node, start: int, inner: Node) -> TopStatement:
    """One statement of the top level: the whole of it, where its code begins, and the code."""
    kind = inner.type
    if kind in ("lexical_declaration", "variable_declaration"):
        declarators = [
            child for child in inner.named_children if child.type == "variable_declarator"
        ]
        names = frozenset(
            name for one in declarators for name in bound_names(one.child_by_field_name("name"))
        )
        is_inert = all(_does_nothing(declarator) for declarator in declarators)
        return TopStatement(
            outer.start_byte, outer.end_byte, start, False, names, True, is_inert, inner
        )
    name = (
        inner.child_by_field_name("name")
        if kind in FUNCTIONS or kind == "class_declaration"
        else None
    )
    declares = frozenset((text(name),)) if name is not None else frozenset[str]()
    is_inert = (
        bool(declares) and kind != "class_declaration"
    )  # a class may have static parts that run
    return TopStatement(
        outer.start_byte, outer.end_byte, start, False, declares, bool(declares), is_inert, inner
    )


def _does_nothing(declarator: Node) -> bool:
    name, value = declarator.child_by_field_name("name"), declarator.child_by_field_name("value")
    return (
        name is not None
        and name.type == "identifier"
        and (value is None or value.type in FUNCTIONS or value.type in _VALUES)
    )


def bound_names(node: Node | None) -> Iterator[str]:
    """The names that a binding pattern binds; not those its default values use."""
    if node is None:
        return
    if node.type in ("identifier", "shorthand_property_identifier_pattern"):
        yield text(node)
    elif node.type in ("assignment_pattern", "object_assignment_pattern"):
        yield from bound_names(node.child_by_field_name("left"))
    elif node.type == "pair_pattern":
        yield from bound_names(node.child_by_field_name("value"))
    else:
        for child in node.named_children:
            yield from bound_names(child)


def imported_names(clause: Node) -> Iterator[str]:
    """The names that an import clause binds."""
    for child in clause.named_children:
        if child.type == "identifier":
            yield text(child)
        elif child.type == "namespace_import":
            yield from (text(one) for one in child.named_children if one.type == "identifier")
        elif child.type == "named_imports":
            for one in child.named_children:
                name = one.child_by_field_name("alias") or one.child_by_field_name("name")
                if name is not None:
                    yield text(name)


def specifiers(clause: Node) -> list[tuple[str, str]]:
    """The local and the public name of everything that a clause exports."""
    if clause.type == "namespace_export":
        return [("*", name_of(child)) for child in clause.named_children]
    pairs = []
    for specifier in clause.named_children:
        name = specifier.child_by_field_name("name")
        if name is not None:
            pairs.append((name_of(name), name_of(specifier.child_by_field_name("alias") or name)))
    return pairs


def mentions(node: Node) -> frozenset[str]:
    """Every name in the node."""
    return frozenset(text(name) for name in cursor(NAMES).captures(node).get("name", []))


def with_mentioned(
    statements: Sequence[TopStatement], others: Sequence[TopStatement]
) -> list[TopStatement]:
    """Statements and those of the `others` that they mention, themselves or through each other."""
    reached = list(statements)
    for statement in reached:  # grows while it is read
        mentioned = mentions(statement.node)
        reached += [one for one in others if one.declares & mentioned and one not in reached]
    return reached


def marks(node: Node) -> frozenset[str]:
    """What code in the node can touch: the names in it, and `WRITES`."""
    return mentions(node) | {WRITES} if effects.writes(node) else mentions(node)


def corrections(captured: dict[str, list[Node]]) -> Iterator[tuple[int, int, int, bytes]]:
    """Where the engine gives another value than others do, what to write instead: the start and the
    end of what is replaced, the start of the expression, and the new text.

    It copies no characters where a string is spread in an object. A pattern does.
    """
    for node in captured.get("number", []):
        exact = _nearest_double(text(node))
        if exact is not None:
            yield node.start_byte, node.end_byte, node.start_byte, exact
    for node in captured.get("spread", []):
        start, end = node.start_byte, node.end_byte
        yield start, start, start, b"(({...all})=>all)(("
        yield end, end, start, b")??{})"


def _nearest_double(literal: str) -> bytes | None:
    """A long number as the double next to it. The engine rounds some numbers of more than 30
    digits to the wrong side; None if it is left to the engine.
    """
    digits = literal.replace("_", "").lower()
    if digits.endswith("n"):
        return None
    try:
        return repr(float(int(digits, 0) if digits[:2] in ("0x", "0o", "0b") else digits)).encode()
    except (OverflowError, ValueError):
        return None


def blank_out(code: bytearray, start: int, end: int) -> None:
    """Blank a part of the code; every line stays where it is."""
    code[start:end] = b";" + re.sub(rb"[^\r\n]", b" ", bytes(code[start + 1 : end]))
