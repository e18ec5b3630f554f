"""The meaning of each column of a source: long rows, wide columns, or both in one relation.

A long row names one criterion with its score, or one gate with its verdict. A wide row has a column
for each criterion or gate. Files of both kinds, united by column name, make one relation.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from assay.errors import InputError
from assay.families.batch.engine import SourceColumn
from assay.families.batch.plan import BatchCriterion, BatchPlan
from assay.registry import near_miss

COUNTS: Mapping[str, tuple[str, ...]] = {
    "pairwise": ("wins", "losses", "ties"),
    "ratio": ("passed", "total"),
}
"""The formulas whose raw score is counts."""
ROLES = ("run", "criterion", "raw", "n", "gate", "verdict", *COUNTS["pairwise"], *COUNTS["ratio"])
"""The names of columns that a batch reads; `--map` gives the source's own names for them."""

GRADE_COLUMNS = (
    "run",
    "grade",
    "provisional_grade",
    "passed",
    "reason",
    "score",
    "adjusted_score",
    "failed_gates",
    "undetermined_gates",
    "extra_gates",
    "failed_floors",
    "missing",
    "faults",
    "profile",
    "policy",
    "scoring_system",
    "grading_system",
)
"""The columns of a grade that don't belong to one criterion."""

_WHOLE = {"TINYINT", "SMALLINT", "INTEGER", "INT", "UTINYINT", "USMALLINT", "UINTEGER"}
_LONG = {"BIGINT", "UBIGINT", "HUGEINT", "UHUGEINT", "LONG"}
_FLOAT = {"DOUBLE", "FLOAT", "REAL"}
_TEXT = {"VARCHAR", "STRING", "TEXT", "CHAR"}
_NESTED = {"STRUCT", "MAP", "UNION", "ARRAY", "VARIANT"}
_DECIMAL = re.compile(r"DECIMAL\((\d+), ?(\d+)\)")
NUMBERS = {"whole", "long", "float", "decimal"}

WRITTEN = "assay_written:"
"""Begins the name of a column with the text that another column was read from."""
IN_QUOTES = "assay_in_quotes:"
"""Begins the name of a column that says whether a text was a JSON string."""

_EXPECTED = {"name": "text or whole numbers", "number": "a number"}


class Cell(NamedTuple):
    """A column that is read, and the kind of its type."""

    name: str
    type: str
    """The engine's name of its type."""
    kind: str
    """`whole`, `long`, `float`, `decimal`, `boolean`, `text` or `other`."""
    digits: int = 0
    """Of a decimal."""
    scale: int = 0
    written: str = ""
    """The column with the text that this one was read from; empty if it never was text."""


class ScoreCells(NamedTuple):
    """Where the score of a criterion is."""

    raw: Cell | None
    n: Cell | None
    counts: Mapping[str, Cell]


class RowLayout(NamedTuple):
    """The columns of a source by what they mean."""

    run: Cell
    criterion: Cell | None
    """The name of a long row's criterion; None if every criterion has its own column."""
    score: ScoreCells
    """Of long rows."""
    gate: Cell | None
    verdict: Cell | None
    wide: Mapping[str, ScoreCells]
    """By criterion."""
    wide_gates: Mapping[str, Cell]
    keep: tuple[Cell, ...]
    absent: tuple[str, ...]
    """The criteria and gates that no column can give."""
    unused: tuple[str, ...]
    """The columns that are ignored."""


def find_layout(
    plan: BatchPlan,
    columns: Sequence[SourceColumn],
    *,
    names: Mapping[str, str] | None = None,
    keep: Sequence[str] = (),
) -> RowLayout:
    """The layout of a source. `names` says what the source calls a column: `{"raw": "value"}`.

    Raises `InputError` where a column that is needed is missing, or has another type.
    """
    _check_names(plan)
    finder = _ColumnFinder(columns, names or {}, taken=grade_columns(plan))
    for name, meanings in _meanings(plan).items():
        if len(meanings) > 1 and finder.has_unmapped(name):
            raise _ambiguous(name, meanings)
    run = finder.needed("run", "name")
    criterion = finder.role("criterion", "text")
    gate = finder.role("gate", "text")
    score = ScoreCells(None, None, {})
    if criterion is not None:
        used = dict.fromkeys(key for item in plan.criteria for key in COUNTS.get(item.formula, ()))
        counts = {key: cell for key in used if (cell := finder.role(key, "number")) is not None}
        score = ScoreCells(finder.role("raw", "number"), finder.role("n", "number"), counts)
        if score.raw is None and not counts:
            raise finder.missing("raw")
    verdict = None
    if gate is not None:
        verdict = finder.needed("verdict", "boolean")
    wide = {item.name: cells for item in plan.criteria if (cells := finder.wide(item)) is not None}
    wide_gates = {
        name: cell for name in plan.gates if (cell := finder.column(name, "boolean")) is not None
    }
    if criterion is None and not wide:
        raise InputError(
            "BAT-003",
            f"no column contains scores: there is neither a column 'criterion' nor one named"
            f" after a criterion of {plan.profile}.",
            fix=f"Found: {finder.shown}. Name the column with `criterion=COLUMN`, or rename one"
            f" to a criterion: {', '.join(item.name for item in plan.criteria)}.",
        )
    absent = [
        *(item.name for item in plan.criteria if criterion is None and item.name not in wide),
        *(name for name in plan.gates if gate is None and name not in wide_gates),
    ]
    kept = tuple(finder.kept(name) for name in keep)
    return RowLayout(
        run,
        criterion,
        score,
        gate,
        verdict,
        wide,
        wide_gates,
        kept,
        tuple(absent),
        finder.unused(),
    )


