"""A FlowMCP module, read as a literal: what it exports as its schema, which modules it asks for,
and what its handlers are called. No code of it ever runs.

`main` is made of objects, lists, texts, numbers, top-level constants and spreads of these. Anything
else in it is refused by name, and so is code next to it that could change it: code that runs while
the module is loaded, and code in functions that gets hold of one of its objects.

This runs in a worker process (`reading` is the other side), because the parser is native code that
reads what strangers wrote: what it does to repair broken syntax has no useful limit of time.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

from assay.families.tools.source import Module, split_version
from assay.sandbox.worker import serve

if TYPE_CHECKING:
    from tree_sitter import Node, Parser, QueryCursor

CPU_S = 6
"""Seconds of computing for one module. Honest modules take milliseconds; time that others use does
not count.
"""
WALL_S = 60.0
"""Seconds from handing a module over to its answer, for a machine so busy that nothing moves."""
MEMORY = 768 * 1024 * 1024
"""Bytes of address space: the syntax tree of the largest module (near 250 MB) and the interpreter
around it.
"""
MAX_DEPTH = 100
"""Nesting of the exported object. A JSON Schema inside a tool reaches 20; parsers of JSON give up
at 200.
"""
MAX_NODES = 200_000
"""Values in the exported object, each place counted: a list that contains one object a thousand
times has a thousand of it.
"""
MAX_TEXT = 8 * 1024 * 1024
"""Characters of all keys and texts of the exported object."""
MAX_NOTES = 10_000
"""Places without data that are listed. Beyond it the object is not a description of tools."""
MAX_NAME = 300
"""Characters of a name that is listed as written."""

_PLAIN = "A schema is plain data: write the value out."
_IN_NODE = "Does the file run in Node?"
_FUNCTIONS = frozenset(
    (
        "function_declaration",
        "function_expression",
        "arrow_function",
        "method_definition",
        "generator_function",
        "generator_function_declaration",
    )
)
_DECLARATIONS = ("lexical_declaration", "variable_declaration")
_WARM_UP = (
    b"export const main = { a: [1, 'x'], f() {} }\nexport const handlers = () => ({ b: {} })\n"
)


class Refused(Exception):
    """The module is not read; the code of the error, what is wrong and what to do."""

    def __init__(self, code: str, message: str, fix: str) -> None:
        super().__init__(code, message, fix)


class _NoSchema(Refused):
    """It exports something else."""


# --- the process


def main() -> None:
    """Answer requests from standard input until it ends: a module comes in, JSON goes out."""
    serve(
        lambda source: json.dumps(answer(source)).encode(),
        greeting=lambda: json.dumps("main" in answer(_WARM_UP)).encode(),
        cpu_s=CPU_S,
        memory=MEMORY,
        wall_s=WALL_S + 1,
    )


def answer(source: bytes) -> dict[str, Any]:
    """What a module exports, as JSON can express it, or why it is refused.

    >>> answer(b"const root = '/a'; export const main = { root, n: [0x10, -1] }")["main"]
    {'root': '/a', 'n': [16, -1]}
    """
    try:
        module = _Module(source)
        exported, notes = module.exported()
        return {
            "main": exported,
            "notes": notes,
            "asked": module.asked(),
            "handlers": module.handlers(),
            "addresses": module.addresses(),
        }
    except Refused as error:
        return {"refused": error.args, "is_schema": not isinstance(error, _NoSchema)}
    except RecursionError:
        return {"refused": ("FMC-004", "nests too deep to be read.", _PLAIN), "is_schema": True}


# --- what a module exports


class _Code(NamedTuple):
    """What a name has instead of a value: code, or something that only another module knows."""

    what: str
    line: int


class _Statement(NamedTuple):
    """One statement of the top level that gives names to values."""

    declares: frozenset[str]
    node: Node


class _Module:
    def __init__(self, source: bytes) -> None:
        self._root = _parser().parse(source).root_node
        if self._root.has_error:
            raise _first_error(self._root)
        for comment in _captured("(html_comment) @comment", self._root):
            shown = _text(comment)[:4]
            raise _no_module(comment, f"`{shown}` is not a comment in a module.")
        for line in _captured("(hash_bang_line) @line", self._root):
            # The parser ends this comment at a line feed only, and would hide what an engine runs.
            if re.search("[\r\u2028\u2029]", _text(line).removesuffix("\r")):
                raise _no_module(line, "the first line has no plain end.")
        for node in _captured("(return_statement) @return", self._root):
            if not any(above.type in _FUNCTIONS for above in _ancestors(node)):
                raise _no_module(node, "`return` is outside a function.")
        self._values = _Values()
        self._exports: dict[str, str] = {}
        self._passed_on: dict[str, str] = {}
        """Names that are exported from another module, with its specifier; `*` for all of them."""
        self._imported: dict[str, str] = {}
        self._has_default = False
        self._statements: list[_Statement] = []
        codes = [_exported_code(node) for node in self._root.named_children]
        for node, code in zip(self._root.named_children, codes, strict=True):
            if node.type == "export_statement":
                self._take_export(node, code)
        known = {**self._exports, **self._passed_on}
        public = next((name for name in ("main", "*", "schema") if name in known), None)
        if public is None:
            others = [
                *self._exports,
                *(f"{name} of '{at[:200]}'" for name, at in self._passed_on.items()),
            ][:20] + ["default"] * self._has_default
            only = f", only {', '.join(others)}" if others else ""
            raise _NoSchema("FMC-002", f"exports neither `main` nor `schema`{only}.", EXPORT)
        self._public, self._target = public, self._exports.get(public, public)
        for code in codes:
            if code.type in _FUNCTIONS and _names_declared(code):  # known to all statements
                self._values.declare(code, _Code("a function", _line(code)))
        for code in codes:
            self._take(code)
        for name, local in self._exports.items():
            if local not in self._values.names:
                message = f"exports `{name[:MAX_NAME]}`, and declares no `{local[:MAX_NAME]}`."
                raise _no_module(self._root, message)

    def exported(self) -> tuple[dict[str, Any], list[tuple[list[str | int], str]]]:
        """The object that is exported as the schema, and the places in it without data."""
        public, local = self._public, self._target
        origin = self._passed_on.get(public, self._imported.get(local))
        if origin is not None:
            what = "what `export *` passes on" if public == "*" else f"`{local}`, which comes"
            public = "main" if public == "*" else public
            raise _not_literal(f"its `{public}` is {what} from '{origin[:200]}'.")
        value = self._values.names[local]
        if not isinstance(value, dict):
            raise Refused(
                "FMC-002",
                f"its `{public}` is {_kind(value)}, not an object.",
                f"Export an object: export const {public} = {{ ... }}",
            )
        self._refuse_changes(local, public)
        copy = _Copy(public)
        return copy.of(value, ()), copy.notes

    def asked(self) -> list[Module]:
        """The modules that it asks for, in the order of the text."""
        return sorted(_asked(self._root), key=lambda module: (module.line or 0, module.name))

    def handlers(self) -> list[str]:
        """The names of its handlers, from their text."""
        nodes = [statement.node for statement in self._statements]
        value = _find_value(self._exports.get("handlers", "*"), nodes)
        return list(dict.fromkeys(_keys_of(value, nodes)))

    def addresses(self) -> list[str]:
        """The addresses that the code of the handlers names."""
        name = self._exports.get("handlers")
        others = [one for one in self._statements if self._target not in one.declares]
        reached = [one for one in others if name in one.declares]
        waiting = [one for one in others if name not in one.declares]
        for statement in reached:  # grows while it is read
            mentioned = {_text(node) for node in _captured(_NAMES, statement.node)}
            reached += [one for one in waiting if one.declares & mentioned]
            waiting = [one for one in waiting if not one.declares & mentioned]
        return sorted(set(_addresses_in([one.node for one in reached])))

    # --- the top level

    def _take(self, code: Node) -> None:
        kind = code.type
        if kind == "import_statement":
            self._import(code)
        elif kind in ("comment", "hash_bang_line", "empty_statement", "export_statement"):
            return
        elif kind in _DECLARATIONS:
            for declarator in _children(code):
                self._declare(declarator)
            self._statements.append(_Statement(_names_declared(code), code))
        elif kind in _FUNCTIONS:
            self._statements.append(_Statement(_names_declared(code), code))
        elif kind in ("class_declaration", "class") and _is_quiet(code):
            if _names_declared(code):
                self._values.declare(code, _Code("a class", _line(code)))
            self._statements.append(_Statement(_names_declared(code), code))
        elif code.parent is not None and code.parent.type == "export_statement":
            self._values.of(code, (), top=True)  # of `export default`
        elif kind == "expression_statement" and _children(code):
            self._values.of(_children(code)[0], (), top=True)
        else:
            raise _runs(code)

    def _declare(self, declarator: Node) -> None:
        name, value = (
            declarator.child_by_field_name("name"),
            declarator.child_by_field_name("value"),
        )
        if name is None or name.type != "identifier":
            raise _runs(declarator)
        made = _Code("undefined", _line(declarator))
        uses: set[str] = set()
        if value is not None:
            made, uses = self._values.with_uses(value)
        elif declarator.parent is not None and declarator.parent.children[0].type == "const":
            raise _no_module(declarator, f"`{_shown(declarator)}` has no value.")
        self._values.declare(declarator, made, uses)

    def _import(self, node: Node) -> None:
        specifier = _string(node.child_by_field_name("source"))
        for clause in node.named_children:
            for name in _imported_names(clause) if clause.type == "import_clause" else ():
                if name in self._imported:
                    raise _no_module(node, f"imports `{name[:MAX_NAME]}` a second time.")
                self._imported[name] = specifier
                code = _Code(f"`{name}`, which comes from '{specifier[:200]}'", _line(node))
                self._values.declare(node, code, name=name)

    def _take_export(self, node: Node, code: Node) -> None:
        if code != node:
            if any(child.type == "default" for child in node.children):
                if self._has_default:
                    raise _no_module(node, "exports `default` a second time.")
                self._has_default = True
            else:
                for name in sorted(_names_declared(code)):
                    self._export(node, name, name, self._exports)
            return
        source = node.child_by_field_name("source")
        clauses = [
            one for one in node.named_children if one.type in ("export_clause", "namespace_export")
        ]
        for local, public in _specifiers(clauses[0]) if clauses else [("*", "*")]:
            if source is None:
                self._export(node, public, local, self._exports)
            else:
                self._export(node, public, _string(source), self._passed_on)

    def _export(self, node: Node, name: str, local: str, among: dict[str, str]) -> None:
        if name != "*" and (name in self._exports or name in self._passed_on):
            raise _no_module(node, f"exports `{name[:MAX_NAME]}` a second time.")
        among[name] = local

    # --- who could change it

    def _refuse_changes(self, local: str, public: str) -> None:
        """Raise where a function gets hold of an object that the schema is made of or that is made
        of the schema: when somebody calls it, its users would see another one. To read a text or a
        number of it by its whole name, as in `main.root`, is fine.
        """
        held = self._values.connected(local)
        for node in _captured(_NAMES, self._root):
            if _text(node) not in held or not _is_inside_code(node):
                continue
            value, place = self._values.names[_text(node)], node
            while isinstance(value, dict) and (key := _key_read(place)) is not None:
                place = place.parent  # type: ignore[assignment]
                value = value.get(key)
            if isinstance(value, dict | list | _Code | None) or _is_written(place):
                raise _not_literal(
                    f"line {_line(node)}: `{_shown(place)}` gives code an object of its"
                    f" `{public}`, which it could change.",
                    "Read single values of it, such as `main.root`, or use another name for"
                    " something else.",
                )


def _exported_code(node: Node) -> Node:
    """The code of an `export` statement that has some; any other statement itself."""
    if node.type != "export_statement" or node.child_by_field_name("source") is not None:
        return node
    return node.child_by_field_name("declaration") or node.child_by_field_name("value") or node


def _names_declared(code: Node) -> frozenset[str]:
    named = _children(code) if code.type in _DECLARATIONS else [code]
    names = [one.child_by_field_name("name") for one in named]
    return frozenset(_text(name) for name in names if name is not None)


def _is_quiet(declared: Node) -> bool:
    """Whether evaluating a class runs no code: no static parts, decorators or computed names."""
    for child in declared.named_children:
        if child.type == "class_heritage":
            if [one.type for one in child.named_children] != ["identifier"]:
                return False
        elif child.type == "class_body":
            for member in child.named_children:
                name = member.child_by_field_name("name") or member.child_by_field_name("property")
                if (
                    member.type in ("class_static_block", "decorator")
                    or (name is not None and name.type == "computed_property_name")
                    or (
                        member.type == "field_definition"
                        and any(part.type in ("static", "decorator") for part in member.children)
                    )
                ):
                    return False
        elif child.type == "decorator":
            return False
    return True


def _is_inside_code(node: Node) -> bool:
    return any(above.type in _FUNCTIONS or above.type == "class_body" for above in _ancestors(node))


def _key_read(node: Node) -> str | None:
    """The key that is read of a node, where it is fixed."""
    above = node.parent
    if above is None or above.child_by_field_name("object") != node:
        return None
    return _fixed(above.child_by_field_name("property") or above.child_by_field_name("index"))


def _is_written(node: Node) -> bool:
    above = node.parent
    while above is not None and above.type == "parenthesized_expression":
        node, above = above, above.parent
    if above is None:
        return False
    return (
        above.type in ("update_expression",)
        or above.type.endswith("_pattern")
        or (
            above.type == "unary_expression"
            and _text(above.child_by_field_name("operator")) == "delete"
        )
        or (
            above.type
            in ("assignment_expression", "augmented_assignment_expression", "for_in_statement")
            and above.child_by_field_name("left") == node
        )
    )


def _imported_names(clause: Node) -> Iterator[str]:
    for child in clause.named_children:
        if child.type == "identifier":
            yield _text(child)
        elif child.type == "namespace_import":
            yield from (_text(one) for one in child.named_children if one.type == "identifier")
        elif child.type == "named_imports":
            for one in child.named_children:
                name = one.child_by_field_name("alias") or one.child_by_field_name("name")
                if name is not None:
                    yield _text(name)


def _specifiers(clause: Node) -> list[tuple[str, str]]:
    """The local and the public name of everything that a clause exports."""
    if clause.type == "namespace_export":
        return [("*", _name_of(child)) for child in clause.named_children]
    pairs = []
    for specifier in clause.named_children:
        name = specifier.child_by_field_name("name")
        if name is not None:
            pairs.append((_name_of(name), _name_of(specifier.child_by_field_name("alias") or name)))
    return pairs


# --- the value of a literal

EXPORT = "Write: export const main = { namespace: '...', tools: { ... } }"
_UNDEFINED = _Code("undefined", 0)
_KINDS = {
    "call_expression": "a call",
    "new_expression": "a call",
    "await_expression": "`await`",
    "member_expression": "a value that is looked up",
    "subscript_expression": "a value that is looked up",
    "binary_expression": "a value that is computed",
    "unary_expression": "a value that is computed",
    "ternary_expression": "a value that is computed",
    "template_string": "a text with a value that is not a constant text",
    "assignment_expression": "an assignment",
    "meta_property": "a value that is looked up",
    "spread_element": "a spread of something other than a constant",
    "identifier": "a name that no constant before it has",
    "shorthand_property_identifier": "a name that no constant before it has",
}
_NUMBER = re.compile(
    r"0[xX][0-9a-fA-F](?:_?[0-9a-fA-F])*|0[oO][0-7](?:_?[0-7])*|0[bB][01](?:_?[01])*"
    r"|(?:(?:0|[1-9](?:_?[0-9])*)(?:\.(?:[0-9](?:_?[0-9])*)?)?|\.[0-9](?:_?[0-9])*)"
    r"(?:[eE][+-]?[0-9](?:_?[0-9])*)?"
)
_MAX_DIGITS = 400


class _Values:
    """The values of top-level names, made one after the other as the module gives them."""

    def __init__(self) -> None:
        self.names: dict[str, Any] = {}
        self._uses: dict[str, set[str]] = {}
        """The names of objects that the object of a name was made of."""
        self._used: set[str] = set()
        self._made = Counter[str]()

    def declare(
        self, node: Node, value: Any, uses: Iterable[str] = (), *, name: str | None = None
    ) -> None:
        """Give a value to the name that a node declares."""
        name = name or _text(node.child_by_field_name("name"))
        if name in self.names:
            raise _no_module(node, f"declares `{name[:MAX_NAME]}` a second time.")
        self.names[name] = value
        self._uses[name] = set(uses)

    def with_uses(self, node: Node) -> tuple[Any, set[str]]:
        """The value of a literal, and the names of the objects in it."""
        self._used = set()
        return self.of(node, (), top=True), self._used

    def connected(self, name: str) -> set[str]:
        """The names of objects that share a part with that of a name."""
        links: dict[str, set[str]] = {}
        for one, uses in self._uses.items():
            for used in uses:
                links.setdefault(one, set()).add(used)
                links.setdefault(used, set()).add(one)
        seen, waiting = {name}, [name]
        while waiting:
            more = links.get(waiting.pop(), set()) - seen
            seen |= more
            waiting += more
        return seen

    def of(self, node: Node, path: tuple[str | int, ...], *, top: bool = False) -> Any:
        """The value of a literal: text, number, truth value, None, dict, list, or `_Code`."""
        if len(path) > MAX_DEPTH + 20:
            raise _too_much(f"nests more than {MAX_DEPTH} deep")
        kind = node.type
        if kind == "string":
            return self._counted(_unescaped(node, _text(node)[1:-1]))
        if kind == "object":
            return self._object(node, path)
        if kind == "array":
            return self._array(node, path)
        if kind == "number":
            return _number(node, _text(node))
        if kind in ("true", "false"):
            return kind == "true"
        if kind == "null":
            return None
        if kind == "undefined":
            return _UNDEFINED
        if kind in _FUNCTIONS:
            return _Code("a function", _line(node))
        if kind == "regex":
            return _Code("a regular expression", _line(node))
        if kind == "class" and _is_quiet(node):
            return _Code("a class", _line(node))
        if kind == "identifier":
            return self._named(node)
        if kind == "parenthesized_expression":
            inner = _children(node)
            if len(inner) == 1:
                return self.of(inner[0], (*path, ""))
        if kind == "unary_expression":
            operand = node.child_by_field_name("argument")
            sign = _text(node.child_by_field_name("operator"))
            if operand is not None and operand.type == "number" and sign in "+-":
                number = _number(operand, _text(operand))
                if not isinstance(number, _Code):
                    return -number if sign == "-" else number
        if kind == "template_string" or _is_sum(node):
            parts = self._parts(node, path)
            if parts is not None:
                return self._counted("".join(parts))
        raise _runs(node) if top else _no_literal(node)

    def _named(self, node: Node) -> Any:
        name = _text(node)
        if name not in self.names:
            raise _no_literal(node)
        value = self.names[name]
        if isinstance(value, dict | list):
            self._used.add(name)
        return value

    def _parts(self, node: Node, path: tuple[str | int, ...]) -> list[str] | None:
        """The texts that a template or a sum joins; None where one is not a text."""
        parts: list[str] = []
        if node.type == "template_string":
            pieces = node.named_children
            if sum(piece.end_byte - piece.start_byte for piece in pieces) != (
                node.end_byte - node.start_byte - 2
            ):
                return None
            for piece in pieces:
                if piece.type == "template_substitution":
                    inner = _children(piece)
                    if len(inner) != 1:
                        return None
                    value = self.of(inner[0], (*path, ""))
                else:
                    value = _unescaped(
                        piece, _text(piece).replace("\r\n", "\n").replace("\r", "\n")
                    )
                if not isinstance(value, str):
                    return None
                parts.append(value)
            return parts
        while _is_sum(node):  # not by recursion: a sum may have any length
            left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
            assert left is not None
            assert right is not None
            parts.append(self.of(right, (*path, "")))
            node = left
        parts.append(self.of(node, (*path, "")))
        return parts[::-1] if all(isinstance(part, str) for part in parts) else None

    def _object(self, node: Node, path: tuple[str | int, ...]) -> dict[str, Any]:
        made: dict[str, Any] = {}
        own: set[str] = set()
        _refuse_gaps(node)
        for child in _children(node):
            if child.type == "spread_element":
                spread = self.of(_children(child)[0], (*path, ""))
                if not isinstance(spread, dict):
                    raise _no_literal(child)
                made |= spread
                self._count(len(spread))
                continue
            if child.type == "shorthand_property_identifier":
                key, value = _text(child), self._named(child)
            elif child.type == "method_definition":
                key, value = self._key(child.child_by_field_name("name"), path), _method(child)
            else:
                named, given = child.child_by_field_name("key"), child.child_by_field_name("value")
                if child.type != "pair" or named is None or given is None:
                    raise _no_literal(child)
                key = self._key(named, path)
                if key == "__proto__" and named.type != "computed_property_name":
                    raise _not_literal(
                        f"line {_line(child)}: `__proto__` gives an object properties that are not"
                        " its own.",
                        _PLAIN,
                    )
                value = self.of(given, (*path, key))
            if key in own:
                raise _not_literal(
                    f"line {_line(child)}: the key {key[:100]!r} is there a second time.",
                    "Keep one of the two.",
                )
            own.add(key)
            made[key] = value
            self._count(1)
        return made

    def _key(self, node: Node | None, path: tuple[str | int, ...]) -> str:
        if node is not None and node.type == "computed_property_name":
            node = _children(node)[0]
            value = self.of(node, (*path, ""))
        elif node is not None and node.type == "property_identifier":
            return self._counted(_text(node))
        else:
            value = self.of(node, path) if node is not None else None
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53:
            return str(value)
        if not isinstance(value, str):
            assert node is not None
            raise _not_literal(
                f"line {_line(node)}: the key `{_shown(node)}` must be a text or a whole number.",
                _PLAIN,
            )
        return value

    def _array(self, node: Node, path: tuple[str | int, ...]) -> list[Any]:
        made: list[Any] = []
        _refuse_gaps(node)
        for child in _children(node):
            if child.type == "spread_element":
                spread = self.of(_children(child)[0], (*path, ""))
                if not isinstance(spread, list):
                    raise _no_literal(child)
                made += spread
                self._count(len(spread))
            else:
                made.append(self.of(child, (*path, len(made))))
                self._count(1)
        return made

    def _counted(self, text: str) -> str:
        self._made["text"] += len(text)
        if self._made["text"] > MAX_TEXT:
            raise _too_much(f"has more than {MAX_TEXT // 2**20} Mi characters of text")
        return text

    def _count(self, more: int) -> None:
        self._made["values"] += more
        if self._made["values"] > MAX_NODES:
            raise _too_much(f"has more than {MAX_NODES:,} values")


class _Copy:
    """A copy of the schema as plain data; where it has none, there is a note."""

    def __init__(self, public: str) -> None:
        self.notes: list[tuple[list[str | int], str]] = []
        self._public = public
        self._values = self._text = 0

    def of(self, value: Any, path: tuple[str | int, ...]) -> Any:
        if len(path) > MAX_DEPTH:
            raise _too_much(f"nests more than {MAX_DEPTH} deep")
        self._values += 1
        if isinstance(value, str):
            self._text += len(value)
        if self._values > MAX_NODES:
            raise _too_much(f"has more than {MAX_NODES:,} values")
        if self._text > MAX_TEXT:
            raise _too_much(f"has more than {MAX_TEXT // 2**20} Mi characters of text")
        if isinstance(value, list):
            return [self.of(item, (*path, index)) for index, item in enumerate(value)]
        if isinstance(value, dict):
            self._text += sum(map(len, value))
            copies = {key: self.of(item, (*path, key)) for key, item in value.items()}
            return {key: copies[key] for key, item in value.items() if not isinstance(item, _Code)}
        if isinstance(value, _Code):
            self._note(value, path)
            return None
        return value

    def _note(self, code: _Code, path: tuple[str | int, ...]) -> None:
        if code.what == "undefined":
            if not isinstance(path[-1], int):
                return  # JSON leaves such a key out, and so does everybody who reads it
        elif code.what != "a function":
            raise _not_literal(f"line {code.line}: its `{self._public}` contains {code.what}.")
        if len(self.notes) >= MAX_NOTES:
            raise _too_much(f"has more than {MAX_NOTES:,} places without data")
        self.notes.append((list(path), code.what.removeprefix("a ")))


def _children(node: Node) -> list[Node]:
    return [child for child in node.named_children if child.type != "comment"]


def _refuse_gaps(node: Node) -> None:
    """Raise for two commas in a row: the parser skips what an engine takes for a gap."""
    before = ""
    for child in node.children:
        if child.type == "comment":
            continue
        if child.type == "," and before in (",", "{", "["):
            if node.type == "object":
                raise _no_module(child, "there is nothing before this comma.")
            raise _not_literal(f"line {_line(child)}: there is an empty place in a list.")
        before = child.type


def _method(node: Node) -> _Code:
    if any(child.type in ("get", "set") for child in node.children):
        raise _not_literal(
            f"line {_line(node)}: `{_shown(node)}` is code that runs when it is read."
        )
    return _Code("a function", _line(node))


def _number(node: Node, literal: str) -> int | float | _Code:
    digits = literal.replace("_", "").lower()
    if digits.endswith("n"):
        return _Code("a number that JSON can't express", _line(node))
    if not _NUMBER.fullmatch(literal):
        raise _no_module(node, f"{_shown(node)} is not a number in a module.")
    if len(digits) > _MAX_DIGITS:
        raise _too_much(f"has a number of more than {_MAX_DIGITS} characters")
    if digits.isdigit() or digits[:2] in ("0x", "0o", "0b"):
        whole = int(digits, 10 if digits.isdigit() else 0)
        if whole < 2**53:
            return whole
        digits = str(whole)
    value = float(digits)
    if value == float("inf"):
        return _Code("a number that JSON can't express", _line(node))
    return value


def _kind(value: Any) -> str:
    if isinstance(value, _Code):
        return value.what
    if isinstance(value, bool):
        return "a boolean"
    kinds = {list: "a list", str: "a string", int: "a number", float: "a number"}
    return kinds.get(type(value), "null")


# --- refusals


def _not_literal(message: str, fix: str = _PLAIN) -> Refused:
    return Refused("FMC-005", message, fix)


def _no_literal(node: Node) -> Refused:
    what = _KINDS.get(node.type, f"{node.type.replace('_', ' ')}, which is not plain data")
    return _not_literal(f"line {_line(node)}: `{_shown(node)}` is {what}.")


def _runs(node: Node) -> Refused:
    return _not_literal(
        f"line {_line(node)}: `{_shown(node)}` runs while the module is loaded.",
        "Write the value out, or move the code into a handler.",
    )


def _too_much(what: str) -> Refused:
    return Refused("FMC-004", f"{what}.", _PLAIN)


def _no_module(node: Node, message: str) -> Refused:
    line, column = _place(node)
    return Refused("FMC-001", f"line {line}, column {column}: {message}", _IN_NODE)


def _first_error(root: Node) -> Refused:
    """Where the text stops being a module."""
    node = root
    while not (node.is_error or node.is_missing):
        inner = next(
            (child for child in node.children if child.has_error or child.is_missing), None
        )
        if inner is None:
            break
        node = inner
    seen = _text(node).split("\n")[0][:40]
    what = f"not JavaScript, at {seen!r}." if seen else "not JavaScript."
    return _no_module(node, f"here {node.type} is missing." if node.is_missing else what)


def _shown(node: Node) -> str:
    """The beginning of a piece of code, on one line and printable."""
    words = " ".join(_text(node).split())
    short = words if len(words) <= 60 else f"{words[:57]}..."
    return "".join(one if one.isprintable() else f"\\u{ord(one):04x}" for one in short)


# --- the modules that it asks for: nothing is loaded

_GLOBALS = ("globalThis", "global", "window", "self")
_NATIVE = ("_linkedBinding", "dlopen", "mainModule", "process.binding")
"""Doors of Node to code without a module's name; `binding` alone is an ordinary word."""
_OPEN = ("process", "prototype")
"""Objects of which a computed key may be such a door."""
_LOADERS = frozenset(("module", "vm", "worker_threads"))
"""Modules of Node that run a text or get any other module; a `data:` address is such a text."""
_RUNNING = ("apply", "bind", "call")
_ITSELF = "valueOf"
"""The method of any object that returns the object."""
_COMPARED = frozenset(("==", "!=", "===", "!==", "instanceof", "in"))


