"""What code of a module does besides giving a value: code that runs while the value is made, and
writes to what others can see.

Both are read from the syntax tree, so they are guesses on the safe side: code that is found
harmless here is harmless. What follows for a schema: `syntax`.
"""

from __future__ import annotations

import re
from itertools import islice, takewhile
from typing import TYPE_CHECKING

from assay.families.tools.reading.tree import FUNCTIONS, ancestors, cursor, text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tree_sitter import Node

_QUIET = frozenset(
    (
        "lexical_declaration",
        "variable_declaration",
        "variable_declarator",
        "identifier",
        "property_identifier",
        "shorthand_property_identifier",
        "object",
        "pair",
        "array",
        "parenthesized_expression",
        "comment",
        "string",
        "string_fragment",
        "escape_sequence",
        "template_string",
        "number",
        "true",
        "false",
        "null",
        "undefined",
        "regex",
        "regex_pattern",
        "regex_flags",
    )
)
"""Kinds of nodes that only make a value. Reading a property doesn't count: a getter is code."""
_CALLS = frozenset(("call_expression", "new_expression", "class_body", "await_expression"))
_PLACES = frozenset(("member_expression", "subscript_expression"))
_WRITES = """
(assignment_expression left: (_) @place)
(augmented_assignment_expression left: (_) @place)
(update_expression argument: (_) @place)
(for_in_statement left: (_) @place)
(unary_expression operator: "delete" argument: (_) @place)
"""
_COMPUTED = "(subscript_expression index: (_) @index)"
_REACHES_OUT = re.compile(
    rb"\\[ux]|\b(?:assign|definePropert(?:y|ies)|setPrototypeOf|getPrototypeOf|__proto__|__define[GS]etter__|prototype|constructor|Reflect|globalThis)\b"
)
"""Words without which no code finds a built-in to change, or changes it without an assignment; and
escapes, which can spell them.
"""
_PROBES = """
(try_statement) @try
[(identifier) (shorthand_property_identifier)] @name
(binary_expression operator: "in") @in
(binary_expression operator: "**") @power
(augmented_assignment_expression operator: "**=") @power
(regex_pattern) @pattern
"async" @async
"using" @using
"""
_GROUP = re.compile(r"\(\?(?:<(?![=!])([^>]*)>|[a-z-]+:)")
"""A named group of a pattern, or a group with flags."""
_LITERAL = re.compile(r"\\.|\[(?:\\.|[^\]\\])*\]", re.DOTALL)
"""What begins no group: an escaped character, or a class of characters."""
_UNLIKE = frozenset(("globalThis", "Date", "Promise", "Reflect", "RegExp"))
_ERRORS = frozenset(
    (
        "Error",
        "AggregateError",
        "EvalError",
        "RangeError",
        "ReferenceError",
        "SyntaxError",
        "TypeError",
        "URIError",
    )
)


def outside_functions(node: Node) -> Iterator[Node]:
    """The node and all below it that run when it is evaluated; bodies of functions wait until
    somebody calls them.
    """
    open_nodes = [node]
    while open_nodes:
        child = open_nodes.pop()
        yield child
        if child.type not in FUNCTIONS:
            open_nodes.extend(child.named_children)
        elif (
            name := child.child_by_field_name("name")
        ) is not None and name.type == "computed_property_name":
            open_nodes.append(name)


def acts(node: Node) -> bool:
    """Whether evaluating the node can run other code: anything but literals, names and
    functions.
    """
    return any(
        inner.type not in _QUIET and inner.type not in FUNCTIONS
        for inner in outside_functions(node)
    )


def calls(node: Node) -> bool:
    """Whether evaluating the node calls something, which may then call every function in it."""
    return any(inner.type in _CALLS for inner in outside_functions(node))


def writes(node: Node) -> bool:
    """Whether code in the node, functions included, could change an object that it did not make:
    also one that it mentions by no name.
    """
    if _REACHES_OUT.search(node.text or b""):
        return True
    if any(
        index.type not in ("string", "number")
        for index in cursor(_COMPUTED).captures(node).get("index", [])
    ):
        return True
    return any(True for place in written(node) for _ in members(place))


def writes_now(node: Node) -> bool:
    """The same for the code that runs when the node is evaluated."""
    return any(
        inner.type not in FUNCTIONS and inner.type not in _QUIET and writes(inner)
        for inner in outside_functions(node)
    )


def written(node: Node) -> list[Node]:
    """What code in the node assigns to, counts up or deletes, functions included."""
    return cursor(_WRITES).captures(node).get("place", [])


def members(place: Node) -> Iterator[Node]:
    """The properties that a write changes; a destructuring pattern can have several."""
    open_nodes = [place]
    while open_nodes:
        inner = open_nodes.pop()
        if inner.type in _PLACES:
            yield inner
        else:
            open_nodes.extend(inner.named_children)


def probes(nodes: list[Node]) -> Iterator[tuple[Node, str]]:
    """What of the code answers differently from engine to engine, and is not a value to be
    forbidden while it runs.

    An error must end the module: where it can be caught, or looked at without being thrown, it
    reveals the engine by its text, and by when it comes. A call of an async function catches every
    error. Functions that nothing can call are left alone.
    """
    runs = any(acts(node) for node in nodes)
    for node in nodes:
        captured = cursor(_PROBES).captures(node)
        yield from ((probe, "`try`") for probe in captured.get("try", []))
        yield from (
            (probe, "a call of an async function") for probe in captured.get("async", []) if runs
        )
        yield from ((probe, "the operator `in`") for probe in captured.get("in", []) if runs)
        yield from (
            (probe, "a pattern of Unicode properties")
            for probe in captured.get("pattern", [])
            if runs and "\\p{" in text(probe).lower()
        )
        yield from (
            (probe, "a pattern that not every engine reads")
            for probe in captured.get("pattern", [])
            if runs and _is_new(text(probe))
        )
        yield from (
            (probe, "the declaration `using`") for probe in captured.get("using", []) if runs
        )
        yield from (
            (probe, "the operator `**`")
            for probe in captured.get("power", [])
            if runs and not all(text(part).isdigit() for part in probe.named_children)
        )
        for probe in captured.get("name", []) if runs else ():
            if (
                text(probe) in _UNLIKE
                or (text(probe) == "console" and not _is_logged(probe))
                or (text(probe) in _ERRORS and not _is_thrown(probe))
            ):
                yield probe, f"`{text(probe)}`"


def _is_new(pattern: str) -> bool:
    """Whether a pattern has a group with flags, or two groups of one name."""
    names = _GROUP.findall(_LITERAL.sub(" ", pattern))
    return "" in names or len(names) > len(set(names))


def _is_logged(node: Node) -> bool:
    """Whether the name is that of `console.log(…);`, a whole statement."""
    kinds = [above.type for above in islice(ancestors(node), 3)]
    return kinds == ["member_expression", "call_expression", "expression_statement"]


def _is_thrown(node: Node) -> bool:
    inside = takewhile(lambda above: above.type not in FUNCTIONS, ancestors(node))
    return any(above.type == "throw_statement" for above in inside)
