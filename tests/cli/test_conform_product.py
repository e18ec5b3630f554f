"""`assay conform` runs the product: each rule that an operation calls is one that other modules call
in their ordinary work. Otherwise every vector could be met while a grade is wrong.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import assay

SOURCE = Path(assay.__file__).parent
CONFORM = [SOURCE / "cli" / "conform.py", *sorted(SOURCE.glob("families/*/conform.py"))]
ELSEWHERE = [
    path
    for path in SOURCE.rglob("*.py")
    # a fingerprint calls a rule to see whether it changed, and grades nothing by it
    if path not in CONFORM and path.name != "behaviour.py"
]


def module_of(path: Path) -> str:
    parts = ("assay", *path.relative_to(SOURCE).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


FILES = {module_of(path): path for path in SOURCE.rglob("*.py")}


@cache
def called_from(path: Path) -> frozenset[tuple[str, str]]:
    """The (module, name) pairs that a module imports and uses, also as `module.name`."""
    tree = tree_of(path)
    aliases: dict[str, str] = {}
    names: dict[str, tuple[str, str]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            for item in node.names:
                local = item.asname or item.name
                if f"{node.module}.{item.name}" in FILES:
                    aliases[local] = f"{node.module}.{item.name}"
                else:
                    names[local] = (node.module, item.name)
    used = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id in names:
            used.add(names[node.id])
        if (
            isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and node.value.id in aliases
        ):
            used.add((aliases[node.value.id], node.attr))
    return frozenset(used)


def functions(module: str) -> dict[str, ast.FunctionDef]:
    if module not in FILES:
        return {}
    body = tree_of(FILES[module]).body
    return {node.name: node for node in body if isinstance(node, ast.FunctionDef)}


def is_used(module: str, name: str, seen: frozenset[str] = frozenset()) -> bool:
    """Whether a function is called by another module, or by one of its own that is."""
    if any((module, name) in called_from(path) for path in ELSEWHERE):
        return True
    for node in tree_of(FILES[module]).body:
        own = node.name if isinstance(node, ast.FunctionDef) else ""
        names = {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}
        called = name in names and own != name and own not in seen
        if called and (not own or is_used(module, own, seen | {name})):
            return True
    return False


def rules() -> Iterator[tuple[str, str]]:
    """The functions of other modules that operations call, but for the reader of golden inputs."""
    pairs = {pair for path in CONFORM for pair in called_from(path)}
    return (
        (module, name)
        for module, name in sorted(pairs)
        if name in functions(module) and module != "assay.library.golden_inputs"
    )


def methods_called(paths: list[Path]) -> set[str]:
    return {
        node.func.attr
        for path in paths
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    }


@pytest.mark.parametrize(("module", "name"), list(rules()))
def test_a_rule_that_an_operation_calls_is_called_by_the_product_too(
    module: str, name: str
) -> None:
    assert is_used(module, name), f"only `assay conform` calls {module}.{name}"


def test_a_method_that_an_operation_calls_is_called_by_the_product_too() -> None:
    defined = {
        item.name
        for path in ELSEWHERE
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.ClassDef)
        for item in node.body
        if isinstance(item, ast.FunctionDef)
    }
    called = methods_called(CONFORM) & defined
    assert called, "the operations call no method at all: is the walk broken?"
    assert called - methods_called(ELSEWHERE) == set()


def test_the_walk_sees_the_rules_of_every_family() -> None:
    found = set(rules())
    assert {
        ("assay.grading.grade", "grade"),
        ("assay.families.tools.node", "judge"),
        ("assay.families.exams.gate", "drop_holds"),
    } <= found
    assert not is_used("assay.families.tools.status", "a_rule_that_nobody_calls")
