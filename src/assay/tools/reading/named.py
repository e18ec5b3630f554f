"""The imports and handlers of a module, from its syntax tree: nothing is loaded or run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from assay.tools.reading.tree import FUNCTIONS, MAX_NAME, name_of, place, string, text
from assay.tools.source import Module, split_version

if TYPE_CHECKING:
    from tree_sitter import Node


_GLOBALS = ("globalThis", "global", "window", "self")
_COMPARING = ("binary_expression", "unary_expression")


def asked(found: dict[str, list[Node]]) -> Iterator[Module]:
    """The modules that nodes of the query in `syntax` ask for; a computed name as written. A text
    that is run as code can ask for any module.
    """
    for node in found.get("import", []):
        yield _ask(string(node.child_by_field_name("source")), "import", node)
    for node in found.get("reexport", []):
        yield _ask(string(node.child_by_field_name("source")), "export from", node)
    for node in found.get("dynamic", []):
        yield _called(node, "dynamic import")
    for node in found.get("require", []):
        if text(node) == "require":
            yield from _required(node)
        elif text(node) == "eval" or (text(node) == "Function" and _is_called(node)):
            yield from (one._replace(computed=True) for one in _required(node))
    for node in found.get("builtin", []):
        yield from _required(node)
    for node in (*found.get("code", []), *found.get("global", [])):
        if (code := _runs_text(node)) is not None:
            yield _computed(code, "require", node)


def _runs_text(node: Node) -> Node | None:
    """Code that gets at `eval` or `Function` without their names: through the global object, or as
    the constructor of a function. None for any other use of these names, such as `x.constructor.
    name` or `redis.eval(x)`.
    """
    name, above = name_of(node), node.parent
    if above is None:
        return None
    owner, use = above.child_by_field_name("object"), above.parent
    if name == "globalThis":
        is_known = above.type == "member_expression" and owner == node
        fixed = above.child_by_field_name("index") if owner == node else None
        is_known = is_known or (fixed is not None and fixed.type == "string")
        return None if is_known or above.type in _COMPARING else node
    if name in ("eval", "Function"):
        return above if owner is not None and text(owner) in _GLOBALS else None
    if name != "constructor" or above.type in ("method_definition", "pair"):
        return None
    if owner is not None and use is not None and use.type in (*_COMPARING, "member_expression"):
        is_name = text(use.child_by_field_name("property")) not in ("apply", "bind", "call")
        return None if use.type in _COMPARING or is_name else above
    return above


def _is_called(node: Node) -> bool:
    """`Function(x)` and `new Function(x)`, which run a text, but not `f instanceof Function`."""
    above = node.parent
    return above is not None and node in (
        above.child_by_field_name("function"),
        above.child_by_field_name("constructor"),
    )


def _required(node: Node) -> Iterator[Module]:
    """`require(x)`, `require.resolve(x)`, `process.getBuiltinModule(x)`; the bare name too, which
    could be called under another name.
    """
    above = node.parent
    if above is None or (
        above.type in ("variable_declarator", "import_specifier")
        and above.child_by_field_name("name") == node
    ):
        return
    callee = above if above.type == "member_expression" else node
    call = callee.parent
    if (
        call is not None
        and call.type == "call_expression"
        and call.child_by_field_name("function") == callee
    ):
        yield _called(call, "require")
    else:
        yield _computed(node, "require", node)


def _called(call: Node, source: str) -> Module:
    arguments = call.child_by_field_name("arguments")
    first = next(
        (one for one in (arguments.named_children if arguments else []) if one.type != "comment"),
        None,
    )
    if first is None:
        return _computed(call, source, call)
    is_fixed = first.type == "string" or (
        first.type == "template_string"
        and all(one.type != "template_substitution" for one in first.named_children)
    )
    return _ask(string(first), source, call) if is_fixed else _computed(first, source, call)


def _computed(code: Node, source: str, node: Node) -> Module:
    return Module(text(code)[:MAX_NAME], None, source, place(node)[0], True, True)


def _ask(specifier: str, source: str, node: Node) -> Module:
    name, version = split_version(specifier)
    return Module(
        name[:MAX_NAME],
        version,
        source,
        place(node)[0],
        not (specifier in (".", "..") or specifier.startswith(("./", "../"))),
    )


# --- handlers


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
