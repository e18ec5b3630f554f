"""An importer: a name, a check of a file's first bytes, and a function from files to runs.

Each foreign tool has one module here that ends in an `IMPORTER`; `known` lists them. An importer
counts what it leaves out, with the reason. If the files lack a required value, it comes from
`Wanted`, or an error names the option. No value is made up.
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
    """What the columns of a table mean, as given with `--map`."""

    def stated(self) -> dict[str, str]:
        """The same, by the names that traces use."""
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
    """Whether a file with this beginning is of this format."""
    read: Callable[[Sequence[str], Wanted, ImportTally], Iterator[dict[str, Any]]]
    """The runs of the files, one by one; the tally counts what was read, left out and stated."""
    apart: bool = False
    """Whether each file contains one whole evaluation; other tools may split one into several
    files.
    """
    again: Callable[[Sequence[str], int, str], str] | None = None
    """The command of the tool that runs these samples of a workflow again, so many times; they are
    called by their titles, where the tool's file has some.
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
