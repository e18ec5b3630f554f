"""Read shelf files into records, with checks of names, weights and roles that report each fault
with its line.
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from itertools import pairwise
from typing import Annotated, Any, TypeVar

from msgspec import Meta, Struct

from assay import exact
from assay.errors import EvidenceError, Fault, ShelfError
from assay.files.json_files import Document, Path
from assay.records.reading import read_record
from assay.records.scorecard import ROLES
from assay.registry import identifier_fault, near_miss

R = TypeVar("R")
Text = Annotated[str, Meta(pattern=r"\S", description="a text that is not blank")]


class ShelfPart(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A part of a shelf file: frozen, and closed to unknown keys."""


class Faults:
    """The faults of one shelf file, collected before an error is raised."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.found: list[Fault] = []

    def add(self, path: Path, message: str, fix: str = "") -> None:
        """Add a fault at a path of the file; its line is the path's, or that of the nearest parent
        with a line.
        """
        self.found.append(self.document.fault(message, path, code="LIB-002", fix=fix))

    def check_names(self, path: Path, names: Iterable[tuple[int, str]]) -> None:
        """Add a fault for each name that is not an identifier or appears twice."""
        seen: set[str] = set()
        for index, name in names:
            problem = identifier_fault(name)
            if problem is not None:
                self.add((*path, index), f"the name {problem}.")
            if name in seen:
                self.add((*path, index), f"'{name}' appears twice.", "Keep one.")
            seen.add(name)

    def check_weights(self, path: Path, weights: list[Any]) -> None:
        """Add a fault for each weight that is not a number or is negative, or if all are zero."""
        all_zero = bool(weights)
        for index, weight in enumerate(weights):
            try:
                value = exact.ratio(weight)
            except ValueError as error:
                self.add((*path, index, "weight"), f"the weight must be a number; {error}.")
                all_zero = False
                continue
            if value.num < 0:
                self.add((*path, index, "weight"), f"the weight is {weight}, below zero.")
            all_zero = all_zero and value.num == 0
        if all_zero:
            self.add(path, "all weights are zero, so there is nothing to weigh.")

    def check_role(self, path: Path, role: str | None) -> None:
        """Add a fault for a misspelt role that has a floor: the floor would silently be lost."""
        if role is not None and role not in ROLES and near_miss(role, ROLES):
            self.add((*path, "role"), f"there is no role '{role}'.{near_miss(role, ROLES)}")

    def number(
        self,
        path: Path,
        value: Any,
        *,
        low: float = 0,
        high: float | None = None,
        open_ends: bool = False,
    ) -> Decimal | None:
        """The exact value of a number; a fault and None if it is something else or out of range."""
        try:
            exact.ratio(value)
        except ValueError as error:
            self.add(path, f"must be a number; {error}.")
            return None
        number = Decimal(str(value))
        is_end = open_ends and number in (low, high)
        if number >= low and (high is None or number <= high) and not is_end:
            return number
        limits = f"at least {low}" if high is None else f"from {low} to {high}"
        limits = f"between {low} and {high}" if open_ends else limits
        self.add(path, f"is {value}; it must be {limits}.")
        return None

    def check_edges(self, edges: Iterable[Decimal | None]) -> None:
        """Add a fault for each band that doesn't begin below the one before it."""
        for index, (upper, lower) in enumerate(pairwise(edges), 1):
            if upper is not None and lower is not None and lower >= upper:
                self.add(("bands", index, "min"), "must be below that of the band before it.")

    def raise_if_any(self) -> None:
        """Raise one error with all the faults."""
        if self.found:
            self.found.sort(key=lambda fault: fault.line or 0)
            raise ShelfError(
                "LIB-002",
                self.found[0].message,
                where=self.document.file,
                fix=self.found[0].fix,
                faults=self.found,
            )


def read_shelf_record(document: Document, kind: type[R], faults: Faults) -> R:
    """The file as a record of that kind, or an error with every fault of its shape."""
    if not isinstance(document.tree, dict):
        faults.add((), "the file must contain a mapping of keys to values.")
        faults.raise_if_any()
    try:
        return read_record(document, kind, "LIB-002")
    except EvidenceError as error:
        faults.found += error.faults
        faults.raise_if_any()
        raise
