"""What the syntax tree of a module says without running it: its modules, its handlers, and the code that its exported object needs.

This runs in the worker, because a parser is code that reads what strangers wrote. Blanking keeps every line where it is, so that an error of the
engine names the line of the file. What is blanked begins with `;`: a line that ended without one must not join with the next.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from assay.flowmcp.reading.asking import asked
from assay.flowmcp.reading.tree import (
    FUNCTIONS,
    MAX_NAME,
    NoModule,
    cursor,
    first_error,
    is_inside_function,
    name_of,
    parser,
    place,
    refuse_script_comments,
    string,
    text,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tree_sitter import Node

_QUERY = """
(import_statement source: (string)) @import
(export_statement source: (string)) @reexport
(call_expression function: (import)) @dynamic
((identifier) @require (#match? @require "^require$|\\\\\\\\"))
((shorthand_property_identifier) @require (#eq? @require "require"))
((property_identifier) @builtin (#eq? @builtin "getBuiltinModule"))
(return_statement) @return
(await_expression) @await
(for_in_statement "await") @await
(meta_property) @meta
((number) @number (#match? @number "[0-9a-fA-F_]{14}"))
"""
_NAMES = "[(identifier) (shorthand_property_identifier)] @name"
_ACTS = frozenset(("call_expression", "new_expression", "assignment_expression", "augmented_assignment_expression", "update_expression", "class_body"))
_VALUES = frozenset(("string", "number", "true", "false", "null", "undefined", "regex"))


class _Statement(NamedTuple):
    """One statement of the top level."""

    start: int
    end: int
    strip: int
    """Where the code begins after `export` or `export default`; equal to `start` where nothing is to be stripped."""
    is_default: bool
    declares: frozenset[str]
    is_declaration: bool
    is_inert: bool
    """It only gives a name to a function or to a literal: evaluating it does nothing."""
    node: Node


class Parsed:
    """A parsed module: what it exports, asks for, and needs."""

    def __init__(self, source: bytes) -> None:
        self.source = source
        tree = parser().parse(source)
        root = tree.root_node
        if root.has_error:
            raise first_error(root)
        self.exports: dict[str, str] = {}
        self.passed_on: dict[str, str] = {}
        """Names that are exported from another module, with its specifier; `*` for all of them."""
        self.imported: dict[str, str] = {}
        self.has_default = False
        self._statements: list[_Statement] = []
        self._blank: list[tuple[int, int]] = []
        for node in root.named_children:
            self._take(node)
        found = cursor(_QUERY).captures(root)
        for node in found.get("return", []):
            if not is_inside_function(node):
                raise NoModule(*place(node), "`return` stands outside a function.")
        refuse_script_comments(root, source)
        self.asked = tuple(sorted(asked(found), key=lambda one: (one.line or 0, one.name)))
        self._waits = [node for node in found.get("await", []) if not is_inside_function(node)]
        self._dynamic = sorted(found.get("dynamic", []), key=lambda node: node.start_byte)
        self.stand_in = next(name for number in range(10**5) if (name := f"_{number:05}").encode() not in source)
        """A name the module does not have. It stands for `import` where the module imports while it runs, so that asking for it is seen."""
        self._numbers = sorted(found.get("number", []), key=lambda node: -node.start_byte)
        """From the last to the first, because writing one anew moves what follows."""
        self._metas = [node for node in found.get("meta", []) if text(node) == "import.meta"]
        self.handlers = self._handlers()

    def target(self) -> str | None:
        """The name exported as the schema: `main`, or `schema` where there is no `main`."""
        return next((name for name in ("main", "schema") if name in self.exports or name in self.passed_on), None)

    def program(self, target: str, *, whole: bool) -> bytes:
        """The code to evaluate: all of it but imports and handlers, or only what the target needs."""
        kept = {statement.start for statement in self._kept(target, whole=whole)}
        code = bytearray(self.source)
        for start, end in self._blank:
            _blank_out(code, start, end)
        for statement in self._statements:
            if statement.start not in kept:
                _blank_out(code, statement.start, statement.end)
            elif statement.strip > statement.start:
                _blank_out(code, statement.start, statement.strip)
                if statement.is_default:  # an expression, not a block: its effects on the schema still happen
                    code[statement.start : statement.start + 3] = b";0,"
        for start in (node.start_byte for node in self._dynamic):
            if code[start : start + 6] == b"import":
                code[start : start + 6] = self.stand_in.encode()
        for node in self._numbers:
            exact = _nearest(text(node))
            if exact is not None and bytes(code[node.start_byte : node.end_byte]) == node.text:
                code[node.start_byte : node.end_byte] = exact
        return bytes(code)

    def cannot_run(self, target: str) -> tuple[int, str] | None:
        """What the code that the target needs asks for and never gets, with its line."""
        for one in self._statements:
            # Handlers are never run. Where making them runs code that can reach the schema, what was read would not be what is exported.
            if self._holds_handlers(one, target) and _acts(one.node) and _mentions(one.node) & self._touching(target):
                return place(one.node)[0], "code that makes its handlers and can change it"
        kept = self._kept(target, whole=False) if self._waits or self._metas else []
        for nodes, what in ((self._waits, "`await` at the top level"), (self._metas, "`import.meta`")):
            for node in nodes:
                if any(statement.start <= node.start_byte < statement.end for statement in kept):
                    return place(node)[0], what
        return None

    def first_line(self, name: str, target: str) -> int | None:
        """The first line that mentions a name in the code that the target needs. The engine does not know where a global name was read."""
        kept = self._kept(target, whole=False)
        if name == "import()":
            return next((place(node)[0] for node in self._dynamic if any(one.start <= node.start_byte < one.end for one in kept)), None)
        for one in kept:
            for node in sorted(cursor(_NAMES).captures(one.node).get("name", []), key=lambda found: found.start_byte):
                if text(node) == name:
                    return place(node)[0]
        return None

    def _take(self, node: Node) -> None:
        kind = node.type
        if kind in ("comment", "hash_bang_line"):
            if kind == "hash_bang_line":
                self._blank.append((node.start_byte, node.end_byte))
        elif kind == "import_statement":
            self._blank.append((node.start_byte, node.end_byte))
            specifier = string(node.child_by_field_name("source"))
            for clause in node.named_children:
                if clause.type == "import_clause":
                    self.imported.update(dict.fromkeys(_bound(clause), specifier))
        elif kind == "export_statement":
            self._take_export(node)
        else:
            self._statements.append(_statement(node, node.start_byte, node))

    def _take_export(self, node: Node) -> None:
        source = node.child_by_field_name("source")
        clause = next((child for child in node.named_children if child.type in ("export_clause", "namespace_export")), None)
        if source is not None:
            names = ["*"] if clause is None else [public for _, public in _specifiers(clause)]
            self.passed_on.update(dict.fromkeys(names, string(source)))
        elif clause is not None:
            self.exports.update({public: local for local, public in _specifiers(clause)})
        if source is not None or clause is not None:
            self._blank.append((node.start_byte, node.end_byte))
            return
        is_default = any(child.type == "default" for child in node.children)
        self.has_default = self.has_default or is_default
        inner = node.child_by_field_name("declaration") or node.child_by_field_name("value")
        if inner is None:
            raise NoModule(*place(node), "this `export` exports nothing that can be read.")
        statement = _statement(node, inner.start_byte, inner)
        if is_default and not statement.declares:
            statement = statement._replace(is_default=True, is_declaration=False, is_inert=False)
        elif not is_default:
            self.exports.update({name: name for name in statement.declares})
        self._statements.append(statement)

    def _kept(self, target: str, *, whole: bool) -> list[_Statement]:
        candidates = [one for one in self._statements if not self._holds_handlers(one, target)]
        if whole:
            return candidates
        mentions = {one.start: _mentions(one.node) for one in candidates}
        needed = {target}
        kept: set[int] = set()
        grew = True
        while grew:
            grew = False
            reach = self._reach(candidates, mentions, needed)
            for one in candidates:
                # A statement that declares nothing may change anything, also what every object inherits. A declaration that runs code may change
                # what it mentions. Leaving either out would describe an object that no engine ever exports.
                acts = not one.is_inert and (not one.is_declaration or bool(mentions[one.start] & reach))
                if one.start not in kept and (acts or one.declares & needed):
                    kept.add(one.start)
                    needed |= mentions[one.start]
                    grew = True
        return [one for one in candidates if one.start in kept]

    def _holds_handlers(self, one: _Statement, target: str) -> bool:
        return self.exports.get("handlers") in one.declares and target not in one.declares

    def _touching(self, target: str) -> set[str]:
        return {target} | self._reach(self._statements, {one.start: _mentions(one.node) for one in self._statements}, {target})

    def _reach(self, candidates: list[_Statement], mentions: dict[int, frozenset[str]], needed: set[str]) -> set[str]:
        """Names through which a needed value can be changed: the value's own, and those of code that mentions one of these."""
        reach = {name for one in candidates if not one.is_inert for name in one.declares & needed}
        grew = True
        while grew:
            more = {name for one in candidates if mentions[one.start] & reach for name in one.declares} - reach
            reach |= more
            grew = bool(more)
        return reach

    def _handlers(self) -> tuple[str, ...]:
        local = self.exports.get("handlers")
        if local is None:
            return ()
        return tuple(dict.fromkeys(_keys_of(_find_value(local, [one.node for one in self._statements]), self._statements)))


# --- statements ----------------------------------------------------------------------------------------------------------------------------


def _statement(outer: Node, start: int, inner: Node) -> _Statement:
    kind = inner.type
    if kind in ("lexical_declaration", "variable_declaration"):
        declarators = [child for child in inner.named_children if child.type == "variable_declarator"]
        names = frozenset(name for one in declarators for name in _pattern(one.child_by_field_name("name")))
        is_inert = all(_does_nothing(one) for one in declarators)
        return _Statement(outer.start_byte, outer.end_byte, start, False, names, True, is_inert, inner)
    name = inner.child_by_field_name("name") if kind in FUNCTIONS or kind == "class_declaration" else None
    declares = frozenset((text(name),)) if name is not None else frozenset[str]()
    is_inert = bool(declares) and kind != "class_declaration"  # a class may have static parts that run
    return _Statement(outer.start_byte, outer.end_byte, start, False, declares, bool(declares), is_inert, inner)


def _does_nothing(declarator: Node) -> bool:
    name, value = declarator.child_by_field_name("name"), declarator.child_by_field_name("value")
    return name is not None and name.type == "identifier" and (value is None or value.type in FUNCTIONS or value.type in _VALUES)


def _pattern(node: Node | None) -> Iterator[str]:
    """The names that a binding pattern binds; not those its default values use."""
    if node is None:
        return
    if node.type in ("identifier", "shorthand_property_identifier_pattern"):
        yield text(node)
    elif node.type in ("assignment_pattern", "object_assignment_pattern"):
        yield from _pattern(node.child_by_field_name("left"))
    elif node.type == "pair_pattern":
        yield from _pattern(node.child_by_field_name("value"))
    else:
        for child in node.named_children:
            yield from _pattern(child)


def _bound(clause: Node) -> Iterator[str]:
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


def _specifiers(clause: Node) -> list[tuple[str, str]]:
    if clause.type == "namespace_export":
        return [("*", name_of(child)) for child in clause.named_children]
    pairs = []
    for one in clause.named_children:
        name = one.child_by_field_name("name")
        if name is not None:
            pairs.append((name_of(name), name_of(one.child_by_field_name("alias") or name)))
    return pairs


def _acts(node: Node) -> bool:
    """Whether code outside functions calls, makes or assigns something."""
    open_nodes = [node]
    while open_nodes:
        one = open_nodes.pop()
        if one.type in _ACTS or (one.type == "unary_expression" and text(one).startswith("delete")):
            return True
        if one.type not in FUNCTIONS:
            open_nodes.extend(one.named_children)
    return False


def _mentions(node: Node) -> frozenset[str]:
    return frozenset(text(one) for one in cursor(_NAMES).captures(node).get("name", []))


def _nearest(literal: str) -> bytes | None:
    """A long number as the double next to it. The engine rounds many integers beyond 2**53 to the wrong side; None where it is left to the engine."""
    digits = literal.replace("_", "").lower()
    if digits.endswith("n"):
        return None
    try:
        return repr(float(int(digits, 0) if digits[:2] in ("0x", "0o", "0b") else digits)).encode()
    except (OverflowError, ValueError):
        return None


def _blank_out(code: bytearray, start: int, end: int) -> None:
    code[start:end] = b";" + re.sub(rb"[^\r\n]", b" ", bytes(code[start + 1 : end]))


# --- handlers ------------------------------------------------------------------------------------------------------------------------------


def _keys_of(value: Node | None, statements: list[_Statement]) -> Iterator[str]:
    """The keys of the object that an expression is or returns. One that cannot be read from the text is listed as it is written."""
    if value is None:
        return
    if value.type == "parenthesized_expression":
        for child in value.named_children:
            yield from _keys_of(child, statements)
    elif value.type in FUNCTIONS:
        body = value.child_by_field_name("body")
        if body is not None and body.type == "statement_block":
            for returned in _returned(body):
                if returned.type == "identifier":
                    returned = _find_value(text(returned), body.named_children) or returned
                yield from _keys_of(returned, statements)
        else:
            yield from _keys_of(body, statements)
    elif value.type == "identifier":
        found = _find_value(text(value), [one.node for one in statements])
        if found is not None and found.type == "object":
            yield from _keys_of(found, statements)
        else:
            yield text(value)
    elif value.type == "object":
        for child in value.named_children:
            key = child.child_by_field_name("key") or child.child_by_field_name("name")
            if child.type != "comment":
                yield (name_of(key) if key is not None else text(child))[:MAX_NAME]
    else:
        yield text(value)[:MAX_NAME]


def _find_value(name: str, nodes: Iterable[Node]) -> Node | None:
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
        elif node.type not in FUNCTIONS and node.type.endswith(("statement", "block", "clause", "body", "case", "default")):
            open_nodes.extend(reversed(node.named_children))
