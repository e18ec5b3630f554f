"""Graded samples for the tools of `assay mcp`: of an evaluation, of a stored run, or of a file.

A sample is found by the id of its run, by its own id, or by its dataset and id. Records of a ledger
are read where they are, in blocks, so that an evaluation of any size needs no memory.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from assay.canon import plain
from assay.cli.grade import choice_of
from assay.cli.ledger_names import LedgerNames, Named
from assay.errors import NotEnoughEvidence, UsageError
from assay.files.json_files import read_documents
from assay.records.samples import names_of
from assay.registry import is_path, near_miss
from assay.services.evaluations import StoredEvaluation, stored_grades, stored_runs
from assay.services.given_grades import grades_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from assay.cli.mcp_project import ServedProject
    from assay.records.evaluation import EvaluatedRun, Evaluation
    from assay.store.ledger import Ledger

KNOWN = 10_000
"""Names that are remembered, for the near miss of one that is absent."""
AMONG = 20
"""Runs of one sample that are listed."""
MOST = 1000
"""Runs of one sample, over all evaluations, that are looked at."""


class GradedSample(NamedTuple):
    """One run of a sample with its grade. A scorecard has no run, a run that could not be graded
    has no grade.
    """

    run: Mapping[str, Any] | None
    grade: Mapping[str, Any] | None

    @property
    def names(self) -> tuple[Any, ...]:
        """What a client may call it: the id of its run, its sample, alone or with its dataset."""
        return names_of(self.grade or self.run or {})

    @property
    def run_id(self) -> str:
        """The id of its run."""
        return str(self.names[0])


class FoundSample(NamedTuple):
    """The sample that a client asked for, and other runs of it."""

    sample: GradedSample
    others: list[str]


class GradedRuns:
    """The runs that a client means, each with its grade."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.stored: StoredEvaluation | None = None
        """The evaluation that they belong to, if they do."""

    def grades(self) -> Iterator[Mapping[str, Any]]:
        """The grade of each run that has one, in order."""
        return (sample.grade for sample in self.samples() if sample.grade is not None)

    def samples(self) -> Iterator[GradedSample]:
        """Each run with its grade, in order."""
        raise NotImplementedError

    def find(self, name: str) -> FoundSample:
        """The first run of a sample; an error with the near miss if there is none."""
        matches: list[GradedSample] = []
        others: list[str] = []
        for sample in self.samples():
            if name in sample.names:
                matches.append(
                    sample if not matches else GradedSample({"run_id": sample.run_id}, None)
                )
            elif len(others) < KNOWN:
                others += [str(each) for each in sample.names if each]
            if len(matches) > AMONG or (matches and name == matches[0].run_id):
                break
        if not matches:
            raise UsageError(
                "MCP-001",
                f"no sample is named {name[:120]!r}.{near_miss(name, others)}",
                where=self.name,
                fix="`explain_grade` without a sample lists the samples that did not pass.",
            )
        return FoundSample(matches[0], [sample.run_id for sample in matches[1:]])


class _OfLedger(GradedRuns):
    def __init__(self, name: str, ledger: Ledger, named: Named, project: str) -> None:
        super().__init__(name)
        self._ledger, self._project = ledger, project
        self.stored, self._run = named

    def grades(self) -> Iterator[Mapping[str, Any]]:
        if self.stored is None:
            yield from super().grades()
            return
        for item in stored_grades(self._ledger, self.stored, project=self._project):
            yield item.tree()

    def samples(self) -> Iterator[GradedSample]:
        if self.stored is None:
            assert self._run is not None
            run = self._run.tree()
            page = self._ledger.find(
                "grade",
                {"run_id": run["run_id"]},
                project=self._project,
                limit=1,
                newest_first=True,
            )
            yield GradedSample(run, page.items[0].tree() if page.items else None)
            return
        grades = stored_grades(self._ledger, self.stored, project=self._project)
        runs = stored_runs(self._ledger, self.stored, project=self._project)
        for evaluated, run in zip(self.stored.evaluation.runs, runs, strict=True):
            graded = None if evaluated.grade is None else next(grades)
            yield GradedSample(run.tree(), None if graded is None else graded.tree())

    def find(self, name: str) -> FoundSample:
        """As above, but by the indexes of the ledger."""
        runs = [] if self.stored is None else self._named(self.stored.evaluation, name)
        if not runs:
            return super().find(name)
        wanted = [runs[0].digest, *([runs[0].grade] if runs[0].grade is not None else [])]
        items = self._ledger.get_many(wanted, project=self._project)
        if any(items.get(digest) is None for digest in wanted):
            return super().find(name)  # which says what is lost
        trees = [items[digest].tree() for digest in wanted]
        others = [run.run_id for run in runs[1 : AMONG + 1]]
        return FoundSample(GradedSample(trees[0], trees[1] if trees[1:] else None), others)

    def _named(self, evaluation: Evaluation, name: str) -> list[EvaluatedRun]:
        """The runs of the evaluation that have a name."""
        by_id = [run for run in evaluation.runs if run.run_id == name]
        if by_id:
            return by_id
        dataset = evaluation.dataset.id
        filters = {
            "workflow": evaluation.workflow.id,
            "dataset": dataset,
            "sample_id": name.removeprefix(f"{dataset}/"),
        }
        page = self._ledger.find(
            "run", filters, project=self._project, limit=MOST, newest_first=True
        )
        digests = {item.digest for item in page.items}
        return [run for run in evaluation.runs if run.digest in digests]


class _OfFile(GradedRuns):
    def __init__(self, name: str, options: Any) -> None:
        super().__init__(name)
        self._path = options.file
        self._grader = choice_of(options).grader()

    def samples(self) -> Iterator[GradedSample]:
        for document in read_documents(self._path):
            for graded in grades_of(document, self._grader):
                run = None if graded.run is None else document.tree
                yield GradedSample(run, plain(graded.payload()))


@contextmanager
def graded_runs(project: ServedProject, reference: str) -> Iterator[GradedRuns]:
    """The runs that a client names, while somebody reads them. Those of a ledger have the grades
    that were stored with them; those of a file are graded now, as `assay explain` grades them.
    """
    checked = project.reference(reference)
    if is_path(checked):
        with project.working("explain", checked) as options:
            yield _OfFile(checked, options)
        return
    options = project.options("explain", checked)
    with LedgerNames(options) as names:
        named = names.get(checked)
        label = checked if named.evaluation is None else named.evaluation.evaluation.name
        yield _OfLedger(label, names.opened(checked), named, options.project)


def nothing_graded(name: str) -> NotEnoughEvidence:
    """The error for runs of which none has a grade."""
    return NotEnoughEvidence("FIL-005", "none of its runs was graded.", where=name)
