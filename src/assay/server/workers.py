"""What the workers of one server share: the library as it was at the start, and their counters.

A worker that dies is started again. It must grade by the same library as the others, even if a file
of the library was edited meanwhile, and keep the counts of its predecessor (see `metrics`). Both
are in a folder that the parent creates. A single worker needs none.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import TemporaryDirectory

import msgspec

from assay.errors import UsageError
from assay.files.yaml_files import is_yaml_name
from assay.library.held import HeldLibrary
from assay.library.shelf import hold
from assay.server.settings import ServerSettings

LIBRARY = "library"
COUNTERS = "PROMETHEUS_MULTIPROC_DIR"
"""The variable that makes prometheus-client keep its counters in files of that folder."""


@contextmanager
def shared_folder(settings: ServerSettings, *, workers: int) -> Iterator[ServerSettings]:
    """Settings for this many workers; several share a folder for as long as the server runs."""
    if workers == 1:
        yield settings
        return
    with TemporaryDirectory(prefix="assay-", ignore_cleanup_errors=True) as folder:
        lock = os.open(folder, os.O_RDONLY)
        fcntl.flock(lock, fcntl.LOCK_SH)  # systemd-tmpfiles leaves a locked folder alone
        with open(os.path.join(folder, LIBRARY), "wb") as file:
            file.write(msgspec.msgpack.encode(library_of(settings)))
        os.environ[COUNTERS] = folder
        try:
            yield msgspec.structs.replace(settings, shared=folder)
        finally:
            del os.environ[COUNTERS]
            os.close(lock)


def library_of(settings: ServerSettings) -> HeldLibrary:
    """The library as it was when the server started."""
    if settings.shared is None:
        named = settings.policy
        own = [named.partition("#")[0]] if is_yaml_name(named) else []
        folders = () if settings.library is None else (settings.library,)
        return hold(*folders, files=[*own, *settings.release.files])
    path = os.path.join(settings.shared, LIBRARY)
    try:
        with open(path, "rb") as stream:
            return msgspec.msgpack.decode(stream.read(), type=HeldLibrary)
    except OSError as error:
        # Reading the library's files instead could give one name two meanings.
        raise UsageError(
            "FIL-001",
            f"the folder that the server's workers share can't be read: {error.strerror}.",
            where=path,
            fix="Restart the server.",
        ) from None