_ASKED = """
(import_statement source: (string)) @import
(export_statement source: (string)) @reexport
(call_expression function: (import)) @dynamic
([(identifier) (shorthand_property_identifier)] @global
  (#match? @global "^(require|eval|Function|globalThis|global)$|\\\\\\\\"))
(member_expression property: (property_identifier) @key)
(subscript_expression index: (_) @key)
(pair_pattern key: (_) @key)
(shorthand_property_identifier_pattern) @key
"""


def _asked(root: Node) -> Iterator[Module]:
    """The modules that code asks for; a computed name as written. A text that is run as code can
    ask for any module.
    """
    captured = _cursor(_ASKED).captures(root)
    for node in captured.get("import", []):
        yield _ask(_string(node.child_by_field_name("source")), "import", node)
    for node in captured.get("reexport", []):
        yield _ask(_string(node.child_by_field_name("source")), "export from", node)
    for node in captured.get("dynamic", []):
        yield _called(node, "dynamic import")
    for node in captured.get("global", []):
        yield from _by_name(node)
    for node in captured.get("key", []):
        yield from _by_key(node)


def _by_name(node: Node) -> Iterator[Module]:
    """What a global name asks for. A bare one could be called under another name; none does by
    being compared, or by the name of a property.
    """
    name, above = _text(node), node.parent
    if (
        above is None
        or _is_compared(node)
        or (
            above.type in ("variable_declarator", "import_specifier")
            and above.child_by_field_name("name") == node
        )
    ):
        return
    owned = above.child_by_field_name("object") == node
    key = above.child_by_field_name("property") or above.child_by_field_name("index")
    known = owned and _fixed(key) is not None
    if name in ("require", "eval"):
        module = _requested(node, above if owned else node)
        yield module if name == "require" else module._replace(computed=True)
    elif name == "Function":
        if not known or _fixed(key) in (*_RUNNING, _ITSELF, "constructor"):
            yield _requested(node, node)._replace(computed=True)
    elif name in ("globalThis", "global") and (not known or _fixed(key) == _ITSELF):
        yield _computed(node, "require", node)


