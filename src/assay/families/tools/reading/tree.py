"""Nodes of a syntax tree: text, place, first fault. `syntax` and `named` know what they mean.

The parser is an optional extra. It is loaded when it is first used, and only in the worker.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tree_sitter import Node, Parser, QueryCursor

FUNCTIONS = frozenset(
    (
        "function_declaration",
        "function_expression",
        "arrow_function",
        "method_definition",
        "generator_function",
        "generator_function_declaration",
    )
)
_PROSE = frozenset(("comment", "string_fragment", "string", "template_string", "regex_pattern"))
_MISREAD = {"call_expression": "function", "subscript_expression": "object"}
MAX_NAME = 300
"""Characters of a name that is listed as written."""
_ESCAPE = re.compile(
    r"\\(?:u\{([0-9a-fA-F]{1,6})\}|u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|([0-7]{1,3})|(\r\n|[\s\S]))"
)
_SIGNS = {
    "n": "\n",
    "t": "\t",
    "r": "\r",
    "b": "\b",
    "f": "\f",
    "v": "\v",
    "\n": "",
    "\r\n": "",
    "\r": "",
    "\u2028": "",
    "\u2029": "",
}


class NoModule(Exception):
    """The text is not a module; where and why."""

    def __init__(self, line: int, column: int, message: str) -> None:
        super().__init__(message)
        self.line = line
        self.column = column
        self.message = message


def ancestors(node: Node) -> Iterator[Node]:
    """The nodes that enclose a node, the nearest first."""
    above = node.parent
    while above is not None:
        yield above
        above = above.parent


def is_inside_function(node: Node, *, arrows: bool = True) -> bool:
    """Whether a function encloses the node; without `arrows`, one that binds `new.target`."""
    return any(
        above.type == "class_static_block"
        or (above.type in FUNCTIONS and (arrows or above.type != "arrow_function"))
        for above in ancestors(node)
    )


def is_await(node: Node) -> bool:
    """Whether this is an `await` that the parser takes for a name: before a bracket, as in
    `await (x).y`. Nothing in a module can have that name.
    """
    above = node.parent
    if (
        text(node) != "await"
        or above is None
        or above.child_by_field_name(_MISREAD.get(above.type, "none")) != node
    ):
        return False
    function = next((outer for outer in ancestors(node) if outer.type in FUNCTIONS), None)
    return function is None or any(child.type == "async" for child in function.children)


def text(node: Node | None) -> str:
    """The text of a node, escapes in a name resolved; empty for none."""
    written = (
        node.text.decode("utf-8", "replace") if node is not None and node.text is not None else ""
    )
    return (
        _ESCAPE.sub(_sign, written)
        if "\\" in written and node is not None and "identifier" in node.type
        else written
    )


def name_of(node: Node) -> str:
    """A name that may be written as a string, as a key can."""
    found = fixed(node)
    return text(node) if found is None else found


def fixed(node: Node | None, *, unknown: str | None = None) -> str | None:
    """The text that a key or an expression always is: a name, a string, a template or a sum of
    these; `unknown` for anything else, also as a part.
    """
    if node is None:
        return unknown
    if node.type in ("property_identifier", "shorthand_property_identifier_pattern"):
        return text(node)
    if node.type == "string":
        return string(node)
    if node.type in ("parenthesized_expression", "computed_property_name"):
        return fixed(node.named_child(0), unknown=unknown)
    parts: list[str | None] = []
    if node.type == "template_string":
        parts += [
            fixed(part.named_child(0), unknown=unknown)
            if part.type == "template_substitution"
            else _ESCAPE.sub(_sign, text(part))
            for part in node.named_children
        ]
    elif not is_sum(node):
        return unknown
    else:
        while node is not None and is_sum(node):  # not by recursion: a sum may have any length
            parts.insert(0, fixed(node.child_by_field_name("right"), unknown=unknown))
            node = node.child_by_field_name("left")
        parts.insert(0, fixed(node, unknown=unknown))
    known = [part for part in parts if part is not None]
    return "".join(known) if len(known) == len(parts) else None


def is_sum(node: Node) -> bool:
    """Whether it is a sum of two expressions."""
    return node.type == "binary_expression" and text(node.child_by_field_name("operator")) == "+"


def string(node: Node | None) -> str:
    """The value of a string literal. Escapes are resolved: they must not hide a module's name."""
    return _ESCAPE.sub(_sign, text(node)[1:-1])


def _sign(match: re.Match[str]) -> str:
    code = match[1] or match[2] or match[3]
    if code or match[4]:
        number = int(code, 16) if code else int(match[4], 8)
        return chr(number) if number < 0x110000 else "\ufffd"
    return _SIGNS.get(match[5], match[5])


def place(node: Node) -> tuple[int, int]:
    """Line and column, counted from 1; the column in bytes."""
    # unpacked: in tree-sitter 0.26 its attributes `row` and `column` are freed memory past 256
    row, column = node.start_point
    return row + 1, column + 1


def first_error(root: Node) -> NoModule:
    """Where the text stops being a module."""
    node = root
    while not (node.is_error or node.is_missing):
        inner = next(
            (child for child in node.children if child.has_error or child.is_missing), None
        )
        if inner is None:
            break
        node = inner
    seen = text(node).split("\n")[0][:40]
    what = (
        f"here {node.type} is missing."
        if node.is_missing
        else f"not JavaScript, at {seen!r}."
        if seen
        else "not JavaScript."
    )
    return NoModule(*place(node), what)


def refuse_script_comments(root: Node, source: bytes) -> None:
    """Raise where `<!--` or `-->` would be a comment in a script. In a module it is an expression,
    and the engine evaluates a script.
    """
    for match in re.finditer(rb"<!--|-->", source):
        node = root.descendant_for_byte_range(match.start(), match.end())
        if node is not None and node.type in _PROSE:
            continue
        line = re.split(rb"[\r\n]|\xe2\x80[\xa8\xa9]", source[: match.start()])[-1]
        if match[0] == b"<!--" or not line.strip() or b"*/" in line:
            row = source.count(b"\n", 0, match.start()) + 1
            raise NoModule(
                row, len(line) + 1, f"`{match[0].decode()}` is not a comment in a module."
            )


@cache
def parser() -> Parser:
    """The parser of JavaScript."""
    # The syntax tree is an optional extra, `flowmcp`.
    import tree_sitter
    import tree_sitter_javascript

    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_javascript.language()))


@cache
def cursor(query: str) -> QueryCursor:
    """Finds what a query asks for."""
    import tree_sitter  # an optional extra, as above

    language = parser().language
    assert language is not None
    return tree_sitter.QueryCursor(tree_sitter.Query(language, query))
