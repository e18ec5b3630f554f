"""An importer: a name, a check of a file's first bytes, and a function from files to runs.

Each foreign tool has one file here that ends in an `IMPORTER`; `known` lists them. An importer
counts what it leaves out and says why; a required value that the files lack comes from `Wanted`, or
is an error that names the option. No value is made up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from assay.errors import UsageError
from assay.importers.head import Head
from assay.importers.tally import ImportTally


class NameVersion(NamedTuple):
    """A name and its version."""

    id: str
    version: str


class Wanted(NamedTuple):
    """What the user states about runs if their files don't."""

    workflow: NameVersion | None = None
    family: str | None = None
    dataset: NameVersion | None = None
    mapping: Mapping[str, str] = {}
    """What the columns of a table mean, as `--map` says it."""

    def stated(self) -> dict[str, str]:
        """The same by the names that a trace uses."""
        stated = {} if self.family is None else {"workflow.family": self.family}
        for what, named in (("workflow", self.workflow), ("dataset", self.dataset)):
            if named is not None:
                stated |= {f"{what}.id": named.id, f"{what}.version": named.version}
        return stated


class Importer(NamedTuple):
    """One foreign format."""

    name: str
    """The name that `--from` takes."""
    title: str
    fits: Callable[[Head], bool]
    """Whether a file that begins so is of this format."""
    read: Callable[[Sequence[str], Wanted, ImportTally], Iterator[dict[str, Any]]]
    """The runs of files, one by one. What is read, left out or stated is counted on the way."""
    profile: str | None = None
    """The profile on the shelf that measures what these runs carry; None if one is made from the
    file's metrics.
    """
    apart: bool = False
    """Whether each file is the results of one evaluation. Files of other tools may be parts of
    one.
    """


def named(text: str, option: str) -> NameVersion:
    """`ID@VERSION` in its parts.

    >>> named("triage@2.1", "--workflow")
    NameVersion(id='triage', version='2.1')
    """
    name, at, version = text.rpartition("@")
    if not at or not name.strip() or not version.strip():
        raise UsageError(
            "CLI-001",
            f"{option} is {text!r}; it is an id and a version.",
            fix=f"Write it as {option} NAME@1.",
        )
    return NameVersion(name, version)