def _by_key(node: Node) -> Iterator[Module]:
    """What a property asks for: a door of Node, or code that gets at `eval` or `Function` without
    their names. None for any other use of these words, such as `redis.eval(x)`. What is read from a
    constructor may be that constructor again, unless it is its name or the class is our own.
    """
    name, above = _fixed(node), node.parent
    if above is None:
        return
    owner = above.child_by_field_name("object")
    last = _text(owner).rpartition(".")[2]
    if name is None:
        if last in _OPEN:
            yield _computed(above, "require", node)
    elif name == "getBuiltinModule" or (
        name == "require" and (owner is None or _text(owner) in _GLOBALS or "odule" in _text(owner))
    ):  # other objects have methods of the name `require`
        yield _requested(node, above)
    elif name in _NATIVE or f"{last}.{name}" in _NATIVE:
        yield _computed(above, "require", node)
    elif name in ("eval", "Function", *_GLOBALS):
        if _text(owner) in _GLOBALS:
            yield _computed(above, "require", node)
    elif name == "constructor" and not _is_compared(above):
        use = above.parent
        read = use is not None and use.child_by_field_name("object") == above
        key = use and (use.child_by_field_name("property") or use.child_by_field_name("index"))
        ordinary = (
            _fixed(key) not in (None, _ITSELF, *_RUNNING) if _text(owner) == "this" else False
        )
        if not (read and (ordinary or _fixed(key) == "name")):
            yield _computed(above, "require", node)


