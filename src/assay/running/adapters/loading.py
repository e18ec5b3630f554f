"""Finds the Python object that a workflow file names as `module:name`, next to the file first."""

from __future__ import annotations

import os
import re
import sys
import threading
from importlib import import_module, util
from typing import TYPE_CHECKING, Any

from assay.errors import InputError
from assay.registry import near_miss
from assay.tracing.failures import describe

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from types import ModuleType

_TARGET = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")
_ENDINGS = {name: getattr(os, name) for name in ("_exit", "execv", "execve")}
"""Functions of `os` that end or replace a process without raising."""
_lock = threading.Lock()
_loaded: dict[Path, ModuleType] = {}


def exits_as_errors() -> None:
    """From now on, turn calls that end or replace this process into a failed run, as for
    `sys.exit`: otherwise `os._exit(0)` in a workflow would open the gate. This stays so until the
    process ends, because a thread or an exit handler of the workflow may make the call. Forked
    processes may still call them.
    """
    own = os.getpid()

    def guarded(name: str, end: Callable[..., Any]) -> Callable[..., Any]:
        def raise_or_end(*arguments: Any) -> Any:
            if os.getpid() == own:
                raise SystemExit(f"os.{name} was called")
            return end(*arguments)

        return raise_or_end

    for name, end in _ENDINGS.items():
        setattr(os, name, guarded(name, end))


def load(target: Any, folder: Path, where: str) -> Any:
    """The object behind `module:name`. A module next to the workflow file comes before one that is
    installed.
    """
    if not isinstance(target, str) or not _TARGET.fullmatch(target):
        raise InputError("RUN-001", f"a target is 'module:name', not {target!r}.", where=where)
    module_name, _, path = target.partition(":")
    try:
        with _lock:
            module = _module(module_name, folder)
    except ModuleNotFoundError as error:
        raise InputError(
            "RUN-004",
            f"module {error.name!r} not found.{_near(error.name, folder)}",
            where=where,
            fix=f"Put {module_name}.py next to the file, or install it.",
        ) from None
    except SystemExit as error:  # a script that ends itself must not end the gate, with exit 0
        raise InputError(
            "RUN-004",
            f"the module {module_name!r} ends the process when it is loaded.",
            where=where,
            fix="Move its script code under `if __name__ == '__main__':`.",
        ) from error
    except Exception as error:
        raise InputError(
            "RUN-004",
            f"the module {module_name!r} cannot be loaded: {describe(error)}.",
            where=where,
        ) from error
    value: Any = module
    for part in path.split("."):
        if not hasattr(value, part):
            raise InputError(
                "RUN-004",
                f"the module {module_name!r} has no {path!r}.{near_miss(part, dir(value))}",
                where=where,
            )
        value = getattr(value, part)
    return value


def _near(name: str | None, folder: Path) -> str:
    """A module next to the file that the name may refer to."""
    try:
        return near_miss(name or "", [file.stem for file in folder.glob("*.py")][:1000])
    except OSError:
        return ""


def _module(name: str, folder: Path) -> ModuleType:
    """A module next to the workflow, loaded under a unique name: two projects may each have a
    `flow.py`.
    """
    file = folder.joinpath(*name.split(".")).with_suffix(".py")
    if not file.is_file():
        if (folder / name.split(".")[0]).is_dir() and str(folder) not in sys.path:
            sys.path.insert(0, str(folder))  # a package next to the file
        return import_module(name)
    if file in _loaded:
        return _loaded[file]
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))  # so that the module finds its own neighbours
    loaded = sys.modules.get(name)
    if loaded is not None and getattr(loaded, "__file__", None) == str(file):
        return loaded
    own = name if loaded is None else f"assay_workflow_{abs(hash(file))}_{name}"
    spec = util.spec_from_file_location(own, file)
    if spec is None or spec.loader is None:
        raise ModuleNotFoundError(name=name)
    module = util.module_from_spec(spec)
    sys.modules[own] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        sys.modules.pop(own, None)
        raise
    _loaded[file] = module
    return module
