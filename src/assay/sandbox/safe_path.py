"""Python processes that find no modules in the working folder, which somebody else may have made.

`multiprocessing` starts them by `python -c`, which looks there first. Commands of the user's own
must still find their modules: a child that may start some calls `end_safe_path`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

_VARIABLE, _OURS = "PYTHONSAFEPATH", "assay"


@contextmanager
def safe_path() -> Iterator[None]:
    """Keep the working folder from the module path of every Python process that is started
    meanwhile.
    """
    is_set = bool(os.environ.get(_VARIABLE))
    if not is_set:
        os.environ[_VARIABLE] = _OURS
    try:
        yield
    finally:
        if not is_set:
            end_safe_path()


def end_safe_path() -> None:
    """Let what this process starts look for modules where Python does, unless the user set it."""
    if os.environ.get(_VARIABLE) == _OURS:
        del os.environ[_VARIABLE]
