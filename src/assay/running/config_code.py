"""Which code a configuration would run, and where that code is.

Running `assay` in a folder means trusting the code in that folder. A configuration that refers to
code elsewhere is refused without `--trust`. Datasets may be anywhere.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

from assay.errors import Fault, raise_faults
from assay.files.json_files import Path, show_path
from assay.files.yaml_files import is_yaml_name, read_yaml
from assay.running.config import Config


def refuse_outside_code(config: Config, workflow: str | None) -> None:
    """Raise if the scorers and gates of a configuration, or a workflow that it describes or names,
    are code outside its folder.
    """
    faults = [
        Fault(
            f"{path!r} is outside the folder of {os.path.basename(config.path)}.",
            code="CFG-002",
            file=config.path,
            line=config.line(*key),
            path=show_path(key),
            fix="Move it there, or give --trust if you know that code.",
        )
        for key, path in _outside(config, workflow)
    ]
    raise_faults(faults, where=config.path)


def _outside(config: Config, workflow: str | None) -> Iterator[tuple[Path, str]]:
    home = os.path.realpath(config.folder or os.curdir)
    for kind in ("scorers", "gates"):
        for index, scorer in enumerate(getattr(config.spec, kind)):
            if not _is_inside(file := _module_file(scorer.target, home), home):
                yield (kind, index, "target"), file
    key = _key_of(config, workflow)
    if key is None or workflow is None:
        return
    file = workflow.partition("#")[0]
    if not _is_inside(file, home):
        yield key, file
        return
    tree = read_yaml(workflow).tree if is_yaml_name(workflow) and os.path.exists(file) else None
    folder = os.path.dirname(os.path.realpath(file))
    if isinstance(tree, dict):
        for place, path in _code_of(tree, folder):
            if not _is_inside(path, home):
                yield (*key, *place), path


def _key_of(config: Config, workflow: str | None) -> Path | None:
    """The key that describes or names this workflow; None if the command line named it."""
    if workflow is None:
        return None
    for name, reference in config.named("workflow").items():
        if reference == workflow:
            return ("workflows", name)
    return ("workflow",) if config.chosen("workflow") == workflow else None


def _code_of(tree: Mapping[str, Any], folder: str) -> Iterator[tuple[Path, str]]:
    """Every file or folder with code that a workflow names."""
    adapters: list[tuple[Path, Any]] = [(("adapter",), tree.get("adapter"))]
    for kind in ("steps", "agents"):
        parts = tree.get(kind)
        pairs: Any = (
            parts.items()
            if isinstance(parts, dict)
            else enumerate(parts)
            if isinstance(parts, list)
            else ()
        )
        adapters += [
            ((kind, name, "adapter"), part.get("adapter"))
            for name, part in pairs
            if isinstance(part, dict)
        ]
    for key, adapter in adapters:
        if isinstance(adapter, dict):
            if isinstance(target := adapter.get("target"), str):
                yield (*key, "target"), _module_file(target, folder)
            for word in _listed(adapter.get("command")):
                if isinstance(word, str) and "/" in word:
                    yield (*key, "command"), os.path.join(folder, word)
    for index, scorer in enumerate(_listed(tree.get("scorers"))):
        if isinstance(scorer, dict) and isinstance(target := scorer.get("target"), str):
            yield ("scorers", index, "target"), _module_file(target, folder)
    repository = tree.get("repository")
    if isinstance(repository, dict):
        for name in ("path", "readable"):
            for path in _listed(repository.get(name)):
                if isinstance(path, str):
                    yield ("repository", name), os.path.join(folder, path)


def _listed(value: Any) -> list[Any]:
    """The value as a list: nothing has checked the file's shape yet."""
    return value if isinstance(value, list) else [value]


def _module_file(target: str, folder: str) -> str:
    """The file of `module:name`, or the configuration's folder for an installed module."""
    parts = target.partition(":")[0].split(".")
    for path in (os.path.join(folder, *parts) + ".py", os.path.join(folder, parts[0])):
        if os.path.exists(path):
            return path
    return folder


def _is_inside(path: str, home: str) -> bool:
    real = os.path.realpath(path)
    return real == home or real.startswith(os.path.join(home, ""))
