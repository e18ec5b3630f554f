"""The names of a module's handlers and the addresses in their code, from its syntax tree: they are
listed, never run.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import TYPE_CHECKING

from assay.families.tools.reading.tree import (
    FUNCTIONS,
    MAX_NAME,
    cursor,
    fixed,
    is_sum,
    name_of,
    text,
)

if TYPE_CHECKING:
    from tree_sitter import Node

_NAMES = (
    "[(identifier) (property_identifier) (shorthand_property_identifier)"
    " (shorthand_property_identifier_pattern)] @name [(import_statement) (import)] @module"
)
_SENDING = frozenset(
    [
        "fetch",
        "XMLHttpRequest",
        "WebSocket",
        "EventSource",
        "sendBeacon",
        "libraries",
        "require",
        "process",
        "eval",
        "Function",
        "constructor",
        "globalThis",
        "global",
        "window",
        "self",
        "preRequest",
        "executeRequest",
    ]
)
"""Names without which code can't send anything, nor change a request before it is sent."""
_TEXTS = "[(string) (template_string) (binary_expression)] @text"
_ADDRESS = re.compile(r"\s*(?:https?|wss?):[/\\]*[^/\\\s]", re.IGNORECASE)


def addresses_in(code: list[Node]) -> Iterator[str]:
    """Each address that code contains as a text, with `{{x}}` for what it computes. None if the
    code can't send anything: links to other sites in what it returns get no key.
    """
    named = (cursor(_NAMES).captures(node) for node in code)
    if not any("module" in one or _SENDING & set(map(text, one.get("name", ()))) for one in named):
        return
    for found in chain.from_iterable(
        cursor(_TEXTS).captures(node).get("text", ()) for node in code
    ):
        is_part = found.parent is not None and is_sum(found.parent)
        address = None if is_part else fixed(found, unknown="{{x}}")
        if address is not None and _ADDRESS.match(address):
            yield address


def keys_of(value: Node | None, statements: list[Node]) -> Iterator[str]:
    """The keys of the object that an expression is or returns; a computed key as written."""
    if value is None:
        return
    if value.type == "parenthesized_expression":
        for child in value.named_children:
            yield from keys_of(child, statements)
    elif value.type in FUNCTIONS:
        body = value.child_by_field_name("body")
        if body is not None and body.type == "statement_block":
            for returned in _returned(body):
                if returned.type == "identifier":
                    returned = find_value(text(returned), body.named_children) or returned
                yield from keys_of(returned, statements)
        else:
            yield from keys_of(body, statements)
    elif value.type == "identifier":
        found = find_value(text(value), statements)
        if found is not None and found.type == "object":
            yield from keys_of(found, statements)
        else:
            yield text(value)
    elif value.type == "object":
        for child in value.named_children:
            key = child.child_by_field_name("key") or child.child_by_field_name("name")
            if child.type != "comment":
                yield (name_of(key) if key is not None else text(child))[:MAX_NAME]
    else:
        yield text(value)[:MAX_NAME]


def find_value(name: str, nodes: Iterable[Node]) -> Node | None:
    """The value or function that one of these statements gives a name to."""
    for node in nodes:
        if node.type in FUNCTIONS and text(node.child_by_field_name("name")) == name:
            return node
        for one in node.named_children:
            if one.type == "variable_declarator" and text(one.child_by_field_name("name")) == name:
                return one.child_by_field_name("value")
    return None


def _returned(body: Node) -> Iterator[Node]:
    open_nodes = list(reversed(body.named_children))
    while open_nodes:
        node = open_nodes.pop()
        if node.type == "return_statement":
            yield from (child for child in node.named_children[:1] if child.type != "comment")
        elif node.type not in FUNCTIONS and node.type.endswith(
            ("statement", "block", "clause", "body", "case", "default")
        ):
            open_nodes.extend(reversed(node.named_children))
