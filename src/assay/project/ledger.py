"""Where a project keeps its ledger and its baselines, and opening the ledger."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from assay.errors import UsageError
from assay.files.atomic import refuse_links_out
from assay.files.upwards import CONFIG_FILE, find_upwards

if TYPE_CHECKING:
    from assay.services.storing import Store
    from assay.store.ledger import Ledger


def open_for(url: str, *, read_only: bool = False) -> Ledger:
    """The ledger of a URL, or of the default where it is empty."""
    from assay.store.ledger import open_ledger

    if not read_only and not url and not os.environ.get("ASSAY_DB"):
        _make_folder(ledger_folder())
    return open_ledger(url_of(url), read_only=read_only)


def url_of(url: str) -> str:
    """The URL of a ledger; where it is empty, the one that every verb takes."""
    return url or os.environ.get("ASSAY_DB") or f"sqlite:///{ledger_folder()}/ledger.db"


FOLDER = ".assay"
_IGNORED = """# The ledger of Assay. Git ignores all but baselines and the schema of assay.yaml.
*
!baselines/
!baselines/*
!config.schema.json
"""


def ledger_folder() -> str:
    """The folder of the default ledger: `.assay` in the nearest folder, from the working folder
    upwards, that has one or has an `assay.yaml`; else in the working folder.
    """
    places = []
    for mark in (FOLDER, CONFIG_FILE):
        with suppress(UsageError):  # another user's, in a shared folder above: not ours to use
            if (path := find_upwards(mark)) is not None:
                places.append(os.path.dirname(os.path.abspath(path)))
    nearest = max(places, key=len, default=os.getcwd())
    return os.path.relpath(os.path.join(nearest, FOLDER))


def baselines_folder() -> str:
    """The default folder of stored baselines: next to the default ledger, wherever that is found,
    so that a baseline stored from a folder below is found from every other.
    """
    return os.path.join(ledger_folder(), "baselines")


def _make_folder(folder: str) -> None:
    """Make the folder of the default ledger, kept out of Git. If it can't be made, opening the
    ledger reports that.
    """
    ignored = os.path.join(folder, ".gitignore")
    refuse_links_out(ignored, follow=True)
    with suppress(OSError):
        os.makedirs(folder, exist_ok=True)
        with open(ignored, "x", encoding="utf-8") as stream:
            stream.write(_IGNORED)


@contextmanager
def open_store(
    url: str,
    project: str,
    note: Callable[[str], None],
    *,
    read_only: bool = False,
    needed: bool = True,
) -> Iterator[Store]:
    """A project of the ledger around some work. Nothing is stored before the work calls `put`."""
    import tempfile

    from assay.services.storing import IN_MEMORY, Store
    from assay.store.ledger import known_project

    project = known_project(project)
    with open_for(url, read_only=read_only) as ledger:
        # it opens again by itself; a connection must not go into the worker processes, nor wait
        # while a judge thinks
        ledger.close()
        with tempfile.SpooledTemporaryFile(IN_MEMORY) as waiting:
            store = Store(ledger, project, waiting, note, needed=needed)
            yield store
            if read_only:  # once the work is done: a verb that fails reports why, and nothing else
                store.report_notes()