def _is_compared(node: Node) -> bool:
    """Whether only the outcome of a comparison or of `typeof` is used."""
    above = node.parent
    return above is not None and (
        above.type == "unary_expression"
        or (
            above.type == "binary_expression"
            and _text(above.child_by_field_name("operator")) in _COMPARED
        )
    )


def _requested(node: Node, callee: Node) -> Module:
    """`require(x)`, `require.resolve(x)`, `process.getBuiltinModule(x)`; without a call, the
    name.
    """
    call = callee.parent
    if (
        call is not None
        and call.type == "call_expression"
        and call.child_by_field_name("function") == callee
    ):
        return _called(call, "require")
    return _computed(node, "require", node)


def _called(call: Node, source: str) -> Module:
    arguments = call.child_by_field_name("arguments")
    first = next(
        (
            argument
            for argument in (arguments.named_children if arguments else [])
            if argument.type != "comment"
        ),
        None,
    )
    if first is None:
        return _computed(call, source, call)
    name = _fixed(first)
    return _computed(first, source, call) if name is None else _ask(name, source, call)


def _computed(code: Node, source: str, node: Node) -> Module:
    return Module(_text(code)[:MAX_NAME], None, source, _place(node)[0], True, True)


def _ask(specifier: str, source: str, node: Node) -> Module:
    name, version = split_version(specifier)
    loads = name.removeprefix("node:") in _LOADERS or name.lower().startswith("data:")
    return Module(
        name[:MAX_NAME],
        version,
        source,
        _place(node)[0],
        not (specifier in (".", "..") or specifier.startswith(("./", "../"))),
        loads,
    )


