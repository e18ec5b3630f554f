"""Grades existing runs and makes evaluations of them, for `import` and for the server.

A run that can't be graded is stored without a grade and counts against the evaluation; the reason
is counted. An evaluation covers one version of a workflow on one version of a dataset, so runs of
several versions become several evaluations.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from assay.archive.evaluation_builder import EvaluationBuilder
from assay.archive.grades import NO_BASIS, Basis, drafts_of, settled
from assay.canon import time_of
from assay.errors import InputError
from assay.files.json_files import Document
from assay.pipeline.grading import Grader
from assay.records.evaluation import Evaluation, VersionedName
from assay.records.reading import read_run
from assay.store.drafts import Draft, evidence_draft

Take = Callable[[list[Draft]], None]


class RunGroup:
    """One version of a workflow on one version of a dataset, and when its runs were made. The runs
    themselves are not kept.
    """

    def __init__(self, run: Mapping[str, Any]) -> None:
        self.workflow, self.dataset = (
            VersionedName(id=str(run[what]["id"]), version=str(run[what]["version"]))
            for what in ("workflow", "dataset")
        )
        self._key = _key(run)
        self._first: datetime | None = None
        self._last: datetime | None = None

    def add(self, run: Mapping[str, Any]) -> None:
        """Count a run."""
        for name in ("started_at", "finished_at"):
            moment = time_of(run.get(name), UTC)
            if moment is not None:
                self._first = moment if self._first is None else min(self._first, moment)
                self._last = moment if self._last is None else max(self._last, moment)

    def span(self, now: datetime) -> tuple[datetime, datetime]:
        """When the first run started and the last one finished; the current time if the runs don't
        state it.
        """
        return self._first or now, self._last or now

    def has(self, run: Mapping[str, Any]) -> bool:
        """Whether a run is of these versions."""
        return _key(run) == self._key


class MadeEvaluation(NamedTuple):
    """An evaluation without its list of runs, and how many runs have no grade, by the reason."""

    evaluation: Evaluation
    ungraded: Mapping[str, int]


def run_groups(runs: Iterable[Mapping[str, Any]]) -> list[RunGroup]:
    """Runs grouped by workflow and dataset, in the order of the first run of each group."""
    groups: dict[tuple[str, ...], RunGroup] = {}
    for run in runs:
        group = groups.get(_key(run))
        if group is None:
            group = groups[_key(run)] = RunGroup(run)
        group.add(run)
    return list(groups.values())


def _key(run: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(
        str(run[what][part]) for what in ("workflow", "dataset") for part in ("id", "version")
    )


def evaluate_runs(
    documents: Iterable[Document],
    grader: Grader,
    builder: EvaluationBuilder,
    take: Take,
    *,
    finished: datetime,
    basis: Basis = NO_BASIS,
    author: str | None = None,
) -> MadeEvaluation:
    """Grade runs and make their evaluation. `take` gets the drafts of each run, and the evaluation
    last.
    """
    ungraded: Counter[str] = Counter()
    for document in documents:
        group = list(_drafts(settled(document), grader, basis, author, ungraded))
        take(group)
        run = next(draft for draft in group if draft.kind == "run")
        grade = next((draft for draft in group if draft.kind == "grade"), None)
        builder.add_stored(run.body, None if grade is None else grade.body)
    evaluation, last = builder.drafted(finished, author=author)
    take([last])
    return MadeEvaluation(evaluation, ungraded)


def _drafts(
    document: Document,
    grader: Grader,
    basis: Basis,
    author: str | None,
    ungraded: Counter[str],
) -> Sequence[Draft] | Iterator[Draft]:
    try:
        graded = grader.grade(document)
        if graded.run is None:
            read_run(document)
        return drafts_of(graded, basis=basis, author=author)
    except InputError as error:
        run = read_run(document)  # anything but a run is an error, not a run without a grade
        ungraded[f"{error.message} {error.fix}".rstrip()] += 1
        return [evidence_draft(run, author=author)]
