"""Prints the size of the product: statements, modules, and class names with two meanings.

Run by `make check`. A statement is one of Python's syntax tree, so that layout does not count.
"""

from __future__ import annotations

import ast
import sys
from collections import defaultdict
from pathlib import Path
from statistics import median

SOURCE = Path(__file__).parent.parent / "src" / "assay"


def main() -> int:
    """Print the figures; `--list` also names the long modules and the reused class names."""
    statements = 0
    untyped = 0
    lengths: dict[str, int] = {}
    classes: dict[str, list[str]] = defaultdict(list)
    for path in sorted(SOURCE.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        name = path.relative_to(SOURCE).as_posix()
        lengths[name] = text.count("\n")
        untyped += text.count("dict[str, Any]")
        for node in ast.walk(ast.parse(text)):
            statements += isinstance(node, ast.stmt)
            if isinstance(node, ast.ClassDef):
                classes[node.name].append(name)
    reused = {name: places for name, places in classes.items() if len(places) > 1}
    longest = max(lengths, key=lambda name: lengths[name])
    long = sorted((lines, name) for name, lines in lengths.items() if lines > 400)
    print(
        f"{statements:,} statements in {len(lengths)} modules;"
        f" median {median(lengths.values()):.0f} lines, longest {longest} with"
        f" {lengths[longest]}, {len(long)} over 400;"
        f" {len(reused)} reused class names; {untyped} times dict[str, Any]"
    )
    if "--list" in sys.argv:
        for lines, name in reversed(long):
            print(f"{lines:5} {name}")
        for name, places in sorted(reused.items()):
            print(f"{name}: {', '.join(places)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
