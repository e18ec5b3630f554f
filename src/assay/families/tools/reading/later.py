"""Whether handlers change the schema when somebody calls them: what was read would then not be what
its users see.

Handlers are never run, so this is read from their text: a write to a name that holds part of the
schema, or to another name for it. Names are followed through declarations, loops and callbacks, not
through calls of the module's own functions with parts of the schema.
"""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING

from assay.families.tools.reading.effects import members, written
from assay.families.tools.reading.tree import FUNCTIONS, ancestors, cursor, text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tree_sitter import Node

_MUTATORS = frozenset(
    ("push", "unshift", "splice", "pop", "shift", "sort", "reverse", "fill", "copyWithin")
)
_SETTERS = frozenset(
    ("assign", "defineProperty", "defineProperties", "setPrototypeOf", "set", "deleteProperty")
)
_COPIES = frozenset(("parse", "stringify", "structuredClone", "fromEntries"))
_ALIASES = """
(variable_declarator name: (_) @name value: (_) @value)
(for_in_statement left: (_) @name right: (_) @value)
"""
_CALLS = "(call_expression) @call"
_BOUND = "[(identifier) (shorthand_property_identifier_pattern)] @name"


def changed_later(node: Node, names: set[str]) -> Node | None:
    """The first place in the node that changes what one of the names holds."""
    known = names | _aliases(node, names)
    for place in written(node):
        if place.type == "identifier" and text(place) in names and not _is_local(place, node):
            return place
        for place_written in members(place):
            root = _root(place_written, through_calls=True)
            if (
                root is not None
                and text(root) in known
                and (text(root) not in names or not _is_local(root, node))
            ):
                return place_written
    for call in cursor(_CALLS).captures(node).get("call", []):
        method, owner = _method(call)
        target = owner if method in _MUTATORS else _first(call) if method in _SETTERS else None
        root = _root(target, through_calls=False)
        if (
            root is not None
            and text(root) in known
            and (text(root) not in names or not _is_local(root, node))
        ):
            return call
    return None


def _aliases(node: Node, names: set[str]) -> set[str]:
    """Other names for parts of what the names hold."""
    aliases: set[str] = set()
    for _, match in cursor(_ALIASES).matches(node):
        root = _root(match["value"][0], through_calls=True)
        if root is not None and text(root) in names and not _is_local(root, node):
            aliases |= set(_bound(match["name"][0]))
    for call in cursor(_CALLS).captures(node).get("call", []):
        root = _root(call, through_calls=True)
        arguments = call.child_by_field_name("arguments")
        if (
            root is not None
            and arguments is not None
            and text(root) in names
            and not _is_local(root, node)
        ):
            for given in arguments.named_children:
                aliases |= set(_parameters(given)) if given.type in FUNCTIONS else set()
    return aliases - names


def _root(node: Node | None, *, through_calls: bool) -> Node | None:
    """The name at which a chain of properties begins; through calls too, where what they return is
    part of what they were given.
    """
    while node is not None and node.type != "identifier":
        if node.type in ("member_expression", "subscript_expression"):
            node = node.child_by_field_name("object")
        elif node.type == "parenthesized_expression":
            node = next(iter(node.named_children), None)
        elif node.type == "call_expression" and through_calls:
            method, owner = _method(node)
            is_built_in = owner is not None and text(owner) in ("Object", "Reflect", "Array")
            node = (
                None
                if method in _COPIES
                else _first(node)
                if owner is None or is_built_in
                else owner
            )
        else:
            return None
    return node


def _method(call: Node) -> tuple[str, Node | None]:
    function = call.child_by_field_name("function")
    if function is not None and function.type == "member_expression":
        return text(function.child_by_field_name("property")), function.child_by_field_name(
            "object"
        )
    return text(function), None


def _first(call: Node) -> Node | None:
    arguments = call.child_by_field_name("arguments")
    return next(iter(arguments.named_children), None) if arguments is not None else None


def _bound(pattern: Node) -> Iterator[str]:
    yield from (text(name) for name in cursor(_BOUND).captures(pattern).get("name", []))


def _parameters(function: Node) -> Iterator[str]:
    for field in ("parameters", "parameter"):
        if (parameter := function.child_by_field_name(field)) is not None:
            yield from _bound(parameter)


def _is_local(name: Node, top: Node) -> bool:
    """Whether a scope between the name and the top declares it again."""
    wanted = text(name)
    for above in takewhile(lambda above: above != top, ancestors(name)):
        if above.type in FUNCTIONS and wanted in _parameters(above):
            return True
        if above.type == "statement_block":
            for declaration in above.named_children:
                for inner in (
                    declaration.named_children
                    if declaration.type in ("lexical_declaration", "variable_declaration")
                    else ()
                ):
                    declared = inner.child_by_field_name("name")
                    if declared is not None and wanted in _bound(declared):
                        return True
    return False
