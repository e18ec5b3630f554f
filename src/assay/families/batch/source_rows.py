"""What each row of a source gives, as SQL: the code of its score, its verdict, its faults.

Grades and rejects are both made from these expressions, so a row that fails a run is a row that the
rejects show.
"""

from __future__ import annotations

from collections.abc import Iterable

from assay.families.batch.layout import Cell, RowLayout, ScoreCells
from assay.families.batch.norms import is_count, largest_n, score_code
from assay.families.batch.plan import BatchPlan
from assay.families.batch.quoting import identifier, text

MAX_RUN_ID = 500
_LARGEST = "1.7976931348623157e308"
IDENTIFIER = r"^[A-Za-z0-9]([A-Za-z0-9_.\-/ ]{0,198}[A-Za-z0-9_.\-/])?\z"
"""`registry.identifier_fault` as an expression that DuckDB and Spark both read."""

_GATES_PER_WORD = 31


class RowExpressions:
    """The expressions of one plan over the columns of one view."""

    def __init__(self, plan: BatchPlan, layout: RowLayout, view: str) -> None:
        self.plan = plan
        self.layout = layout
        self.view = identifier(view)
        self.run = identifier(layout.run.name)
        self._max_n = largest_n(plan.shrinkage)
        self.wide = tuple(
            i for i, criterion in enumerate(plan.criteria) if criterion.name in layout.wide
        )
        self.wide_gates = tuple(i for i, gate in enumerate(plan.gates) if gate in layout.wide_gates)

    def long_code(self, name: str) -> str:
        """The code of a long row's score; NULL where its criterion isn't the profile's."""
        score = self.layout.score
        whens = " ".join(
            f"WHEN {name} = {text(item.name)} THEN {score_code(item, score, self._max_n)}"
            for item in self.plan.criteria
        )
        return f"CASE {whens} END"

    def wide_code(self, index: int) -> str:
        """The code of a wide score; NULL where it is empty, as in a row of another file."""
        item = self.plan.criteria[index]
        code = score_code(item, self.layout.wide[item.name], self._max_n)
        return f"CASE WHEN {self.wide_given(index)} THEN {code} END"

    def wide_given(self, index: int) -> str:
        """Whether a row gives a wide score, right or wrong."""
        cells = self.layout.wide[self.plan.criteria[index].name]
        given = [cells.raw] if cells.raw is not None else list(cells.counts.values())
        return f"({' OR '.join(f'NOT {identifier(cell.name)} IS NULL' for cell in given)})"

    def wide_verdicts(self) -> list[str]:
        """The verdicts of a row's wide gates, one bit for true and one for false; as many words as
        it takes. A row of a table that repeats them says the same again, and an empty one nothing.
        """
        words: dict[int, list[str]] = {}
        for index in self.wide_gates:
            word, bit = self.verdict_bit(index)
            name = identifier(self.layout.wide_gates[self.plan.gates[index]].name)
            words.setdefault(word, []).append(
                f"CASE WHEN {name} IS NULL THEN 0 WHEN {name} THEN {bit} ELSE {2 * bit} END"
            )
        return [f"CAST({' + '.join(bits)} AS BIGINT)" for bits in words.values()]

    def bad_wide_verdicts(self) -> str | None:
        """How many cells of a row's wide gates have text that isn't a verdict; None if none can."""
        cells = [self.layout.wide_gates[self.plan.gates[index]] for index in self.wide_gates]
        bad = [
            f"CASE WHEN {is_bad_verdict(cell)} THEN 1 ELSE 0 END" for cell in cells if cell.written
        ]
        return " + ".join(bad) or None

    def verdict_bit(self, index: int) -> tuple[int, int]:
        """The word of a wide gate, and its bit for true; the next one is for false."""
        word, place = divmod(self.wide_gates.index(index), _GATES_PER_WORD)
        return word, 4**place

    def wide_n(self, index: int) -> Cell | None:
        """The column of a wide criterion's sample size."""
        cells = self.layout.wide.get(self.plan.criteria[index].name)
        return None if cells is None else cells.n

    def sample_size(self, cell: Cell) -> str:
        """The n of a row; NULL where it isn't a sample size."""
        name = identifier(cell.name)
        return (
            f"CASE WHEN {is_count(cell, self._max_n)} THEN CAST(COALESCE({name}, 1) AS BIGINT) END"
        )

    def stray(self) -> str | None:
        """Whether a row has a score or a verdict that belongs to nothing."""
        layout, conditions = self.layout, []
        if layout.criterion is not None:
            scores = [layout.score.raw, *layout.score.counts.values()]
            given = " OR ".join(
                f"NOT {identifier(cell.name)} IS NULL" for cell in scores if cell is not None
            )
            conditions.append(f"({identifier(layout.criterion.name)} IS NULL AND ({given}))")
        if layout.gate is not None and layout.verdict is not None:
            given = f"NOT {identifier(layout.verdict.written or layout.verdict.name)} IS NULL"
            conditions.append(f"({identifier(layout.gate.name)} IS NULL AND {given})")
        return " OR ".join(conditions) or None

    def no_run(self, name: str) -> str:
        """Whether a run has no id that a scorecard could have."""
        if self.layout.run.kind != "text":
            return f"{name} IS NULL"
        size = f"LENGTH({name})"
        return f"({name} IS NULL OR {size} = 0 OR {size} > {MAX_RUN_ID})"


def is_bad_verdict(cell: Cell) -> str:
    """Whether a cell has a text that isn't a verdict."""
    if not cell.written:
        return "FALSE"
    return f"({identifier(cell.name)} IS NULL AND NOT {identifier(cell.written)} IS NULL)"


def index_of(name: str, names: Iterable[str]) -> str:
    """Which of the plan's criteria or gates a long row names, by its number; NULL for another."""
    whens = " ".join(f"WHEN {name} = {text(one)} THEN {i}" for i, one in enumerate(names))
    return f"CASE {whens} END" if whens else "CAST(NULL AS INTEGER)"


def raw_text(cells: ScoreCells) -> str:
    """The score of a row as text, for people."""
    if not cells.counts:
        assert cells.raw is not None
        return cell_text(cells.raw)
    parts = [f"COALESCE({cell_text(cell)}, '-')" for cell in cells.counts.values()]
    counts = " || '/' || ".join(parts)
    if cells.raw is None:
        return counts
    return f"COALESCE({cell_text(cells.raw)}, {counts})"


def cell_text(cell: Cell) -> str:
    """A column as text. Engines spell NaN and the infinities differently."""
    if cell.written:
        return identifier(cell.written)
    name = identifier(cell.name)
    if cell.kind != "float":
        return f"CAST({name} AS VARCHAR)"
    return (
        f"CASE WHEN ISNAN({name}) THEN 'nan' WHEN {name} > {_LARGEST} THEN 'inf'"
        f" WHEN {name} < -{_LARGEST} THEN '-inf' ELSE CAST({name} AS VARCHAR) END"
    )
