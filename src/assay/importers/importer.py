"""What an importer is: a name, a look at the first bytes of a file, and a way from files to runs.

Each foreign tool has one file here that ends in an `IMPORTER`; `known` lists them. An importer
counts what it leaves out and says why; what a run must have and its files do not tell comes from
`Wanted`, or is an error that names the option. No value is made up.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from assay.errors import UsageError


class NameVersion(NamedTuple):
    """A name and its version."""

    id: str
    version: str


class Wanted(NamedTuple):
    """What the user says of runs whose files do not say it."""

    workflow: NameVersion | None = None
    family: str | None = None
    dataset: NameVersion | None = None

    def stated(self) -> dict[str, str]:
        """The same by the names that a trace uses."""
        stated = {} if self.family is None else {"workflow.family": self.family}
        for what, named in (("workflow", self.workflow), ("dataset", self.dataset)):
            if named is not None:
                stated |= {f"{what}.id": named.id, f"{what}.version": named.version}
        return stated


class Imported(NamedTuple):
    """Runs, and an account of what was read and what was left out."""

    runs: list[dict[str, Any]]
    read: Mapping[str, int]
    """How much of what was read."""
    dropped: Mapping[str, int]
    """What was left out, by its reason."""
    notes: Sequence[str] = ()
    """What a reader should know: values that stand in for others, runs that are not whole."""


class Importer(NamedTuple):
    """One foreign format."""

    name: str
    """As `--from` names it."""
    title: str
    fits: Callable[[bytes], bool]
    """Whether a file that begins with these bytes is of this format."""
    read: Callable[[Sequence[str], Wanted], Imported]


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
