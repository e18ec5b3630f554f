"""What the processes of one server have in common: the library as it was when the server started,
and with several workers a folder that their parent makes.

A worker that dies is started again. It must grade by what the others grade by, though a file of the
library was edited meanwhile, and what its predecessor counted must not be forgotten (see
`metrics`). A worker that is alone needs no folder: it hands the library on to the processes beside
it.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import msgspec

from assay.errors import UsageError
from assay.library.held import Held
from assay.library.shelf import hold

if TYPE_CHECKING:
    from collections.abc import Iterator

    from assay.server.settings import Settings

LIBRARY = "library"


@contextmanager
def sharing(settings: Settings, *, workers: int) -> Iterator[Settings]:
    """Settings for so many workers: several get a folder, as long as the server runs."""
    if workers == 1:
        yield settings
        return
    with TemporaryDirectory(prefix="assay-", ignore_cleanup_errors=True) as folder:
        with open(os.path.join(folder, LIBRARY), "wb") as file:
            file.write(msgspec.msgpack.encode(library_of(settings)))
        yield msgspec.structs.replace(settings, shared=folder)


def library_of(settings: Settings) -> Held:
    """The library as it was when the server started."""
    if settings.shared is None:
        file = settings.policy if settings.policy.endswith((".yaml", ".yml")) else None
        return hold(*(() if settings.library is None else (settings.library,)), file=file)
    path = os.path.join(settings.shared, LIBRARY)
    try:
        with open(path, "rb") as stream:
            return msgspec.msgpack.decode(stream.read(), type=Held)
    except OSError as error:
        # the files of the library may have changed since: to read them now could give one name two
        # texts
        raise UsageError(
            "FIL-001",
            f"what the workers of the server share cannot be read: {error.strerror}.",
            where=path,
            fix="Start the server again.",
        ) from None


def touch(folder: str) -> None:
    """Show that the folder is in use: whoever tidies up takes what has been lying about for
    days.
    """
    for one in os.scandir(folder):
        os.utime(one.path)