# --- handlers: their names and the addresses in their code

_SENDERS = (
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


def _addresses_in(code: list[Node]) -> Iterator[str]:
    """Each address that code contains as a text, with `{{x}}` for what it computes. None if the
    code can't send anything: links to other sites in what it returns get no key.
    """
    named = (_cursor(_SENDERS).captures(node) for node in code)
    if not any("module" in one or _SENDING & set(map(_text, one.get("name", ()))) for one in named):
        return
    for found in chain.from_iterable(
        _cursor(_TEXTS).captures(node).get("text", ()) for node in code
    ):
        is_part = found.parent is not None and _is_sum(found.parent)
        address = None if is_part else _fixed(found, unknown="{{x}}")
        if address is not None and _ADDRESS.match(address):
            yield address


def _keys_of(value: Node | None, statements: list[Node]) -> Iterator[str]:
    """The keys of the object that an expression is or returns; a computed key as written."""
    if value is None:
        return
    if value.type == "parenthesized_expression":
        for child in value.named_children:
            yield from _keys_of(child, statements)
    elif value.type in _FUNCTIONS:
        body = value.child_by_field_name("body")
        if body is not None and body.type == "statement_block":
            for returned in _returned(body):
                if returned.type == "identifier":
                    returned = _find_value(_text(returned), body.named_children) or returned
                yield from _keys_of(returned, statements)
        else:
            yield from _keys_of(body, statements)
    elif value.type == "identifier":
        found = _find_value(_text(value), statements)
        if found is not None and found.type == "object":
            yield from _keys_of(found, statements)
        else:
            yield _text(value)
    elif value.type == "object":
        for child in value.named_children:
            key = child.child_by_field_name("key") or child.child_by_field_name("name")
            if child.type != "comment":
                yield (_name_of(key) if key is not None else _text(child))[:MAX_NAME]
    else:
        yield _text(value)[:MAX_NAME]


def _find_value(name: str, nodes: Iterable[Node]) -> Node | None:
    """The value or function that one of these statements gives a name to."""
    for node in nodes:
        if node.type in _FUNCTIONS and _text(node.child_by_field_name("name")) == name:
            return node
        for one in node.named_children:
            if one.type == "variable_declarator" and _text(one.child_by_field_name("name")) == name:
                return one.child_by_field_name("value")
    return None


def _returned(body: Node) -> Iterator[Node]:
    open_nodes = list(reversed(body.named_children))
    while open_nodes:
        node = open_nodes.pop()
        if node.type == "return_statement":
            yield from (child for child in node.named_children[:1] if child.type != "comment")
        elif node.type not in _FUNCTIONS and node.type.endswith(
            ("statement", "block", "clause", "body", "case", "default")
        ):
            open_nodes.extend(reversed(node.named_children))


# --- nodes of the syntax tree

_NAMES = (
    "[(identifier) (shorthand_property_identifier) (shorthand_property_identifier_pattern)] @name"
)
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


def _ancestors(node: Node) -> Iterator[Node]:
    """The nodes that enclose a node, the nearest first."""
    above = node.parent
    while above is not None:
        yield above
        above = above.parent


def _text(node: Node | None) -> str:
    """The text of a node, escapes in a name resolved; empty for none."""
    written = (
        node.text.decode("utf-8", "replace") if node is not None and node.text is not None else ""
    )
    return (
        _ESCAPE.sub(_sign, written)
        if "\\" in written and node is not None and "identifier" in node.type
        else written
    )


def _name_of(node: Node) -> str:
    """A name that may be written as a string, as a key can."""
    found = _fixed(node)
    return _text(node) if found is None else found


def _fixed(node: Node | None, *, unknown: str | None = None) -> str | None:
    """The text that a key or an expression always is: a name, a string, a template or a sum of
    these; `unknown` for anything else, also as a part.
    """
    if node is None:
        return unknown
    if node.type in ("property_identifier", "shorthand_property_identifier_pattern"):
        return _text(node)
    if node.type == "string":
        return _string(node)
    if node.type in ("parenthesized_expression", "computed_property_name"):
        return _fixed(node.named_child(0), unknown=unknown)
    parts: list[str | None] = []
    if node.type == "template_string":
        parts += [
            _fixed(part.named_child(0), unknown=unknown)
            if part.type == "template_substitution"
            else _ESCAPE.sub(_sign, _text(part))
            for part in node.named_children
        ]
    elif not _is_sum(node):
        return unknown
    else:
        while node is not None and _is_sum(node):  # not by recursion: a sum may have any length
            parts.append(_fixed(node.child_by_field_name("right"), unknown=unknown))
            node = node.child_by_field_name("left")
        parts.append(_fixed(node, unknown=unknown))
        parts.reverse()
    known = [part for part in parts if part is not None]
    return "".join(known) if len(known) == len(parts) else None


def _is_sum(node: Node) -> bool:
    """Whether it is a sum of two expressions."""
    return node.type == "binary_expression" and _text(node.child_by_field_name("operator")) == "+"


def _string(node: Node | None) -> str:
    """The value of a string literal. Escapes are resolved: they must not hide a module's name."""
    return _ESCAPE.sub(_sign, _text(node)[1:-1])


def _unescaped(node: Node, text: str) -> str:
    """A text without its escapes; raises for one that no engine reads."""
    for escape in _ESCAPE.finditer(text):
        if (
            escape[4] not in (None, "0")
            or (escape[5] or "-") in "ux89"
            or int(escape[1] or "0", 16) > 0x10FFFF
        ):
            raise _no_module(node, f"`{escape[0]}` is not an escape in a module.")
    return _ESCAPE.sub(_sign, text)


def _sign(match: re.Match[str]) -> str:
    code = match[1] or match[2] or match[3]
    if code or match[4]:
        number = int(code, 16) if code else int(match[4], 8)
        return chr(number) if number < 0x110000 else "\ufffd"
    return _SIGNS.get(match[5], match[5])


def _line(node: Node) -> int:
    return _place(node)[0]


def _place(node: Node) -> tuple[int, int]:
    """Line and column, counted from 1; the column in bytes."""
    # unpacked: in tree-sitter 0.26 its attributes `row` and `column` are freed memory past 256
    row, column = node.start_point
    return row + 1, column + 1


@cache
def _parser() -> Parser:
    """The parser of JavaScript."""
    # The syntax tree is an optional extra, `flowmcp`.
    import tree_sitter
    import tree_sitter_javascript

    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_javascript.language()))


@cache
def _cursor(query: str) -> QueryCursor:
    """Finds what a query asks for."""
    import tree_sitter  # an optional extra, as above

    language = _parser().language
    assert language is not None
    return tree_sitter.QueryCursor(tree_sitter.Query(language, query))


def _captured(query: str, node: Node) -> list[Node]:
    """The nodes that a query with one name finds, in the order of the text."""
    found = _cursor(query).captures(node)
    return sorted(chain.from_iterable(found.values()), key=lambda one: one.start_byte)