def mapped_columns(names: Mapping[str, str]) -> dict[str, str]:
    """What a source calls the column of each role. A column that is mapped to one role is not
    read as another: a total could count as the number that passed.
    """
    roles_by_name = {name: role for role, name in names.items()}
    for role, name in names.items():
        if roles_by_name[name] != role:
            raise InputError(
                "BAT-017",
                f"the column '{name}' is mapped to '{role}' and to '{roles_by_name[name]}'.",
                fix="Map each column to one name.",
            )
    return {
        role: names.get(role, role) for role in ROLES if role in names or role not in roles_by_name
    }


def _check_names(plan: BatchPlan) -> None:
    """Refuse a plan whose columns differ only in case: to engines they are the same column."""
    seen: set[str] = set()
    for name in grade_columns(plan):
        if name.lower() in seen:
            raise InputError(
                "BAT-016",
                f"two columns of the grades of {plan.profile} would be named '{name}'.",
                fix="Rename a criterion: ids must differ in more than case, and no criterion can be"
                " called 'score'.",
            )
        seen.add(name.lower())


def _meanings(plan: BatchPlan) -> dict[str, list[str]]:
    """What a column of each name could mean. If one of several meanings were chosen, a sample size
    or another score could count as the score of a criterion.
    """
    meanings: dict[str, list[str]] = {role: [f"the {role} of a row"] for role in ROLES}
    for name in GRADE_COLUMNS:
        meanings.setdefault(name, [f"the {name} of a grade"])
    for item in plan.criteria:
        keys = COUNTS.get(item.formula, ())
        own = [f"{item.name}_{key}" for key in keys] or [item.name]
        for name in own:
            meanings.setdefault(name, []).append(f"a score of the criterion '{item.name}'")
        meanings.setdefault(f"{item.name}_n", []).append(f"the sample size of '{item.name}'")
    for gate in plan.gates:
        meanings.setdefault(gate, []).append(f"the verdict of the gate '{gate}'")
    return meanings


def _ambiguous(name: str, meanings: Sequence[str]) -> InputError:
    declare = f"If it is {meanings[0]}, add --map {name}={name}. If not, rename it" * (
        name in ROLES
    )
    return InputError(
        "BAT-017",
        f"the column '{name}' could mean {meanings[0]} or {meanings[1]}.",
        fix=f"{declare or 'Rename it'} where the rows are made, and give the scores in rows with"
        " `criterion` and `raw`, verdicts in rows with `gate` and `verdict`.",
    )


