"""The SQL that reads the runs of a batch output for a summary or a decision, in whole numbers:
scores in hundredths, norms in billionths. It is written in DuckDB's dialect; `sqlglot` translates
it for the engine.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from assay.errors import InputError
from assay.exact import NORM_ONE
from assay.families.batch.engine import BatchEngine, SourceColumn, ask
from assay.families.batch.layout import NUMBERS, cell_of
from assay.families.batch.norms import NUMBER
from assay.families.batch.plan import BatchPlan
from assay.families.batch.quoting import identifier, text

SAMPLE, GROUP, ATTEMPT = "sample", "group", "attempt"
TAG, FAMILY = "tag", "family"
DATASET_VERSION, JUDGE = "dataset_version", "judge"
DECIDED = (SAMPLE, GROUP, ATTEMPT, DATASET_VERSION, JUDGE)
"""The kept columns that a decision looks for."""
LIST_TYPES = ("VARCHAR[]", "ARRAY<STRING>")
MAX_EXTRA_GATES = 100
"""Gates beyond those of the profile."""


class BatchView(NamedTuple):
    """A batch output that an engine can read."""

    view: str
    columns: Mapping[str, str]
    """The engine's type of each column."""


def decided_name(column: str) -> str:
    """What a decision calls a kept column: names in SQL have no case.

    >>> decided_name("Sample"), decided_name("Team")
    ('sample', 'Team')
    """
    return column.lower() if column.lower() in DECIDED else column


def any_of(parts: Iterable[str]) -> str:
    """Whether one of these holds."""
    listed = list(parts)
    return f"({' OR '.join(listed)})" if listed else "FALSE"


def total(expression: str) -> str:
    """A sum that can't overflow."""
    return f"SUM(CAST({expression} AS DECIMAL(38, 0)))"


def count_if(condition: str) -> str:
    """How many rows satisfy a condition."""
    return f"COUNT(CASE WHEN {condition} THEN 1 END)"


class BatchRunQuery:
    """The runs of batches under one plan: `gates`, `floors` and `criteria` are numbered as in the
    plan, and the gates that it lacks come after them.
    """

    def __init__(self, plan: BatchPlan, *, extra_gates: Sequence[str] = ()) -> None:
        self.plan = plan
        self.gates = list(enumerate([*plan.gates, *extra_gates]))
        self.extra = self.gates[len(plan.gates) :]
        self.floors = [
            (index, criterion.name)
            for index, criterion in enumerate(plan.criteria)
            if criterion.floor is not None
        ]

    def runs(self, side: BatchView, *more: str) -> str:
        """The runs of a batch, with a column of 1 and 0 for each verdict, and `more` columns."""
        columns = self._named(side)
        columns += [f"{has_item('failed_gates', gate)} AS g{index}" for index, gate in self.gates]
        columns += [
            f"{has_item('undetermined_gates', gate)} AS u{index}" for index, gate in self.gates
        ]
        columns += [f"{has_item('extra_gates', gate)} AS h{index}" for index, gate in self.extra]
        columns += [
            f"{has_item('failed_floors', floor)} AS f{index}" for index, floor in self.floors
        ]
        return f"SELECT {', '.join([*columns, *more])} FROM {identifier(side.view)}"

    def listed(self, side: BatchView) -> str:
        """The same runs as a decision reads them: with lists of verdicts, `tag` and `family`."""
        columns = [
            *self._named(side),
            "failed_gates",
            "undetermined_gates",
            "extra_gates",
            "failed_floors",
            "missing",
            *(f"NULLIF(CAST({_kept(side, name)} AS VARCHAR), '')" for name in (TAG, FAMILY)),
        ]
        return f"SELECT {', '.join(columns)} FROM {identifier(side.view)}"

    def _named(self, side: BatchView) -> list[str]:
        """The run, its sample and its numbers."""
        run = f"CAST({identifier('run')} AS VARCHAR)"
        sample = (
            f"COALESCE(CAST({identifier(SAMPLE)} AS VARCHAR), {run})"
            if SAMPLE in side.columns
            else run
        )
        return [
            f"{run} AS run",
            f"{sample} AS sample",
            f"{_attempt(side)} AS attempt",
            f"NULLIF(CAST({_kept(side, GROUP)} AS VARCHAR), '') AS grp",
            "CASE WHEN passed THEN 1 ELSE 0 END AS p",
            f"{_units('score', 100)} AS score",
            *(
                f"{_units(f'norm_{criterion.name}', NORM_ONE)} AS n{index}"
                for index, criterion in enumerate(self.plan.criteria)
            ),
        ]


def extra_gate_names(engine: BatchEngine, plan: BatchPlan, *sides: BatchView) -> list[str]:
    """The gates beyond the plan's that runs of these batches have."""
    if any(side.columns.get("extra_gates") not in LIST_TYPES for side in sides):
        return []  # such a batch is refused by name: see `summary`
    listed = " UNION ".join(
        f"SELECT DISTINCT UNNEST(extra_gates) AS gate FROM {identifier(side.view)}"
        for side in sides
    )
    rows = ask(engine, f"SELECT DISTINCT gate FROM ({listed}) AS listed ORDER BY gate")
    if len(rows) > MAX_EXTRA_GATES:
        raise InputError(
            "BAT-060",
            f"the batches have {len(rows):,} gates that {plan.profile} lacks, and at most"
            f" {MAX_EXTRA_GATES} can be counted.",
            fix="Add those that matter to the profile, and grade again without the others.",
        )
    return [str(row[0]) for row in rows]


def bad_attempt(side: BatchView) -> str:
    """Whether a run has an attempt that isn't a whole number from 1."""
    attempt = _attempt(side)
    is_other = f"CAST({attempt} AS DOUBLE) <> {_attempt_number(side)} OR {attempt} < 1"
    return f"NOT {_kept(side, ATTEMPT)} IS NULL AND COALESCE({is_other}, TRUE)"


def _attempt(side: BatchView) -> str:
    return f"TRY_CAST({_attempt_number(side)} AS BIGINT)"


def _attempt_number(side: BatchView) -> str:
    """The attempt as a double; NULL for what isn't a number, such as '1d', which Spark reads."""
    kept = _kept(side, ATTEMPT)
    if cell_of(SourceColumn(ATTEMPT, side.columns.get(ATTEMPT, ""))).kind not in NUMBERS:
        written = f"CAST({kept} AS VARCHAR)"
        kept = f"CASE WHEN REGEXP_MATCHES({written}, {text(NUMBER)}) THEN {written} END"
    return f"TRY_CAST({kept} AS DOUBLE)"


def _kept(side: BatchView, column: str) -> str:
    return identifier(column) if column in side.columns else "NULL"


def _units(column: str, scale: int) -> str:
    """A number in whole units; NULL for NaN and the infinities."""
    return f"TRY_CAST(ROUND({identifier(column)} * {scale}e0) AS BIGINT)"


def has_item(column: str, item: str) -> str:
    """Whether a list has an item, as 1 or 0."""
    return f"CASE WHEN COALESCE(ARRAY_CONTAINS({column}, {text(item)}), FALSE) THEN 1 ELSE 0 END"
