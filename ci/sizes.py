"""Prints how big the product is and where its structure is thin. It fails nothing.

Run by `make check`. A statement is one of Python's syntax tree, so layout does not count. A small
module with one importer is usually a part of that importer; a deferred import hides a dependency.
"""

from __future__ import annotations

import ast
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parent.parent / "src" / "assay"
SMALL = 150
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def main() -> None:
    """Print the figures; `--list` also names the small modules and their importers."""
    trees = {
        path: ast.parse(path.read_text(encoding="utf-8"))
        for path in sorted(SOURCE.rglob("*.py"))
        if "examples" not in path.relative_to(SOURCE).parts
    }
    modules = {_module(path): path for path in trees}
    statements = {
        path: sum(isinstance(node, ast.stmt) for node in ast.walk(tree))
        for path, tree in trees.items()
    }
    importers: dict[Path, set[Path]] = defaultdict(set)
    for path, tree in trees.items():
        for name in _imported(tree):
            if name in modules and modules[name] != path:
                importers[modules[name]].add(path)
    small = [
        path
        for path in trees
        if len(importers[path]) == 1 and statements[path] < SMALL and path.stem != "__init__"
    ]
    deferred = sum(map(_deferred_imports, trees.values()))
    total = sum(statements.values())
    print(
        f"{total:,} statements in {len(trees)} modules, {total / len(trees):.0f} a module;"
        f" {len(small)} of fewer than {SMALL} statements have one importer;"
        f" {deferred} deferred imports"
    )
    folders: Counter[str] = Counter()
    for path, count in statements.items():
        folders[path.relative_to(SOURCE).parts[0]] += count
    print(", ".join(f"{name} {count:,}" for name, count in folders.most_common()))
    if "--list" in sys.argv:
        for path in sorted(small, key=statements.__getitem__):
            (importer,) = importers[path]
            print(f"{statements[path]:5} {_module(path)}, imported by {_module(importer)}")


def _module(path: Path) -> str:
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts).removesuffix(".__init__")


def _imported(tree: ast.Module) -> Iterator[str]:
    """Every dotted name that a module imports; the names in `from x import y` may be modules."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _deferred_imports(tree: ast.Module) -> int:
    inside = {
        id(node)
        for function in ast.walk(tree)
        if isinstance(function, FUNCTIONS)
        for node in ast.walk(function)
        if isinstance(node, (ast.Import, ast.ImportFrom))
    }
    return len(inside)


if __name__ == "__main__":
    main()