class _ColumnFinder:
    """Finds columns by name and notes which were used."""

    def __init__(
        self,
        columns: Sequence[SourceColumn],
        names: Mapping[str, str],
        *,
        taken: Iterable[str],
    ) -> None:
        there = {column.name for column in columns}
        self._cells = {
            column.name: cell_of(column)._replace(
                written=WRITTEN + column.name if WRITTEN + column.name in there else ""
            )
            for column in columns
            if not column.name.startswith(WRITTEN)
        }
        self._names = names
        self._roles = mapped_columns(names)
        self._taken = {name.lower() for name in taken}
        self._used: set[str] = set()
        self.shown = ", ".join(self._cells) or "no columns"
        for role, name in names.items():
            if role not in ROLES:
                raise InputError(
                    "BAT-003",
                    f"'{role}' is not a column that a batch reads.{near_miss(role, ROLES)}",
                    fix=f"It reads: {', '.join(ROLES)}. A criterion or gate that has a column is"
                    " read by its name: rename the column.",
                )
            if name not in self._cells:
                raise self.missing(role)

    def has_unmapped(self, name: str) -> bool:
        """Whether there is a column of this name that is mapped to no role."""
        return name in self._cells and name not in self._names.values()

    def column(self, name: str, kind: str) -> Cell | None:
        """A column by its own name."""
        cell = self._cells.get(name)
        if cell is None or name in self._names.values():
            return None
        return self._checked(cell, kind)

    def role(self, role: str, kind: str) -> Cell | None:
        """The column of a role, under whatever name."""
        cell = self._cells.get(self._roles.get(role, ""))
        return None if cell is None else self._checked(cell, kind)

    def needed(self, role: str, kind: str) -> Cell:
        """The column of a role that every source has."""
        column = self.role(role, kind)
        if column is None:
            raise self.missing(role)
        return column

    def wide(self, item: BatchCriterion) -> ScoreCells | None:
        """The columns that are named after a criterion."""
        own = item.name
        keys = COUNTS.get(item.formula, ())
        if keys:
            counts = {
                key: cell
                for key in keys
                if (cell := self.column(f"{own}_{key}", "number")) is not None
            }
            if not counts:
                return None
            lacking = [f"{own}_{key}" for key in keys if key not in counts]
            if lacking:
                raise InputError(
                    "BAT-003",
                    f"'{own}' is read by {item.formula}, and the column '{lacking[0]}' is missing.",
                    fix=f"Found: {self.shown}.",
                )
            return ScoreCells(None, self.column(f"{own}_n", "number"), counts)
        raw = None if own in self._used else self.column(own, "number")
        return None if raw is None else ScoreCells(raw, self.column(f"{own}_n", "number"), {})

    def kept(self, name: str) -> Cell:
        """A column to carry through."""
        cell = self._cells.get(name)
        if cell is None:
            raise InputError(
                "BAT-003",
                f"there is no column '{name}' to keep.{near_miss(name, list(self._cells))}",
                fix=f"Found: {self.shown}.",
            )
        if cell.kind == "nested":
            raise _wrong_type(cell, "a plain value")
        if name.lower() in self._taken:
            raise InputError(
                "BAT-003",
                f"the column '{name}' can't be kept: the grades have a column of that name.",
                fix="Rename it where the rows are made.",
            )
        self._used.add(name)
        return cell

    def unused(self) -> tuple[str, ...]:
        """The columns that were not used."""
        return tuple(name for name in self._cells if name not in self._used)

    def missing(self, role: str) -> InputError:
        """The error for a column that is needed."""
        name = self._names.get(role, role)
        missing = f"is missing.{near_miss(name, list(self._cells))}"
        why = missing if role in self._roles else "is mapped to another name."
        column = f"{role}_id" if f"{role}_id" in self._cells else "COLUMN"
        return InputError(
            "BAT-003",
            f"the column '{name}' {why}",
            fix=f"Found: {self.shown}. Name it with `--map {role}={column}`, or in Python with"
            f" `columns={{'{role}': '{column}'}}`.",
        )

    def _checked(self, cell: Cell, kind: str) -> Cell:
        self._used.add(cell.name)
        is_number = cell.kind in NUMBERS
        wrong = (
            (kind == "number" and not is_number)
            or (kind in ("text", "boolean") and cell.kind != kind)
            or cell.kind == "nested"
            or (kind == "name" and cell.kind == "float")  # NaN, -0.0 and 0.1 + 0.2 name nothing
        )
        if wrong:
            raise _wrong_type(cell, _EXPECTED.get(kind, kind))
        return cell


def _wrong_type(cell: Cell, expected: str) -> InputError:
    """The error for a column that has another type than it must have."""
    return InputError(
        "BAT-004",
        f"the column '{cell.name}' has the type {cell.type}; it must be {expected}.",
        fix=f"Convert it where the rows are made, such as CAST({cell.name} AS INT)."
        if cell.kind == "boolean"
        else "Convert it where the rows are made: a batch never guesses what a text means.",
    )


def grade_columns(plan: BatchPlan) -> list[str]:
    """The names of the columns that grades may have."""
    names = [item.name for item in plan.criteria]
    parts = ("norm", "adjusted", "contribution", "n")
    return [*GRADE_COLUMNS, *(f"{part}_{name}" for name in names for part in parts)]


def cell_of(column: SourceColumn) -> Cell:
    """A column as a plan reads it.

    >>> cell_of(SourceColumn("raw", "DECIMAL(18,3)"))
    Cell(name='raw', type='DECIMAL(18,3)', kind='decimal', digits=18, scale=3, written='')
    """
    decimal = _DECIMAL.fullmatch(column.type)
    if decimal is not None:
        return Cell(*column, "decimal", int(decimal[1]), int(decimal[2]))
    plain = column.type.partition("(")[0]
    for kind, types in (("whole", _WHOLE), ("long", _LONG), ("float", _FLOAT), ("text", _TEXT)):
        if plain in types:
            return Cell(*column, kind)
    if plain == "ENUM" and not column.type.endswith("]"):
        return Cell(*column, "text")
    nested = column.type.endswith("]") or plain.partition("<")[0] in _NESTED
    return Cell(*column, "boolean" if plain == "BOOLEAN" else "nested" if nested else "other")
