"""Memory of long work: pause the cyclic garbage collector while a file is read into records."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def uncollected() -> Iterator[None]:
    """A block without the collector. Records have no cycles, and it would walk every one of them
    again and again; what has none is freed as always.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
