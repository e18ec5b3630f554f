"""The modules that a module asks for, from its syntax tree: nothing is loaded or run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from assay.families.tools.reading.tree import MAX_NAME, fixed, place, string, text
from assay.families.tools.source import Module, split_version

if TYPE_CHECKING:
    from tree_sitter import Node


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


def asked(captured: dict[str, list[Node]]) -> Iterator[Module]:
    """The modules that nodes of the query in `syntax` ask for; a computed name as written. A text
    that is run as code can ask for any module.
    """
    for node in captured.get("import", []):
        yield _ask(string(node.child_by_field_name("source")), "import", node)
    for node in captured.get("reexport", []):
        yield _ask(string(node.child_by_field_name("source")), "export from", node)
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
    name, above = text(node), node.parent
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
    known = owned and fixed(key) is not None
    if name in ("require", "eval"):
        module = _requested(node, above if owned else node)
        yield module if name == "require" else module._replace(computed=True)
    elif name == "Function":
        if not known or fixed(key) in (*_RUNNING, _ITSELF, "constructor"):
            yield _requested(node, node)._replace(computed=True)
    elif name in ("globalThis", "global") and (not known or fixed(key) == _ITSELF):
        yield _computed(node, "require", node)


def _by_key(node: Node) -> Iterator[Module]:
    """What a property asks for: a door of Node, or code that gets at `eval` or `Function` without
    their names. None for any other use of these words, such as `redis.eval(x)`. What is read from a
    constructor may be that constructor again, unless it is its name or the class is our own.
    """
    name, above = fixed(node), node.parent
    if above is None:
        return
    owner = above.child_by_field_name("object")
    last = text(owner).rpartition(".")[2]
    if name is None:
        if last in _OPEN:
            yield _computed(above, "require", node)
    elif name == "getBuiltinModule" or (
        name == "require" and (owner is None or text(owner) in _GLOBALS or "odule" in text(owner))
    ):  # other objects have methods of the name `require`
        yield _requested(node, above)
    elif name in _NATIVE or f"{last}.{name}" in _NATIVE:
        yield _computed(above, "require", node)
    elif name in ("eval", "Function", *_GLOBALS):
        if text(owner) in _GLOBALS:
            yield _computed(above, "require", node)
    elif name == "constructor" and not _is_compared(above):
        use = above.parent
        read = use is not None and use.child_by_field_name("object") == above
        key = use and (use.child_by_field_name("property") or use.child_by_field_name("index"))
        ordinary = fixed(key) not in (None, _ITSELF, *_RUNNING) if text(owner) == "this" else False
        if not (read and (ordinary or fixed(key) == "name")):
            yield _computed(above, "require", node)


def _is_compared(node: Node) -> bool:
    """Whether only the outcome of a comparison or of `typeof` is used."""
    above = node.parent
    return above is not None and (
        above.type == "unary_expression"
        or (
            above.type == "binary_expression"
            and text(above.child_by_field_name("operator")) in _COMPARED
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
    name = fixed(first)
    return _computed(first, source, call) if name is None else _ask(name, source, call)


def _computed(code: Node, source: str, node: Node) -> Module:
    return Module(text(code)[:MAX_NAME], None, source, place(node)[0], True, True)


def _ask(specifier: str, source: str, node: Node) -> Module:
    name, version = split_version(specifier)
    loads = name.removeprefix("node:") in _LOADERS or name.lower().startswith("data:")
    return Module(
        name[:MAX_NAME],
        version,
        source,
        place(node)[0],
        not (specifier in (".", "..") or specifier.startswith(("./", "../"))),
        loads,
    )
