"""The modules that a text asks for, found in its syntax tree and never loaded."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from assay.tools.reading.tree import MAX_NAME, place, string, text
from assay.tools.source import Module

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tree_sitter import Node

_VERSIONED = re.compile(
    r"((?:npm:|jsr:)?(?:[a-z]+://.*?/)?(?:@[^/@]+/)?[^/@:?#]+)@([^/?#@]+)(.*)", re.DOTALL
)


def split_version(specifier: str) -> tuple[str, str | None]:
    """The specifier without its version, and the version.

    >>> (
    ...     split_version("npm:@scope/x@1.2.3"),
    ...     split_version("https://esm.sh/x@1.2/y"),
    ...     split_version("ethers"),
    ... )
    (('@scope/x', '1.2.3'), ('https://esm.sh/x/y', '1.2'), ('ethers', None))
    """
    found = (
        None
        if len(specifier) > 1000 or specifier.startswith((".", "/"))
        else _VERSIONED.fullmatch(specifier)
    )
    name, version = (found[1] + found[3], found[2]) if found else (specifier, None)
    return (
        name.removeprefix("npm:"),
        version,
    )  # the same package as without the prefix, so that a list of names finds it


def asked(found: dict[str, list[Node]]) -> Iterator[Module]:
    """Every module that the nodes ask for; the keys are those of the query in `syntax`. One whose
    name is computed is listed as it is written.
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
    for node in found.get("builtin", []):
        yield from _required(node)


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
        yield Module(text(node), None, "require", place(node)[0], True)


def _called(call: Node, source: str) -> Module:
    arguments = call.child_by_field_name("arguments")
    first = next(
        (one for one in (arguments.named_children if arguments else []) if one.type != "comment"),
        None,
    )
    if first is None:
        return Module(text(call)[:MAX_NAME], None, source, place(call)[0], True)
    is_fixed = first.type == "string" or (
        first.type == "template_string"
        and all(one.type != "template_substitution" for one in first.named_children)
    )
    return (
        _ask(string(first), source, call)
        if is_fixed
        else Module(text(first)[:MAX_NAME], None, source, place(call)[0], True)
    )


def _ask(specifier: str, source: str, node: Node) -> Module:
    name, version = split_version(specifier)
    return Module(
        name[:MAX_NAME],
        version,
        source,
        place(node)[0],
        not (specifier in (".", "..") or specifier.startswith(("./", "../"))),
    )
