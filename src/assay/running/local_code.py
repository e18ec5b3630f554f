"""The code of a project behind a workflow or a scorer: the files that a target or a command names,
and the modules that those import from the same folder.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Collection, Iterable, Iterator
from hashlib import sha256
from pathlib import Path

from assay.canon import digest

Places = Iterable[tuple[str, Path]]
"""Names of code, each a `module:name` or a file in its folder."""


def code_digest(places: Places, *, besides: Places = ()) -> str | None:
    """The digest of all code that these names lead to, and those `besides` don't; None if they lead
    to no file. Installed packages and files that the code reads when it runs don't count.

    A file that both lead to counts by its name: a new `json.py` would replace the module of that
    name for both.
    """
    files = _reached(places, _reached(besides).keys())
    return digest(sorted(files.values())) if any(made for _, made in files.values()) else None


def _reached(places: Places, others: Collection[Path] = ()) -> dict[Path, tuple[str, str]]:
    """Each file that these names lead to, by its whole path: its path in its folder, and its
    digest. That of the `others` is empty, and what they import is left out.
    """
    files: dict[Path, tuple[str, str]] = {}
    for name, folder in places:
        queue = list(_files_of(name, folder))
        while queue:
            file = queue.pop()
            if (whole := file.resolve()) in files:
                continue
            if whole in others:
                files[whole] = os.path.relpath(file, folder), ""
                continue
            source = file.read_bytes()
            files[whole] = os.path.relpath(file, folder), sha256(source).hexdigest()
            if file.suffix == ".py":
                queue += _imported(source, file, folder)
    return files


def _files_of(name: str, folder: Path) -> Iterator[Path]:
    file = folder / name
    if file.is_file() and file.resolve().is_relative_to(folder.resolve()):
        yield file
    else:
        yield from _module_files(name.partition(":")[0], folder)


def _module_files(module: str, folder: Path) -> Iterator[Path]:
    """The files that importing a dotted name runs, as far as they are in this folder."""
    place = folder
    for part in module.strip(".").split("."):
        if not part.isidentifier():
            return
        place /= part
        for file in (place.with_suffix(".py"), place / "__init__.py"):
            if file.is_file():
                yield file


def _imported(source: bytes, file: Path, folder: Path) -> Iterator[Path]:
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return  # running it reports what is wrong
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names, roots = [alias.name for alias in node.names], [folder, file.parent]
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            names = [f"{module}.{alias.name}" for alias in node.names]
            roots = [folder, file.parent]
            if node.level:
                roots = [file.parents[min(node.level, len(file.parents)) - 1]]
        else:
            continue
        for name in names:
            for root in roots:
                yield from _module_files(name, root)
